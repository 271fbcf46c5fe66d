package rdb

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
)

// wantNewest compares the newest entries of the reader's inbox with the page that is read by position.
func (v view) wantNewest(what string, ready bool) {
	v.Helper()
	for _, limit := range []int{1, 2, 21, services.Retention - 1, services.Retention} {
		// No post has the greatest ID, so the page from the ID below it is the same; Inbox reads that page by position.
		want, err := v.c.Inbox(v.Context(), reader, services.MaxPostID-1, limit)
		v.must(err)
		readers, limits := []services.UserID{other, reader, author, reader}, []int{5, limit, 1, limit}

		got, err := v.c.NewestOfInboxes(v.Context(), readers, limits)
		v.must(err)
		if diff := cmp.Diff([]InboxPage{{}, want, {}, want}, got); diff != "" {
			v.Errorf("%s, %d entries (-by position +newest):\n%s", what, limit, diff)
		}
		one, err := v.c.Inbox(v.Context(), reader, services.MaxPostID, limit)
		v.must(err)
		if diff := cmp.Diff(want, one); diff != "" {
			v.Errorf("%s, %d entries of one reader (-by position +newest):\n%s", what, limit, diff)
		}
		if want.Ready != ready {
			v.Errorf("%s: ready %t", what, want.Ready)
		}
	}
}

func TestTheNewestOfInboxes(t *testing.T) {
	eachView(t, func(v view) {
		v.wantNewest("no document", false)
		for _, count := range []int{0, 1, 20, services.Retention - 1, services.Retention} {
			facts := FeedFacts{Seen: 3, Pulled: []services.FollowedAuthor{{Author: other, Since: 2}}}
			for i := range count {
				facts.Entries = append(facts.Entries, services.FeedEntry{Post: services.PostID(5000 - i), Author: author, Counts: i%2 == 0})
			}
			v.build(facts)
			v.wantNewest("built", true)
		}
		for post := range services.PostID(30) { // beyond the listed entries there is some slack
			v.add(v.stamp(), services.FeedEntry{Post: 6000 + post, Author: author, Counts: true})
		}
		v.wantNewest("more than are listed", true)
		v.delete(6003)
		v.markSeen(6010)
		v.wantNewest("one is deleted", true)
		for name, broken := range map[string]string{"st": "0", "e": "another", "F": "x", "T": "x", "d": "x"} {
			value := v.field(name)
			v.set(name, broken)
			v.wantNewest("with a broken field "+name, name == "d")
			v.set(name, value)
		}
		v.wantNewest("mended", true)
		v.deleteKeys(inboxKey(reader))
		v.wantNewest("the inbox is lost", false)
		v.build(FeedFacts{})
		v.retype(inboxKey(reader))
		v.wantNewest("an inbox of another type", false)
	})
}

func TestTheNewestOfInboxesWithoutRedis(t *testing.T) {
	eachView(t, func(v view) {
		v.must(v.c.Close())
		if pages, err := v.c.NewestOfInboxes(v.Context(), []services.UserID{reader}, []int{21}); !services.IsUnavailable(err) || pages != nil {
			t.Errorf("%v, %v", pages, err)
		}
		if states, err := v.c.HostsOf(v.Context(), []services.UserID{reader, other}); !services.IsUnavailable(err) || states != nil {
			t.Errorf("%v, %v", states, err)
		}
	})
}
