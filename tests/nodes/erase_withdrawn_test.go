package nodes

import (
	"testing"

	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// A notification of the host application that was withdrawn before its job ran has no recipient in SQL, so the erasure of its recipient
// cannot find it. Its texts, which may name the user, are deleted when it is withdrawn.
func TestErasureLeavesNoWithdrawnNotification(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		n := world.StartNode(t, world.NodeOptions{Database: url, Redis: "embedded", ManualStepping: true})
		l := newRandomActors(n, 1, 2)
		n.MustAsk("boss:admin", `mutation{defineCategory(input:{name:"orders",grouped:true}){created}}`, nil, nil)
		n.MustAsk("host:ingest", `mutation{
			notify(input:{category:"orders",title:"`+leaverTextMarker+` title",body:"`+leaverTextMarker+` body",groupKey:"`+leaverTextMarker+`",
				url:"https://example.com/`+leaverTextMarker+`",data:{of:"`+leaverTextMarker+`"},ref:"o1",to:["user:`+leaverKey+`"]}){created}
			withdrawNotification(input:{hostNotificationId:"hostNotification:ref:o1"}){changed}}`, nil, nil)
		eraseLeaver(n)
		n.SettleJobsAndCaches()
		for _, found := range findLeaverData(n, nil) {
			t.Errorf("left: %s", found)
		}
		l.wantCorrectCounts()
	})
}
