package model

import (
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/tests/world"
)

// Announcements and dots that are published through one node reach the open subscriptions on both nodes. When a user marks announcements
// as read, all their subscriptions show it. An announcement starts and ends at its time, without a request. All of this still works after
// Redis has lost everything.
func TestAnnouncementsReachEveryone(t *testing.T) {
	server := redistest.NewServer(t)
	p := world.StartNodePair(t, server.URL(), nil)
	one, two, other := world.OpenBadgeSubscription(t, p.A.URL, "alice"), world.OpenBadgeSubscription(t, p.B.URL, "alice"), world.OpenBadgeSubscription(t, p.B.URL, "bob")
	all := func(announcements int, lit bool) {
		t.Helper()
		for _, device := range []*world.BadgeSubscription{one, two, other} {
			device.WaitAnnouncements(t, announcements, "shop", lit)
		}
	}
	all(0, false)
	p.A.RaiseDot(map[string]any{"name": "shop"})
	all(0, true)
	id := p.B.Announce(map[string]any{"title": "news"})
	all(1, true)
	p.A.MustAsk("alice", `mutation{clearDot(input:{name:"shop"}){badges{version}}}`, nil, nil)
	p.B.MustAsk("alice", `mutation($i:ID){markAnnouncementsRead(input:{upTo:$i}){badges{version}}}`, map[string]any{"i": id}, nil)
	one.WaitAnnouncements(t, 0, "shop", false)
	two.WaitAnnouncements(t, 0, "shop", false)
	other.WaitAnnouncements(t, 1, "shop", true)

	server.Flush()
	p.A.RaiseDot(map[string]any{"name": "shop", "segments": []string{"beta"}})
	p.B.MustAsk("host:ingest", `mutation{setSegments(input:{userId:"user:alice",segments:["beta"]}){user{key}}}`, nil, nil)
	one.WaitAnnouncements(t, 0, "shop", true)
	two.WaitAnnouncements(t, 0, "shop", true)
	other.WaitAnnouncements(t, 1, "shop", true)

	short := p.A.Announce(map[string]any{"title": "short", "startsAt": time.Now().Add(500 * time.Millisecond)})
	one.WaitAnnouncements(t, 1, "shop", true)
	other.WaitAnnouncements(t, 2, "shop", true)
	// The end is set only now: on a busy machine it could otherwise come before every device has shown the start.
	end := time.Now().Add(2 * time.Second)
	p.A.MustAsk("host:ingest", `mutation($i:ID!,$end:Time!){editAnnouncement(input:{announcementId:$i,endsAt:$end}){announcement{id}}}`,
		map[string]any{"i": short, "end": end}, nil)
	if got := p.A.Badges("bob").Announcements.Value; got != 2 && time.Now().Before(end) {
		t.Errorf("%d are unread before the end, want 2", got)
	}
	one.WaitAnnouncements(t, 0, "shop", true)
	other.WaitAnnouncements(t, 1, "shop", true)
	p.B.MustAsk("host:ingest", `mutation($i:ID!){withdrawAnnouncement(input:{announcementId:$i}){announcementId}}`, map[string]any{"i": id}, nil)
	other.WaitAnnouncements(t, 0, "shop", true)
}

// A node stops after an announcement was planned for later. The next node on the same data starts the announcement at its time.
func TestAPlannedAnnouncementOutlivesTheServer(t *testing.T) {
	world.ForEachStoragePair(t, func(t *testing.T, options world.NodeOptions) {
		options.ManualStepping = true
		n := world.StartNode(t, options)
		n.Badges("alice")
		n.Announce(map[string]any{"title": "planned", "startsAt": n.Clock.Now().Add(time.Minute)})
		n.Stop()
		again := world.StartNode(t, options)
		if got := again.Badges("alice").Announcements.Value; got != 0 {
			t.Errorf("%d are unread before the start", got)
		}
		again.Clock.Advance(time.Minute)
		again.SettleJobsAndCaches()
		if got := again.Badges("alice").Announcements.Value; got != 1 {
			t.Errorf("%d are unread after the start", got)
		}
	})
}
