package nodes

import (
	"fmt"
	"testing"

	"tidings/services/chat"
	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// newRoomCountedOnRead makes a room of an owner and members, and sends a first message. The room has more members than
// chat.Settings.MaxMembersCountedOnWrite, so each member's messages are counted when the member reads. say sends a further message of
// the owner through the node n.
func newRoomCountedOnRead(t *testing.T, n *world.Node, owner string, members ...string) (room string, say func(n *world.Node)) {
	t.Helper()
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	keys := make([]string, len(members))
	for i, member := range members {
		keys[i] = "user:" + member
	}
	n.CreateUsers(members...)
	n.MustAsk(owner, `mutation($m:[ID!]!){createConversation(input:{kind:ROOM,title:"den",memberIds:$m}){conversation{id}}}`, map[string]any{"m": keys}, &data)
	room = data.CreateConversation.Conversation.ID
	say = func(n *world.Node) {
		t.Helper()
		n.MustAsk(owner, `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"hm"}){badges{version}}}`, map[string]any{"c": room}, nil)
	}
	say(n)
	world.Eventually(t, world.DeviceUpdateTimeout, "the room is counted when it is read", func() bool { return countingWayOf(t, n, room) == chat.OnRead })
	return room, say
}

// isDotLit reports whether a device shows a dot as lit.
func isDotLit(b world.Badges, dot string) bool {
	for _, one := range b.Dots {
		if one.Name == dot {
			return one.Lit
		}
	}
	return false
}

// A message is sent through one node while a dot that another node raised before it is still unknown there. The device on the first
// node gets both changes, although its node learns of them in the wrong order.
func TestADeviceGetsChangesThatItsNodeLearnsOutOfOrder(t *testing.T) {
	p := world.StartNodePair(t, redistest.Redis(t), func(cfg *node.Config) { cfg.Chat.MaxMembersCountedOnWrite = 1 })
	_, say := newRoomCountedOnRead(t, p.A, "alice", "bob", "carol")
	p.A.RaiseDot(map[string]any{"name": "shop"})
	device := world.OpenBadgeSubscription(t, p.B.URL, "bob")
	shows := func(unread int, lit bool) {
		t.Helper()
		world.EventuallySucceeds(t, world.DeviceUpdateTimeout, func() error {
			got, err := device.ShownBadges()
			if err != nil {
				t.Fatal(err)
			}
			if got.Conversations.Total.Value != unread || isDotLit(got, "shop") != lit {
				return fmt.Errorf("the device shows %d unread and the dots %v at %q, want %d and %t",
					got.Conversations.Total.Value, got.Dots, got.Version, unread, lit)
			}
			return nil
		})
	}
	shows(1, false)
	for round := range 10 {
		p.A.RaiseDot(map[string]any{"name": "shop"})
		say(p.B)
		shows(round+2, true)
		p.B.MustAsk("bob", `mutation{clearDot(input:{name:"shop"}){badges{version}}}`, nil, nil)
		shows(round+2, false)
	}
}

// A server restarts on a Redis that still has its data. It never answers with a version below the last one that a device has,
// whichever kind of change came last.
func TestVersionsRiseOverARestart(t *testing.T) {
	redis := redistest.NewServer(t)
	database := sqltest.SQLite(t)
	start := func() *world.Node {
		return world.StartNode(t, world.NodeOptions{Database: database, Redis: redis.URL(), ChangeConfig: func(cfg *node.Config) {
			cfg.Chat.MaxMembersCountedOnWrite, cfg.Fanout.BigFollowers, cfg.Fanout.HugeFollowers = 1, 1, 1
		}})
	}
	n := start()
	_, say := newRoomCountedOnRead(t, n, "alice", "bob", "carol")
	// In this test bob's total does not include the live board.
	n.MustAsk("bob", `mutation{setDisplayPolicy(input:{sources:[{source:LIVE_BOARD,inTotal:false}]}){badges{version}}}`, nil, nil)
	n.Follow("bob", "huge")
	n.Follow("bob", "host")
	show := n.GoLive("host")
	acts := []func(){
		func() { say(n) },
		func() { n.RaiseDot(map[string]any{"name": "shop"}) },
		func() {
			n.MustAsk("host:ingest", `mutation{publishAnnouncement(input:{title:"t",content:"c"}){announcement{id}}}`, nil, nil)
		},
		func() { n.Publish("huge", "a post") },
		func() { n.MutateShow("host", "endShow", show); show = n.GoLive("host") },
	}
	last := ""
	for round := range 6 {
		device := world.OpenBadgeSubscription(t, n.URL, "bob")
		world.EventuallySucceeds(t, world.DeviceUpdateTimeout, func() error {
			got, err := device.ShownBadges()
			if err == nil && got.Version == "" {
				err = fmt.Errorf("nothing is shown")
			}
			return err
		})
		if got, _ := device.ShownBadges(); got.Version < last {
			t.Errorf("after start %d the version is %s, and the last one before it was %s", round, got.Version, last)
		}
		// The node must learn each act separately, because together they could be one change.
		for i := range acts {
			act, before := acts[(i+round)%len(acts)], ""
			got, _ := device.ShownBadges()
			before = got.Version
			act()
			world.Eventually(t, world.DeviceUpdateTimeout, "the device is shown the change", func() bool {
				got, _ = device.ShownBadges()
				return got.Version > before
			})
		}
		got, err := device.ShownBadges()
		if err != nil {
			t.Fatal(err)
		}
		last = max(last, got.Version, n.Badges("bob").Version)
		n.Stop()
		n = start()
	}
}
