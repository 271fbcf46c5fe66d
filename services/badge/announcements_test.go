package badge

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/announcements"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// announce publishes an announcement that ends after the given time; 0 means never.
func (n node) announce(ends time.Duration) services.AnnouncementID {
	n.TB.Helper()
	draft := announcements.Draft{Title: "title"}
	if ends > 0 {
		draft.EndsAt = n.Clock.Now().Add(ends)
	}
	cmd, err := n.announcements.Publish(draft)
	n.Must(err)
	n.Must(n.World.Fanout.Commit(n.TB.Context(), cmd)[0])
	id, err := announcements.ParseID("id", cmd.IDs()[0])
	n.Must(err)
	return id
}

// An announcement leaves the count when it ends, and the badges have the time of the next end; dots are listed by name.
func TestAnnouncementsAndDotsAreRendered(t *testing.T) {
	state := &announcements.SharedState{
		LogVersion: 3_499, EndedCount: 2,
		Announcements: []announcements.Announcement{
			{ID: 3, Position: 30, EndsAt: noon.Add(2 * time.Hour)}, {ID: 2, Position: 20, EndsAt: noon.Add(time.Hour), Segments: 1}, {ID: 1, Position: 10, EndsAt: noon.Add(time.Minute)},
		},
		Dots: []announcements.Dot{{Name: "shop", Raises: []announcements.DotRaise{{Stamp: 15}}}, {Name: "wallet", Raises: []announcements.DotRaise{{Stamp: 25}}}},
	}
	for _, c := range []struct {
		state    services.AnnouncementState
		bits     uint64 // the user's segments
		count    int
		next     time.Time         // NextAt of the badges: the first end
		lit      [2]bool           // whether shop and wallet are lit
		clearing map[string]uint64 // the dots that the user dismissed, up to a stamp
	}{
		{services.AnnouncementState{}, 1, 0, time.Time{}, [2]bool{}, nil},
		{services.AnnouncementState{Version: 1}, 1, 3, noon.Add(time.Minute), [2]bool{true, true}, nil},
		{services.AnnouncementState{Version: 1, Position: 10, DotsDismissedUpTo: 15}, 1, 2, noon.Add(time.Hour), [2]bool{false, true}, nil},
		{services.AnnouncementState{Version: 1, Position: 10}, 2, 1, noon.Add(2 * time.Hour), [2]bool{true, false}, map[string]uint64{"wallet": 25}},
		{services.AnnouncementState{Version: 1, Position: 30}, 1, 0, time.Time{}, [2]bool{true, true}, nil},
	} {
		document := rdb.Document{Ready: true, Version: 5, DismissedUpToByDot: c.clearing}
		document.Announcements, document.Segments.Bits = c.state, c.bits
		badges := (newTestRendering(source.Settings{}, document, source.Moment{Now: noon, MonotonicNow: noon, SharedState: state})).render()
		if badges.Announcements.Value != c.count || badges.Total.Value != c.count || !badges.NextAt.Equal(c.next) {
			t.Errorf("%+v: %+v, next at %s", c, badges.Announcements, badges.NextAt)
		}
		if len(badges.Dots) != 2 || badges.Dots[0] != (services.Dot{Name: "shop", Lit: c.lit[0]}) || badges.Dots[1] != (services.Dot{Name: "wallet", Lit: c.lit[1]}) {
			t.Errorf("%+v: %+v", c, badges.Dots)
		}
		if want := services.BadgesVersion(5, sharedVersionBase+uint64(noon.Unix()/86400)+7_000); badges.Version != want {
			t.Errorf("the version is %s, want %s", badges.Version, want)
		}
	}
	if badges := (newTestRendering(source.Settings{}, rdb.Document{Ready: true}, source.Moment{Now: noon, MonotonicNow: noon})).render(); badges.Announcements.Precision != services.Unknown || badges.Total.Precision != services.Unknown || badges.Dots == nil {
		t.Errorf("before anything is known: %+v", badges)
	}
}

// The explanation lists exactly the announcements that are counted; without Redis the count comes from SQL and is STALE.
func TestAnnouncementsAreExplained(t *testing.T) {
	n := redisServerNode(t)
	user, stranger := n.MakeUsers(1)[0], n.MakeNeverSeenUsers(1)[0]
	first, second := n.announce(0), n.announce(time.Minute)
	explained := func() (ids []string) {
		t.Helper()
		all, err := n.Explain(t.Context(), user)
		n.Must(err)
		for _, explanation := range all {
			if explanation.Source != services.SourceAnnouncements {
				continue
			}
			if explanation.Count.Value != len(explanation.Items) {
				t.Errorf("%d items are behind %+v", len(explanation.Items), explanation.Count)
			}
			for _, item := range explanation.Items {
				ids = append(ids, item.ID)
				if item.ClearedBy != `mutation { markAnnouncementsRead(input: {upTo: "`+item.ID+`"}) { badges { version total { value display } } } }` {
					t.Errorf("it is cleared by %s", item.ClearedBy)
				}
			}
		}
		return ids
	}
	if got := explained(); len(got) != 2 || got[0] != "announcement:"+second.String() || got[1] != "announcement:"+first.String() {
		t.Errorf("behind the number are %v", got)
	}
	n.World.Clock.Advance(time.Minute)
	if got := explained(); len(got) != 1 {
		t.Errorf("after an end %v", got)
	}
	n.RedisServer.Kill()
	if badges := n.read(user); badges.Announcements.Value != 1 || badges.Announcements.Precision != services.Stale {
		t.Errorf("without Redis %+v", badges.Announcements)
	}
	n.read(stranger)
	n.announce(0)
	if badges := n.read(stranger); badges.Announcements.Value != 1 {
		t.Errorf("a new user without Redis has %+v", badges.Announcements)
	}
}

// A document that outlived the time for which its user counts as active is rebuilt before it is shown: the user counts as new, and
// earlier announcements do not count.
func TestADormantDocumentIsRebuilt(t *testing.T) {
	n := redisServerNode(t)
	user := n.MakeUsers(1)[0]
	n.announce(0)
	if badges := n.read(user); badges.Announcements.Value != 1 {
		t.Fatalf("%+v", badges.Announcements)
	}
	n.World.Clock.Advance(29 * day)
	if badges := n.read(user); badges.Announcements.Value != 1 {
		t.Errorf("after 29 days %+v", badges.Announcements)
	}
	_, err := n.WriteVisits(t.Context())
	n.Must(err)
	n.World.Clock.Advance(32 * day)
	if badges := n.read(user); badges.Announcements.Value != 0 {
		t.Errorf("after a month away %+v", badges.Announcements)
	}
}
