package nodes

import (
	"fmt"
	"testing"
	"time"

	"tidings/tests/world"
)

// Web Push always brings the total, which includes what each category adds to it, to the icon of a closed page. A category alerts only
// if the user wants that. Items that came while the category did not alert do not alert later.
func TestPreferencesDecideWhichCategoriesAlert(t *testing.T) {
	n, push := startPushNode(t)
	userBrowser{push.Subscribe("phone"), n}.register("ann")
	userBrowser{push.Subscribe("other"), n}.register("eve")
	shows := func(what, browser string, total int, part string) {
		t.Helper()
		world.Eventually(t, 30*time.Second, what, func() bool {
			m, some := push.LastMessage(browser)
			if !some || m.Total != total || m.Silent != (part == "") {
				return false
			}
			return part == "" || m.Cause != nil && m.Cause.Part != nil && *m.Cause.Part == part
		})
	}
	prefer := func(settings string) {
		t.Helper()
		n.MustAsk("ann", `mutation{setCategoryPreference(input:{category:"LIKE",`+settings+`}){changed}}`, nil, nil)
	}
	like := func(author string) {
		t.Helper()
		n.MustAsk("bob", `mutation($p:ID!){likePost(input:{postId:$p}){post{id}}}`, map[string]any{"p": n.Publish(author, "a post")}, nil)
	}
	like("ann")
	shows("a like", "phone", 1, "LIKE")
	prefer("push:false")
	like("ann")
	shows("a like without an alert", "phone", 2, "")
	like("eve")
	shows("a like of somebody else", "other", 1, "LIKE")
	n.MustAsk("bob", `mutation{publishPost(input:{body:"@ann"}){post{id}}}`, nil, nil)
	shows("a mention", "phone", 3, "MENTION")
	prefer("mode:DOT,push:null")
	shows("the likes are a dot", "phone", 1, "")
	like("ann")
	world.Eventually(t, 30*time.Second, "the dot has three", func() bool { return n.Badges("ann").Notifications.Like.Value == 3 })
	prefer("mode:null")
	shows("the likes count again", "phone", 4, "")
	like("ann")
	shows("a like that alerts", "phone", 5, "LIKE")
	prefer("mode:OFF")
	shows("the likes are off", "phone", 1, "")
	like("ann")
	n.MustAsk("bob", `mutation{publishPost(input:{body:"@ann again"}){post{id}}}`, nil, nil)
	shows("a mention after a like that is off", "phone", 2, "MENTION")
	wanted := map[string]bool{"1 LIKE": true, "3 MENTION": true, "5 LIKE": true, "2 MENTION": true}
	for _, arrival := range push.TakeArrivals() {
		if m := arrival.Message; m.UserID == "user:ann" && !m.Silent && !wanted[fmt.Sprint(m.Total, " ", *m.Cause.Part)] {
			t.Errorf("an alert: %+v", m)
		}
	}
}
