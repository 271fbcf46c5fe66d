package feed

import (
	"context"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/nodecache"
	"tidings/services/posts"
	"tidings/services/sql"
)

// checkWholeFeed checks that a reader's feed, read to its end in large and in small pages, equals the feed from SQL, and ends for the
// right reason.
func (n node) checkWholeFeed(reader services.UserID) {
	n.TB.Helper()
	entries, err := posts.HomeFeed(n.TB.Context(), n.DB, reader, services.MaxPostID, services.FeedRetention+1)
	n.Must(err)
	want := make([]services.PostID, min(len(entries), services.FeedRetention))
	for i := range want {
		want[i] = entries[i].Post
	}
	end := services.EndOfFeed
	if len(entries) > services.FeedRetention {
		end = services.EndOfRetention
	}
	for _, first := range []int{100, 7} {
		if got, said := n.readWholeFeed(reader, first); !slices.Equal(got, want) || said != end {
			n.TB.Errorf("by %d: %d listed to %s, want %d to %s:\n%v\n%v", first, len(got), said, len(want), end, got, want)
		}
	}
}

// The feed has pushed and pulled posts in one order, before and after changes of the mode, deletions, unfollows and losses.
func TestAFeedOfPushedAndPulledPosts(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		reader, huge, small := n.MakeReader()
		var posts []services.PostID
		for range 20 {
			posts = append(posts, n.publish(huge, "pulled"), n.publish(small, "pushed"))
		}
		own := n.publish(reader, "own")
		n.RunJobsAndReadLog()
		n.checkWholeFeed(reader)
		n.checkWholeFeed(huge)
		n.SetMode(huge, services.AuthorSmall)
		n.publish(huge, "pushed now")
		n.SetMode(huge, services.AuthorHuge)
		n.publish(huge, "pulled again")
		n.RunJobsAndReadLog()
		n.checkWholeFeed(reader)
		n.Must(n.commit(n.Service.Delete(huge, posts[4])))
		n.Must(n.commit(n.Service.Delete(small, posts[5])))
		n.Must(n.commit(n.Service.Delete(reader, own)))
		n.RunJobsAndReadLog()
		n.checkWholeFeed(reader)
		n.Unfollow(huge, reader)
		n.RunJobsAndReadLog()
		n.checkWholeFeed(reader)
		n.Follow(huge, reader)
		n.RunJobsAndReadLog()
		n.checkWholeFeed(reader)
		n.Must(n.Redis.ResetUserData(t.Context(), reader))
		n.checkWholeFeed(reader)
		other := newNode(n.AnotherNode())
		other.checkWholeFeed(reader) // this node's cache has nothing of the reader yet
	})
}

// A feed has the newest 300 posts, from the inbox and the pulled posts together, however many each of them has.
func TestAFeedHasTheNewest300PostsOfInboxAndPulled(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, small := n.MakeReader()
	for _, count := range []int{90, 150, 400, 40} {
		n.InsertPosts(huge, count)
		n.InsertPosts(small, count/2)
		n.Must(n.fan.Projector.RefillInbox(t.Context(), reader))
		n.RunJobsAndReadLog()
		n.checkWholeFeed(reader)
	}
}

// A pulled post that this node has published is on the page before any job has run, and a deleted one is not.
func TestAPulledPostIsThereAtOnce(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, _ := n.MakeReader()
	id := n.publish(huge, "now")
	page, err := n.Page(t.Context(), reader, services.MaxPostID, 10)
	if err != nil || !slices.Equal(postIDsOf(page), []services.PostID{id}) {
		t.Errorf("the page has %v, %v", postIDsOf(page), err)
	}
	n.Must(n.commit(n.Service.Delete(huge, id)))
	if page, err = n.Page(t.Context(), reader, services.MaxPostID, 10); err != nil || len(page.Items) != 0 {
		t.Errorf("after the deletion %v, %v", postIDsOf(page), err)
	}
}

// While a reader reads page after page everything changes, and no post is skipped or repeated.
func TestPagingSkipsAndRepeatsNoPostWhileEverythingChanges(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, small := n.MakeReader()
	n.InsertPosts(huge, 60)
	n.InsertPosts(small, 60)
	n.Must(n.fan.Projector.RefillInbox(t.Context(), reader))
	n.RunJobsAndReadLog()
	entries, err := posts.HomeFeed(t.Context(), n.DB, reader, services.MaxPostID, services.FeedRetention)
	n.Must(err)
	gone := map[services.PostID]bool{}
	var walked []services.PostID
	before := services.MaxPostID
	for step := 0; ; step++ {
		page, err := n.Page(t.Context(), reader, before, 11)
		n.Must(err)
		walked = append(walked, postIDsOf(page)...)
		if !page.HasNext {
			break
		}
		before = page.NextPageAfter
		switch step % 5 {
		case 0:
			n.publish(huge, "meanwhile")
		case 1:
			n.SetMode(huge, []services.AuthorMode{services.AuthorSmall, services.AuthorHuge}[step/5%2])
			n.publish(huge, "another way")
		case 2:
			victim := entries[(step*17)%len(entries)]
			if !gone[victim.Post] {
				n.Must(n.commit(n.Service.Delete(victim.Author, victim.Post)))
			}
			gone[victim.Post] = true
		case 3:
			n.Must(n.Redis.ResetUserData(t.Context(), reader))
		case 4:
			n.RunJobsAndReadLog()
		}
	}
	seen := map[services.PostID]bool{}
	for _, post := range walked {
		if seen[post] {
			t.Errorf("%s is listed twice", post)
		}
		seen[post] = true
	}
	for _, entry := range entries {
		if !seen[entry.Post] && !gone[entry.Post] {
			t.Errorf("%s was skipped", entry.Post)
		}
	}
}

// If SQL does not answer, pages come from Redis and memory; if Redis does not answer, from SQL.
func TestPulledPagesWithoutAnEngine(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, small := n.MakeReader()
	ids := []services.PostID{n.publish(small, "1"), n.publish(huge, "2"), n.publish(small, "3")}
	n.RunJobsAndReadLog()
	want := newestFirst(ids)
	read := func(what string) {
		t.Helper()
		page, err := n.Page(t.Context(), reader, services.MaxPostID, 10)
		if err != nil || !slices.Equal(postIDsOf(page), want) || page.InboxBuilding {
			t.Errorf("%s: %v, %v", what, postIDsOf(page), err)
		}
	}
	read("both")
	n.RedisServer.Kill()
	read("SQL alone")
	n.RedisServer.Start()
	n.Must(n.fan.Projector.Rebuild(t.Context(), reader))
	read("both again")
	n.Must(n.DB.Close())
	read("without SQL")
}

// A feed that takes long to rebuild is read from the facts and marked as building until it is ready.
func TestAFeedThatIsBeingBuilt(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, small := n.MakeReader()
	ids := newestFirst([]services.PostID{n.publish(huge, "1"), n.publish(small, "2")})
	n.RunJobsAndReadLog()
	n.Must(n.Redis.ResetUserData(t.Context(), reader))
	n.rebuildWait = time.Nanosecond
	page, err := n.Page(t.Context(), reader, services.MaxPostID, 10)
	if err != nil || !page.InboxBuilding || !slices.Equal(postIDsOf(page), ids) || page.End != services.EndOfFeed {
		t.Errorf("%v, building %t, end %q, %v", postIDsOf(page), page.InboxBuilding, page.End, err)
	}
	n.rebuildWait = time.Minute
	if page, err = n.Page(t.Context(), reader, services.MaxPostID, 10); err != nil || page.InboxBuilding || !slices.Equal(postIDsOf(page), ids) {
		t.Errorf("built: %v, building %t, %v", postIDsOf(page), page.InboxBuilding, err)
	}
}

// A post whose fan-out waits for a worker is on its readers' first pages and in their counts. It appears once, and
// disappears if it is deleted while it waits.
func TestAPostThatWaitsForAWorkerIsNotMissing(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, reader := n.newAuthorAndReader()
		stranger := n.MakeUsers(1)[0]
		shows := func(what string, reader services.UserID, want ...services.PostID) {
			t.Helper()
			_, err := n.Caches.Changelog.RunOnce(t.Context())
			n.Must(err)
			page, err := n.Page(t.Context(), reader, services.MaxPostID, 10)
			if err != nil || !slices.Equal(postIDsOf(page), want) || n.Document(reader).FeedCount != len(want) {
				t.Errorf("%s: %v and %d, %v; want %v", what, postIDsOf(page), n.Document(reader).FeedCount, err, want)
			}
		}
		first := n.publish(author, "waits")
		shows("as long as every job waits", reader)
		n.Clock.Advance(time.Second)
		shows("longer", reader, first)
		shows("once", reader, first)
		shows("who does not follow", stranger)
		second, gone := n.publish(author, "waits too"), n.publish(author, "does not stay")
		n.Clock.Advance(time.Second)
		_, err := n.Caches.Changelog.RunOnce(t.Context())
		n.Must(err)
		n.Must(n.commit(n.Service.Delete(author, gone)))
		shows("one deleted", reader, second, first)
		n.RunAllJobs(n.fan)
		shows("and when they have come", reader, second, first)
		if left := n.Caches.InFlight.List(); len(left) > 0 {
			t.Errorf("in flight are %v", left)
		}
		n.CheckAgainstFacts(author, reader, stranger)
	})
}

// A post in flight is on a first page and in the count before it has reached the inbox, and appears once.
func TestAPostInFlightIsOnTheFirstPage(t *testing.T) {
	n := redisServerNode(t)
	reader, _, small := n.MakeReader()
	stranger := n.MakeUsers(1)[0]
	ids := n.InsertPosts(small, 2) // without a job: no fan-out brings them
	foreign := n.InsertPosts(stranger, 1)
	begin := func(post services.PostID, author services.UserID) {
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			one := posts.InFlightFanout{Post: post, Author: author}
			if err := posts.BeginFanout(ctx, tx, one, 2); err != nil {
				return err
			}
			return nodecache.FanoutChange{InFlightFanout: one}.Append(ctx, tx)
		})
		_, err := n.Caches.Changelog.RunOnce(t.Context())
		n.Must(err)
	}
	shows := func(what string, want ...services.PostID) {
		t.Helper()
		page, err := n.Page(t.Context(), reader, services.MaxPostID, 10)
		if err != nil || !slices.Equal(postIDsOf(page), want) || n.Document(reader).FeedCount != len(want) {
			t.Errorf("%s: %v and %d, %v; want %v", what, postIDsOf(page), n.Document(reader).FeedCount, err, want)
		}
	}
	shows("nothing is on its way")
	begin(ids[0], small)
	begin(foreign[0], stranger)
	shows("one", ids[0])
	shows("once", ids[0])
	begin(ids[1], small)
	shows("two", ids[1], ids[0])
	n.Must(n.fan.Projector.Rebuild(t.Context(), reader))
	shows("and when they have come", ids[1], ids[0])
}
