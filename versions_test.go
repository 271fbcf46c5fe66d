package main

import (
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/rdb/rdbtest"
	"tidings/services/store/storetest"
)

// den makes a room that is counted when it is read, with two members beside its owner.
func den(t *testing.T, n *node, owner string, members ...string) (room string, say func(n *node)) {
	t.Helper()
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	keys := make([]string, len(members))
	for i, member := range members {
		keys[i] = "user:" + member
	}
	n.people(members...)
	n.must(owner, `mutation($m:[ID!]!){createConversation(input:{kind:ROOM,title:"den",memberIds:$m}){conversation{id}}}`, map[string]any{"m": keys}, &data)
	room = data.CreateConversation.Conversation.ID
	say = func(n *node) {
		t.Helper()
		n.must(owner, `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"hm"}){badges{version}}}`, map[string]any{"c": room}, nil)
	}
	say(n)
	eventually(t, soon, "the room is counted when it is read", func() bool { return wayOf(t, n, room) == services.ReadSide })
	return room, say
}

// lit says whether a device shows a dot as lit.
func (b badges) lit(dot string) bool {
	for _, one := range b.Dots {
		if one.Name == dot {
			return one.Lit
		}
	}
	return false
}

// A node learns of a message in its own room before it learns of a dot that another node raised earlier. The device is
// shown both all the same.
func TestADeviceIsShownWhatItsNodeLearnsLate(t *testing.T) {
	p := startPair(t, rdbtest.Redis(t), func(cfg *Config) { cfg.MaxWriteMembers = 1 })
	_, say := den(t, p.a, "alice", "bob", "carol")
	p.a.raiseDot(map[string]any{"name": "shop"})
	device := openWatch(t, p.b.url, "bob")
	shows := func(unread int, lit bool) {
		t.Helper()
		converge(t, soon, func() error {
			got, err := device.shown()
			if err != nil {
				t.Fatal(err)
			}
			if got.Conversations.Total.Value != unread || got.lit("shop") != lit {
				return fmt.Errorf("the device shows %d unread and the dots %v at %q, want %d and %t",
					got.Conversations.Total.Value, got.Dots, got.Version, unread, lit)
			}
			return nil
		})
	}
	shows(1, false)
	for round := range 10 {
		p.a.raiseDot(map[string]any{"name": "shop"})
		say(p.b)
		shows(round+2, true)
		p.b.must("bob", `mutation{clearDot(input:{name:"shop"}){badges{version}}}`, nil, nil)
		shows(round+2, false)
	}
}

// A server that starts again on a Redis that kept its data never answers with a version below the last one of a device,
// whatever happened before.
func TestVersionsRiseOverARestart(t *testing.T) {
	redis := rdbtest.NewServer(t)
	database := storetest.SQLite(t)
	start := func() *node {
		return startNode(t, nodeOptions{database: database, redis: redis.URL(), change: func(cfg *Config) {
			cfg.MaxWriteMembers, cfg.BigFollowers, cfg.HugeFollowers = 1, 1, 1
		}})
	}
	n := start()
	_, say := den(t, n, "alice", "bob", "carol")
	// The sums that devices are held to here know of no live board.
	n.must("bob", `mutation{setDisplayPolicy(input:{sources:[{source:LIVE_BOARD,inTotal:false}]}){badges{version}}}`, nil, nil)
	n.follow("bob", "huge")
	n.follow("bob", "host")
	show := n.goLive("host")
	acts := []func(){
		func() { say(n) },
		func() { n.raiseDot(map[string]any{"name": "shop"}) },
		func() {
			n.must("host:ingest", `mutation{publishAnnouncement(input:{title:"t",content:"c"}){announcement{id}}}`, nil, nil)
		},
		func() { n.publish("huge", "a post") },
		func() { n.onShow("host", "endShow", show); show = n.goLive("host") },
	}
	last := ""
	for round := range 6 {
		device := openWatch(t, n.url, "bob")
		converge(t, soon, func() error {
			got, err := device.shown()
			if err == nil && got.Version == "" {
				err = fmt.Errorf("nothing is shown")
			}
			return err
		})
		if got, _ := device.shown(); got.Version < last {
			t.Errorf("after start %d the version is %s, and the last one before it was %s", round, got.Version, last)
		}
		// Each act is learned by itself: together they would be one change.
		for i := range acts {
			act, before := acts[(i+round)%len(acts)], ""
			got, _ := device.shown()
			before = got.Version
			act()
			eventually(t, soon, "the device is shown the change", func() bool {
				got, _ = device.shown()
				return got.Version > before
			})
		}
		got, err := device.shown()
		if err != nil {
			t.Fatal(err)
		}
		last = max(last, got.Version, n.badges("bob").Version)
		n.stop()
		n = start()
	}
}

// goLive lets a host begin a show.
func (n *node) goLive(host string) (show string) {
	n.tb.Helper()
	show = n.schedule(host, "a show", n.clock.Now().Add(time.Hour))
	n.onShow(host, "startShow", show)
	return show
}
