package rdb

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
)

// wantNewestEntries checks that NewestOfInboxes gives the pages that Inbox gives from a position on, and whether they are ready.
func (v feedTest) wantNewestEntries(what string, ready bool) {
	v.Helper()
	for _, limit := range []int{1, 2, 21, services.FeedRetention - 1, services.FeedRetention} {
		// No post has the greatest ID, so the page from the ID below it is the same; Inbox reads that page by position.
		want, err := v.projections.Inbox(v.Context(), reader, services.MaxPostID-1, limit)
		v.must(err)
		readers, limits := []services.UserID{otherUser, reader, author, reader}, []int{5, limit, 1, limit}

		got, err := v.projections.NewestOfInboxes(v.Context(), readers, limits)
		v.must(err)
		if diff := cmp.Diff([]InboxPage{{}, want, {}, want}, got); diff != "" {
			v.Errorf("%s, %d entries (-by position +newest):\n%s", what, limit, diff)
		}
		one, err := v.projections.Inbox(v.Context(), reader, services.MaxPostID, limit)
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
	eachRedis(t, func(v feedTest) {
		v.wantNewestEntries("no document", false)
		for _, count := range []int{0, 1, 20, services.FeedRetention - 1, services.FeedRetention} {
			facts := FeedFacts{SeenUpTo: 3, PulledAuthors: []services.FollowedAuthor{{Author: otherUser, ItemsCountAfter: 2}}}
			for i := range count {
				facts.Entries = append(facts.Entries, services.FeedEntry{Post: services.PostID(5000 - i), Author: author, CountsAsNew: i%2 == 0})
			}
			v.buildFromFacts(facts)
			v.wantNewestEntries("built", true)
		}
		for post := range services.PostID(30) { // an inbox may hold some entries more than it lists
			v.addEntry(v.takeStamp(), services.FeedEntry{Post: 6000 + post, Author: author, CountsAsNew: true})
		}
		v.wantNewestEntries("more than are listed", true)
		v.deletePost(6003)
		v.markSeen(6010)
		v.wantNewestEntries("one is deleted", true)
		for name, broken := range map[string]string{"st": "0", "e": "another", "F": "x", "T": "x", "d": "x"} {
			value := v.readField(name)
			v.writeField(name, broken)
			v.wantNewestEntries("with a broken field "+name, name == "d")
			v.writeField(name, value)
		}
		v.wantNewestEntries("mended", true)
		v.deleteKeys(inboxKey(reader))
		v.wantNewestEntries("the inbox is lost", false)
		v.buildFromFacts(FeedFacts{})
		v.replaceWithStringKey(inboxKey(reader))
		v.wantNewestEntries("an inbox of another type", false)
	})
}

func TestTheNewestOfInboxesWithoutRedis(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.must(v.projections.Close())
		if pages, err := v.projections.NewestOfInboxes(v.Context(), []services.UserID{reader}, []int{21}); !services.IsUnavailable(err) || pages != nil {
			t.Errorf("%v, %v", pages, err)
		}
		if states, err := v.projections.ReadLiveBoardStates(v.Context(), []services.UserID{reader, otherUser}); !services.IsUnavailable(err) || states != nil {
			t.Errorf("%v, %v", states, err)
		}
	})
}
