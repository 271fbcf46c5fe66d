package feed

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/redis"
	"tidings/services/sql"
)

// deleteWithoutJob deletes posts without a job, so that inboxes still list them.
func (n node) deleteWithoutJob(ids ...services.PostID) {
	n.TB.Helper()
	n.Clock.Advance(time.Second)
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		for _, id := range ids {
			if _, _, err := posts.Delete(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// A page whose deleted posts were omitted is filled with older ones.
func TestAPageIsRefilledAfterFiltering(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	ids := newestFirst(n.InsertPosts(author, 40))
	n.Must(n.fan.ReconcileFollow(t.Context(), reader, author))
	n.deleteWithoutJob(append(slices.Clone(ids[2:12]), ids[30:]...)...)
	page, err := n.Page(t.Context(), reader, services.MaxPostID, 10)
	n.Must(err)
	want := append(slices.Clone(ids[:2]), ids[12:20]...)
	if !slices.Equal(postIDsOf(page), want) || !page.HasNext || page.NextPageAfter != ids[19] {
		t.Errorf("got %v to %s, want %v", postIDsOf(page), page.NextPageAfter, want)
	}
	page, err = n.Page(t.Context(), reader, page.NextPageAfter, 20)
	n.Must(err)
	// The last ten are deleted, so the page is short and the last.
	if !slices.Equal(postIDsOf(page), ids[20:30]) || page.HasNext || page.End != services.EndOfFeed || page.NextPageAfter != ids[39] {
		t.Errorf("the last page: %v, next %s, more %t, %q", postIDsOf(page), page.NextPageAfter, page.HasNext, page.End)
	}
}

// A page reads on past deleted posts, to the end of the 300 entries of a feed. It may be empty.
func TestAPageReadsAtMost300Entries(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	ids := newestFirst(n.InsertPosts(author, services.FeedRetention))
	n.Must(n.fan.ReconcileFollow(t.Context(), reader, author))
	n.deleteWithoutJob(ids[1:]...)
	page, err := n.Page(t.Context(), reader, services.MaxPostID, 1)
	n.Must(err)
	if !slices.Equal(postIDsOf(page), ids[:1]) || !page.HasNext {
		t.Fatalf("the first page: %v, more %t", postIDsOf(page), page.HasNext)
	}
	page, err = n.Page(t.Context(), reader, page.NextPageAfter, 5)
	n.Must(err)
	if len(page.Items) != 0 || page.HasNext || page.NextPageAfter != ids[len(ids)-1] || page.End != services.EndOfFeed {
		t.Errorf("past 299 deleted posts: %v, more %t, next %s, end %q", postIDsOf(page), page.HasNext, page.NextPageAfter, page.End)
	}
	all, err := n.Page(t.Context(), reader, services.MaxPostID, services.FeedRetention+100)
	if err != nil || !slices.Equal(postIDsOf(all), ids[:1]) {
		t.Errorf("at once: %v, %v", postIDsOf(all), err)
	}
}

// The end of a feed reports whether older posts exist that feeds do not keep, with Redis and without.
func TestTheEndOfAFeedReportsWhetherOlderPostsExist(t *testing.T) {
	for _, posts := range []int{0, 1, 299, 300, 301, 333, 400} {
		n := redisServerNode(t)
		author, reader := n.newAuthorAndReader()
		ids := newestFirst(n.InsertPosts(author, posts))
		n.Must(n.fan.ReconcileFollow(t.Context(), reader, author))
		want, end := ids[:min(posts, services.FeedRetention)], services.EndOfFeed
		if posts > services.FeedRetention {
			end = services.EndOfRetention
		}
		for _, engine := range []string{"Redis", "SQL"} {
			if engine == "SQL" {
				n.RedisServer.Kill()
			}
			for _, first := range []int{100, 7} {
				if got, said := n.readWholeFeed(reader, first); !slices.Equal(got, want) || said != end {
					t.Errorf("%d posts from %s by %d: %d listed, end %s; want %d, %s", posts, engine, first, len(got), said, len(want), end)
				}
			}
		}
	}
}

// The next page starts below a position, even if the post there was deleted or never existed.
func TestAPageStartsBelowADeletedPost(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	ids := newestFirst(n.InsertPosts(author, 10))
	n.Must(n.fan.ReconcileFollow(t.Context(), reader, author))
	n.Clock.Advance(time.Second)
	n.World.Delete(ids[4])
	n.RunAllJobs(n.fan)
	for what, from := range map[string]struct {
		before services.PostID
		want   []services.PostID
	}{
		"a deleted post":   {ids[4], ids[5:]},
		"between two":      {ids[5] + 1, ids[5:]},
		"the oldest":       {ids[9], nil},
		"before all":       {1, nil},
		"nothing":          {0, nil},
		"after all":        {services.MaxPostID, append(slices.Clone(ids[:4]), ids[5:]...)},
		"the newest there": {ids[0], append(slices.Clone(ids[1:4]), ids[5:]...)},
	} {
		page, err := n.Page(t.Context(), reader, from.before, 20)
		if err != nil || !slices.Equal(postIDsOf(page), from.want) || page.HasNext {
			t.Errorf("%s: %v, %v; want %v", what, postIDsOf(page), err, from.want)
		}
	}
}

// A post that is published while a reader reads page after page is on no later page, and no post is repeated or skipped.
func TestPagingSkipsAndRepeatsNoPostWhilePostsArrive(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	ids := newestFirst(n.InsertPosts(author, 50))
	n.Must(n.fan.ReconcileFollow(t.Context(), reader, author))
	before, got := services.MaxPostID, []services.PostID(nil)
	for more := true; more; {
		page, err := n.Page(t.Context(), reader, before, 7)
		n.Must(err)
		got, before, more = append(got, postIDsOf(page)...), page.NextPageAfter, page.HasNext
		n.publish(author, "meanwhile")
		n.RunAllJobs(n.fan)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("walked %v, want %v", got, ids)
	}
}

func TestAnEmptyFeedHasNothingToMark(t *testing.T) {
	n := redisServerNode(t)
	user := n.MakeUsers(1)[0]
	n.Must(n.commit(n.MarkSeen(user, 0)))
	if mark, err := positions.Of[services.PostID](t.Context(), n.DB, user, positions.HomeFeedView); mark != 0 || err != nil {
		t.Errorf("the mark is at %s, %v", mark, err)
	}
	if _, err := n.Page(t.Context(), user, services.MaxPostID, 1); err != nil {
		t.Error(err)
	}
}

// A lost inbox is rebuilt before the reader's page is shown.
func TestALostInboxIsRebuilt(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	ids := newestFirst(n.InsertPosts(author, 30))
	for range 2 {
		n.RedisServer.Flush()
		if got, end := n.readWholeFeed(reader, 20); !slices.Equal(got, ids) || end != services.EndOfFeed {
			t.Errorf("after a flush: %v, %s", got, end)
		}
	}
	n.Must(n.fan.Projector.Rebuild(t.Context(), author))
	n.CheckAgainstFacts(author, reader)
}

func TestWithoutEnginesAPageIsUnavailable(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newAuthorAndReader()
	n.RedisServer.Kill()
	n.Must(n.DB.Close())
	if page, err := n.Page(t.Context(), reader, services.MaxPostID, 20); !services.IsUnavailable(err) {
		t.Errorf("got %+v, %v", page, err)
	}
	if err := n.commit(n.MarkSeen(reader, 0)); !services.IsUnavailable(err) {
		t.Errorf("a mark: %v", err)
	}
}

// After any posts, follows and deletions the pages are the same with Redis and without.
func TestPagesFromSQLAreThoseFromRedis(t *testing.T) {
	with, readers := redisServerNode(t), []services.UserID(nil)
	rapid.Check(t, func(rt *rapid.T) {
		if len(readers) == 20 { // enough histories for the comparison without Redis below
			return
		}
		users := with.MakeUsers(4)
		reader := users[3]
		var ids []services.PostID
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			author := users[rapid.IntRange(0, 3).Draw(rt, "author")] // the last is the reader
			switch rapid.SampledFrom([]string{"post", "many", "follow", "unfollow", "delete"}).Draw(rt, "step") {
			case "post":
				ids = append(ids, with.World.Post(author))
			case "many":
				for range rapid.IntRange(2, 30).Draw(rt, "posts") {
					ids = append(ids, with.World.Post(author))
				}
			case "follow":
				if author != reader {
					with.Follow(author, reader)
				}
			case "unfollow":
				if author != reader {
					with.Unfollow(author, reader)
				}
			case "delete":
				if len(ids) > 0 {
					with.Clock.Advance(time.Second)
					with.World.Delete(ids[rapid.IntRange(0, len(ids)-1).Draw(rt, "which")])
				}
			}
		}
		with.RunAllJobs(with.fan)
		readers = append(readers, reader)
	})
	fromRedis := map[services.UserID][]services.PostID{}
	for _, reader := range readers {
		with.CheckAgainstFacts(reader)
		fromRedis[reader], _ = with.readWholeFeed(reader, 9)
	}
	with.RedisServer.Kill()
	for _, reader := range readers {
		if got, end := with.readWholeFeed(reader, 9); !slices.Equal(got, fromRedis[reader]) || end != services.EndOfFeed {
			t.Errorf("reader %d: from SQL %v to %s, from Redis %v", reader, got, end, fromRedis[reader])
		}
	}
}

// A page continues below a given post, even if that post is deleted or in no feed, and fails if it never existed. The check costs
// no extra round trip, and is skipped if SQL does not answer.
func TestAPageBelowAGivenPost(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, reader := n.newAuthorAndReader()
		stranger := n.MakeUsers(1)[0]
		oldest, foreign, middle, newest := n.publish(author, "1"), n.publish(stranger, "2"), n.publish(author, "3"), n.publish(author, "4")
		n.Must(n.commit(n.Service.Delete(author, middle)))
		n.RunAllJobs(n.fan)
		below := func(what string, post services.PostID, code services.Code, want ...services.PostID) {
			t.Helper()
			page, err := n.PageBelow(t.Context(), reader, post, 10)
			if services.CodeOf(err) != code || !slices.Equal(postIDsOf(page), want) {
				t.Errorf("below %s: %v, %v; want %v, %q", what, postIDsOf(page), err, want, code)
			}
			if err != nil && !strings.Contains(err.Error(), "lastId: there is no post:"+post.String()) {
				t.Errorf("below %s: %v", what, err)
			}
		}
		below("the newest", newest, "", oldest)
		below("a deleted one", middle, "", oldest)
		below("a stranger's", foreign, "", oldest)
		below("the oldest", oldest, "")
		below("none", newest-1, services.NotFound)
		below("none, below everything", 7, services.NotFound)
		below("none, above everything", services.MaxPostID, services.NotFound)
		n = newNode(w.AnotherNode()) // a node with an empty cache
		ctx, trips := redis.WithRoundTrips(t.Context())
		if _, err := n.PageBelow(ctx, reader, newest, 10); err != nil || trips.Count() > 2 {
			t.Errorf("on another node: %d round trips, %v", trips.Count(), err)
		}
		n.Must(n.DB.Close())
		below("none, without SQL", newest-1, "", oldest)
	})
}
