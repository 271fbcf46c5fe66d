package model

import (
	"fmt"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/tests/world"
)

// A new item of a general view, its removal, and a touch of the view are pushed to each open subscription of the users who have touched
// the view, through any node. The total excludes the count of views at first, and includes it once the user's display policy says so.
func TestViewsArePushedToEveryDevice(t *testing.T) {
	p := world.StartNodePair(t, redistest.Redis(t), nil)
	one, two, other := world.OpenBadgeSubscription(t, p.A.URL, "alice"), world.OpenBadgeSubscription(t, p.B.URL, "alice"), world.OpenBadgeSubscription(t, p.B.URL, "bob")
	pushed := func(when string, views, total int) {
		t.Helper()
		for i, device := range []*world.BadgeSubscription{one, two, other} {
			wantViews, wantTotal := views, total
			if device == other {
				wantViews, wantTotal = 0, 0
			}
			world.EventuallySucceeds(t, world.DeviceUpdateTimeout, func() error {
				got, err := device.ShownBadges()
				if err == nil && (got.Version == "" || got.Views.Value != wantViews || got.Total.Value != wantTotal) {
					err = fmt.Errorf("%s: device %d shows %+v in a total of %+v, want %d and %d", when, i, got.Views, got.Total, wantViews, wantTotal)
				}
				return err
			})
		}
	}
	host := func(n *world.Node, mutation string) {
		t.Helper()
		n.MustAsk("host:ingest", mutation, nil, nil)
	}
	add := func(n *world.Node, item string) {
		t.Helper()
		host(n, fmt.Sprintf(`mutation{addViewItem(input:{code:"news",key:"town",item:%q,at:%q}){changed}}`, item, n.Clock.Now().UTC().Format(time.RFC3339Nano)))
	}
	touch := func(n *world.Node) {
		t.Helper()
		n.MustAsk("alice", `mutation{touchView(input:{code:"news",key:"town"}){badges{version}}}`, nil, nil)
	}
	pushed("at first", 0, 0)
	touch(p.A)
	add(p.A, "a")
	pushed("an item", 1, 0)
	add(p.B, "b")
	pushed("an item through the other node", 2, 0)
	host(p.B, `mutation{removeViewItem(input:{code:"news",key:"town",item:"a"}){changed}}`)
	pushed("an item goes", 1, 0)
	p.B.MustAsk("alice", `mutation{setDisplayPolicy(input:{sources:[{source:VIEWS,inTotal:true}]}){badges{version}}}`, nil, nil)
	pushed("the policy lets views in", 1, 1)
	add(p.A, "c")
	pushed("an item with it", 2, 2)
	touch(p.B)
	pushed("seen on one device", 0, 0)
}
