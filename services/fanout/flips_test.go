package fanout_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/positions"
	"tidings/services/posts"
)

// authorModeHistory is a history of authors whose numbers of followers rise and fall across both thresholds.
type authorModeHistory struct {
	*fanouttest.World
	t              *rapid.T
	authors        []services.UserID
	readers        []services.UserID
	posts          []services.PostID           // that are not deleted
	follows        map[[2]services.UserID]bool // the pairs of reader and author that are a follow now
	pendingFollows map[[2]services.UserID]bool // the pairs whose last follow or unfollow has a job that may not have run
}

// TestModeChangesLoseNoPosts publishes, deletes, follows and unfollows while authors become big, huge, big and small again and workers die
// at any step. At every moment the documents of all followers have every huge author among their pulled authors, except those of
// followers whose follow has a job that may not have run yet. When all jobs have run, every user sees the feed of the facts, pushed and pulled
// posts together.
func TestModeChangesLoseNoPosts(t *testing.T) {
	settings := func(cfg *fanout.Config) {
		cfg.ChunkSize = 1
		cfg.BigFollowers, cfg.HugeFollowers = 2, 3
	}
	fanouttest.EachEnginePair(t, settings, func(t *testing.T, w *fanouttest.World) {
		fanouttest.ReduceRapidChecks(t, w, 4)
		rapid.Check(t, func(t *rapid.T) {
			users := w.MakeUsers(6)
			h := &authorModeHistory{World: w, t: t, authors: users[:2], readers: users[1:], follows: map[[2]services.UserID]bool{}, pendingFollows: map[[2]services.UserID]bool{}}
			for _, reader := range users[2:] { // the first author has many followers from the start, so that a pin can make them huge
				w.Follow(users[0], reader)
				h.follows[[2]services.UserID{reader, users[0]}] = true
			}
			h.RunAllJobs(h.Fanout)
			for range rapid.IntRange(5, 25).Draw(t, "steps") {
				h.runRandomStep()
				h.checkDocumentsNameAuthors()
			}
			h.Clock.Advance(31 * time.Second)
			h.RunAllJobs(h.AnotherFanout())
			clear(h.pendingFollows)
			h.checkDocumentsNameAuthors()
			for _, user := range users {
				if difference := h.DiffAgainstFacts(user); difference != "" {
					t.Fatalf("user %d is shown something else than the facts (-facts +shown):\n%s", user, difference)
				}
				h.checkFeed(user)
			}
			if _, dead := h.CountJobs(); dead > 0 {
				t.Fatalf("%d jobs are dead", dead)
			}
			if bySQL, byLog := postsOfInFlightFanouts(h.World); len(bySQL)+len(byLog) > 0 {
				t.Fatalf("%v and %v are still in flight", bySQL, byLog)
			}
		})
	})
}

// runRandomStep does one random thing: a follow, a post, some jobs, a crash of a worker and so on.
func (h *authorModeHistory) runRandomStep() {
	author := rapid.SampledFrom(h.authors).Draw(h.t, "author")
	reader := rapid.SampledFrom(h.readers).Draw(h.t, "reader")
	pair := [2]services.UserID{reader, author}
	switch rapid.SampledFrom([]string{"follow", "follow", "follow", "unfollow", "publish", "publish", "delete", "work", "work", "crash", "later", "return", "pin", "pin", "pin"}).Draw(h.t, "step") {
	case "follow":
		if reader != author && !h.follows[pair] {
			follow(h.World, author, reader)
			h.follows[pair], h.pendingFollows[pair] = true, true
		}
	case "unfollow":
		if h.follows[pair] {
			unfollow(h.World, author, reader)
			delete(h.follows, pair)
			h.pendingFollows[pair] = true
		}
	case "publish":
		h.posts = append(h.posts, h.Post(author))
	case "delete":
		if len(h.posts) > 0 {
			i := rapid.IntRange(0, len(h.posts)-1).Draw(h.t, "post")
			h.Delete(h.posts[i])
			h.posts = slices.Delete(h.posts, i, i+1)
		}
	case "work":
		h.runJobsOrCrash(rapid.IntRange(1, 6).Draw(h.t, "jobs"), -1)
	case "crash":
		h.runJobsOrCrash(rapid.IntRange(1, 6).Draw(h.t, "jobs"), rapid.IntRange(1, 60).Draw(h.t, "checks"))
	case "later":
		h.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Second, 6 * time.Second, 31 * time.Second}).Draw(h.t, "by"))
	case "return":
		h.Must(h.Projector.Rebuild(h.TB.Context(), reader))
	case "pin":
		var mode *services.AuthorMode
		if pin := services.AuthorMode(rapid.SampledFrom([]int{-1, 0, 1, 2, 2, 2}).Draw(h.t, "mode")); pin >= 0 {
			mode = &pin
		}
		h.Must(h.Fanout.PinMode(h.TB.Context(), author, mode))
	}
}

// runJobsOrCrash lets a worker run some jobs. It dies after the given number of checks of its context, or never if checks is negative.
func (h *authorModeHistory) runJobsOrCrash(count, checks int) {
	if err := h.RunSomeJobs(count, checks); err != nil {
		h.t.Fatal(err)
	}
}

// checkDocumentsNameAuthors checks the rule that keeps feeds complete through changes of mode: the documents of a huge author's followers
// have the author among their pulled authors.
func (h *authorModeHistory) checkDocumentsNameAuthors() {
	for pair := range h.follows {
		if reader, author := pair[0], pair[1]; !h.pendingFollows[pair] && modeInSQL(h.World, author) == services.AuthorHuge && !documentNamesAuthor(h.World, reader, author) {
			h.t.Fatalf("author %d is huge, and the document of their follower %d does not name them", author, reader)
		}
	}
}

// checkFeed compares the feed that is merged from inbox and pulled posts with the feed from SQL.
func (h *authorModeHistory) checkFeed(user services.UserID) {
	ctx := h.TB.Context()
	entries := h.Inbox(user)
	document := h.Document(user)
	count := document.FeedCount
	for _, named := range document.PulledAuthors {
		pulled, err := posts.Pulled(ctx, h.DB, []services.UserID{named.Author}, services.FeedRetention)
		h.Must(err)
		for _, post := range pulled[named.Author].Posts {
			entries = append(entries, services.FeedEntry{Post: post, Author: named.Author, CountsAsNew: post > services.PostID(named.ItemsCountAfter)})
			if post > services.PostID(named.ItemsCountAfter) {
				count++
			}
		}
	}
	slices.SortFunc(entries, func(a, b services.FeedEntry) int { return cmp.Compare(b.Post, a.Post) })
	want, err := posts.HomeFeed(ctx, h.DB, user, services.MaxPostID, services.FeedRetention)
	h.Must(err)
	if !slices.Equal(entries, want) {
		h.t.Fatalf("user %d is shown %v, want %v", user, entries, want)
	}
	seen, err := positions.Of[services.PostID](ctx, h.DB, user, positions.HomeFeedView)
	h.Must(err)
	if facts, err := posts.CountNew(ctx, h.DB, []posts.FeedReader{{ID: user, SeenTo: seen}}, services.FeedRetention); err != nil || facts[0] != count {
		h.t.Fatal(fmt.Sprintf("user %d has %d new posts, want %d, %v", user, count, facts, err))
	}
}
