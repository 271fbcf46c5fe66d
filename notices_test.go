package main

import (
	"fmt"
	"testing"
	"time"

	"tidings/services/rdb/rdbtest"
)

// told waits until the device shows a count of announcements, and one dot lit or not.
func (w *watch) told(tb testing.TB, announcements int, dot string, lit bool) {
	tb.Helper()
	converge(tb, soon, func() error {
		got, err := w.shown()
		if err != nil {
			tb.Fatal(err)
		}
		shown := false
		for _, one := range got.Dots {
			shown = shown || one.Name == dot && one.Lit
		}
		if got.Version == "" || got.Announcements.Value != announcements || shown != lit {
			return fmt.Errorf("the device of %s shows %d announcements and the dots %+v at %q, want %d, and %s lit: %t",
				w.person, got.Announcements.Value, got.Dots, got.Version, announcements, dot, lit)
		}
		return nil
	})
}

// announce publishes as the host application and answers the announcement's id.
func (n *node) announce(input map[string]any) string {
	n.tb.Helper()
	var data struct {
		PublishAnnouncement struct{ Announcement struct{ ID string } }
	}
	n.must("host:ingest", `mutation($i:PublishAnnouncementInput!){publishAnnouncement(input:$i){announcement{id}}}`, map[string]any{"i": input}, &data)
	return data.PublishAnnouncement.Announcement.ID
}

func (n *node) raiseDot(input map[string]any) {
	n.tb.Helper()
	n.must("host:ingest", `mutation($i:RaiseDotInput!){raiseDot(input:$i){name}}`, map[string]any{"i": input}, nil)
}

// What the host application does through one node reaches the devices on both, a mark all devices of its user, and time
// alone starts and ends an announcement. All of it goes on when Redis has lost everything.
func TestNoticesReachEveryone(t *testing.T) {
	server := rdbtest.NewServer(t)
	p := startPair(t, server.URL(), nil)
	one, two, other := openWatch(t, p.a.url, "alice"), openWatch(t, p.b.url, "alice"), openWatch(t, p.b.url, "bob")
	all := func(announcements int, lit bool) {
		t.Helper()
		for _, device := range []*watch{one, two, other} {
			device.told(t, announcements, "shop", lit)
		}
	}
	all(0, false)
	p.a.raiseDot(map[string]any{"name": "shop"})
	all(0, true)
	id := p.b.announce(map[string]any{"title": "news"})
	all(1, true)
	p.a.must("alice", `mutation{clearDot(input:{name:"shop"}){badges{version}}}`, nil, nil)
	p.b.must("alice", `mutation($i:ID){markAnnouncementsRead(input:{upTo:$i}){badges{version}}}`, map[string]any{"i": id}, nil)
	one.told(t, 0, "shop", false)
	two.told(t, 0, "shop", false)
	other.told(t, 1, "shop", true)

	server.Flush()
	p.a.raiseDot(map[string]any{"name": "shop", "segments": []string{"beta"}})
	p.b.must("host:ingest", `mutation{setSegments(input:{userId:"user:alice",segments:["beta"]}){user{key}}}`, nil, nil)
	one.told(t, 0, "shop", true)
	two.told(t, 0, "shop", true)
	other.told(t, 1, "shop", true)

	now := time.Now()
	p.a.announce(map[string]any{"title": "short", "startsAt": now.Add(500 * time.Millisecond), "endsAt": now.Add(3 * time.Second)})
	one.told(t, 1, "shop", true)
	other.told(t, 2, "shop", true)
	one.told(t, 0, "shop", true)
	other.told(t, 1, "shop", true)
	p.b.must("host:ingest", `mutation($i:ID!){withdrawAnnouncement(input:{announcementId:$i}){announcementId}}`, map[string]any{"i": id}, nil)
	other.told(t, 0, "shop", true)
}

// The server dies after an announcement was planned: the one that comes up in its place starts it.
func TestAPlannedAnnouncementOutlivesTheServer(t *testing.T) {
	eachPair(t, func(t *testing.T, options nodeOptions) {
		options.manual = true
		n := startNode(t, options)
		n.badges("alice")
		n.announce(map[string]any{"title": "planned", "startsAt": n.clock.Now().Add(time.Minute)})
		n.stop()
		again := startNode(t, options)
		if got := again.badges("alice").Announcements.Value; got != 0 {
			t.Errorf("%d are unread before the start", got)
		}
		again.clock.advance(time.Minute)
		again.settle()
		if got := again.badges("alice").Announcements.Value; got != 1 {
			t.Errorf("%d are unread after the start", got)
		}
	})
}
