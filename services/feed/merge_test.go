package feed

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/nodecache"
	"tidings/services/rdb"
)

const inboxAuthor = services.UserID(1) // the author of posts in the inbox

// feedSources is what mergePage merges in a test: a reader's inbox and the posts of pulled authors, each with its floor, up to which
// older posts are missing.
type feedSources struct {
	inbox      []services.FeedEntry // newest first
	inboxFloor services.PostID      // the inbox has no post up to here
	pulled     []nodecache.PulledPosts
}

// readInbox returns a page of the inbox, as Redis would: at most limit entries below a post, of the newest 300.
func (s feedSources) readInbox(before services.PostID, limit int) rdb.InboxPage {
	page := rdb.InboxPage{Ready: true, NewestTrimmed: s.inboxFloor, OlderPostsCut: s.inboxFloor > 0}
	for i, entry := range s.inbox {
		switch {
		case entry.Post >= before:
			page.EntriesAbove++
		case i >= services.FeedRetention:
			page.OlderPostsCut = true
		case len(page.Entries) < limit:
			page.Entries = append(page.Entries, entry)
		}
	}
	return page
}

// expectedFeed is the whole feed, sorted: the newest 300 entries down to the newest floor, and whether more exist.
func (s feedSources) expectedFeed() (feed []services.FeedEntry, cut bool) {
	floor := s.inboxFloor
	all := map[services.PostID]services.FeedEntry{}
	for _, author := range s.pulled {
		floor = max(floor, author.NextOlder)
		for _, post := range author.Posts {
			all[post] = services.FeedEntry{Post: post, Author: author.Author, CountsAsNew: post > services.PostID(author.ItemsCountAfter)}
		}
	}
	for _, entry := range s.inbox {
		all[entry.Post] = entry
	}
	for _, entry := range all {
		if entry.Post > floor {
			feed = append(feed, entry)
		}
	}
	slices.SortFunc(feed, func(a, b services.FeedEntry) int { return cmp.Compare(b.Post, a.Post) })
	return feed[:min(len(feed), services.FeedRetention)], floor > 0 || len(feed) > services.FeedRetention
}

// drawFeedSources draws an inbox and pulled authors at random.
func drawFeedSources(t *rapid.T) feedSources {
	var s feedSources
	size := rapid.SampledFrom([]int{5, 60, 500, 900}).Draw(t, "posts")
	authors := rapid.IntRange(0, 5).Draw(t, "authors")
	for i := range authors {
		s.pulled = append(s.pulled, nodecache.PulledPosts{FollowedAuthor: services.FollowedAuthor{
			Author: services.UserID(10 + i), ItemsCountAfter: services.SortableID(rapid.IntRange(0, size).Draw(t, "since")),
		}})
	}
	for post := range services.PostID(size) {
		post++
		if to := rapid.IntRange(-1, authors).Draw(t, "of"); to == authors {
			s.inbox = append(s.inbox, services.FeedEntry{Post: post, Author: inboxAuthor, CountsAsNew: rapid.Bool().Draw(t, "counts")})
		} else if to >= 0 {
			s.pulled[to].Posts = append(s.pulled[to].Posts, post)
		}
	}
	slices.Reverse(s.inbox)
	for i := range s.pulled {
		if rapid.IntRange(0, 3).Draw(t, "trim") == 0 && len(s.pulled[i].Posts) > 1 {
			at := rapid.IntRange(0, len(s.pulled[i].Posts)/2).Draw(t, "floor")
			s.pulled[i].NextOlder, s.pulled[i].Posts = s.pulled[i].Posts[at], s.pulled[i].Posts[at+1:]
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "trim") == 0 && len(s.inbox) > 1 {
		at := len(s.inbox) - 1 - rapid.IntRange(0, len(s.inbox)/2).Draw(t, "floor")
		s.inboxFloor, s.inbox = s.inbox[at].Post, s.inbox[:at]
	}
	return s
}

// For any inbox, pulled posts and sizes of pages, reading page after page returns the newest 300 entries of all, down to the newest
// floor, each once.
func TestAWalkOverMergedPagesReturnsTheExpectedFeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawFeedSources(t)
		want, cut := s.expectedFeed()
		var walked []services.FeedEntry
		for before := services.MaxPostID; len(walked) <= services.FeedRetention; {
			limit := rapid.IntRange(1, 100).Draw(t, "first") + 1
			page := mergePage(s.readInbox(before, limit), s.pulled, before, limit)
			if len(page.Entries) < limit {
				if walked = append(walked, page.Entries...); page.OlderPostsCut != cut {
					t.Fatalf("the end says %t, want %t", page.OlderPostsCut, cut)
				}
				break
			}
			walked = append(walked, page.Entries[:limit-1]...)
			before = walked[len(walked)-1].Post
		}
		if !slices.Equal(walked, want) {
			t.Fatalf("walked %d:\n%v\nwant %d:\n%v", len(walked), walked, len(want), want)
		}
	})
}

// A page may start anywhere: at a deleted post, between two posts, above all and below all.
func TestAMergedPageStartsAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawFeedSources(t)
		want, _ := s.expectedFeed()
		before := services.PostID(rapid.IntRange(0, 1000).Draw(t, "before"))
		limit := rapid.IntRange(1, services.FeedRetention).Draw(t, "limit")
		for len(want) > 0 && want[0].Post >= before {
			want = want[1:]
		}
		if got := mergePage(s.readInbox(before, limit), s.pulled, before, limit).Entries; !slices.Equal(got, want[:min(limit, len(want))]) {
			t.Fatalf("below %d: %v, want %v", before, got, want)
		}
	})
}

// A post that is in the inbox and among the pulled posts, as after an error in Redis that the audit has not found yet, is listed once.
func TestAPostInTwoSourcesIsListedOnce(t *testing.T) {
	s := feedSources{
		inbox:  []services.FeedEntry{{Post: 9, Author: 7, CountsAsNew: true}, {Post: 5, Author: inboxAuthor, CountsAsNew: true}},
		pulled: []nodecache.PulledPosts{{FollowedAuthor: services.FollowedAuthor{Author: 7}, Posts: []services.PostID{3, 9}}},
	}
	want := []services.FeedEntry{{Post: 9, Author: 7, CountsAsNew: true}, {Post: 5, Author: inboxAuthor, CountsAsNew: true}, {Post: 3, Author: 7, CountsAsNew: true}}
	if got := mergePage(s.readInbox(services.MaxPostID, 10), s.pulled, services.MaxPostID, 10); !slices.Equal(got.Entries, want) {
		t.Errorf("%v, want %v", got.Entries, want)
	}
}

func BenchmarkMergeAPageOf50Authors(b *testing.B) {
	var s feedSources
	for i := range 50 {
		author := nodecache.PulledPosts{FollowedAuthor: services.FollowedAuthor{Author: services.UserID(10 + i)}}
		for post := range 300 {
			author.Posts = append(author.Posts, services.PostID(1+post*50+i))
		}
		s.pulled = append(s.pulled, author)
	}
	inbox := s.readInbox(services.MaxPostID, 21)
	for b.Loop() {
		mergePage(inbox, s.pulled, services.MaxPostID, 21)
	}
}
