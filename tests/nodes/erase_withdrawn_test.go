package nodes

import (
	"testing"

	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// A notification of the host application that was withdrawn before its job ran has no recipient by whom an erasure could find it. Its
// texts go with the withdrawal.
func TestErasureLeavesNoWithdrawnNotification(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		n := world.StartNode(t, world.NodeOptions{Database: url, Redis: "embedded", Manual: true})
		l := newActingPeople(n, 1, 2)
		n.Must("boss:admin", `mutation{defineCategory(input:{name:"orders",grouped:true}){created}}`, nil, nil)
		n.Must("host:ingest", `mutation{
			notify(input:{category:"orders",title:"`+secret+` title",body:"`+secret+` body",groupKey:"`+secret+`",
				url:"https://example.com/`+secret+`",data:{of:"`+secret+`"},ref:"o1",to:["user:`+leaver+`"]}){created}
			withdrawNotification(input:{hostNotificationId:"hostNotification:ref:o1"}){changed}}`, nil, nil)
		eraseLeaver(n)
		n.Settle()
		for _, found := range findRemains(n, nil) {
			t.Errorf("left: %s", found)
		}
		l.wantAgreement()
	})
}
