package projector_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/projector"
	"tidings/services/redis"
	"tidings/services/sql"
	"tidings/tests/eventually"
)

// A post is deleted while a lost projection is rebuilt: in each round before another one of the reads of its facts. The rebuilt
// projection does not have the post.
func TestARebuildReadsAgainWhatWasRemovedMeanwhile(t *testing.T) {
	const firstRead = "positions of a user"
	var left atomic.Int64 // how many reads come before the deletion; the first read of a rebuild begins the count
	var waits, met int64  // before which read of the next rebuild the post is deleted, from 1 on; how often it was
	var remove func()
	w := fanouttest.New(t, fanouttest.Options{RedisURL: "embedded", Trace: func(statement string) {
		if waits > 0 && statement == firstRead {
			left.Store(waits)
			waits = 0
		}
		if left.Load() > 0 && left.Add(-1) == 0 {
			met++
			remove()
		}
	}})
	users := w.MakeUsers(2)
	w.Follow(users[0], users[1])
	for before := int64(1); met == before-1; before++ {
		post := w.Post(users[0])
		w.RunAllJobs(w.Fanout)
		w.Must(w.Redis.ResetUserData(t.Context(), users[1]))
		remove = func() {
			w.Delete(post)
			w.RunDueJobs(w.Fanout)
		}
		waits = before
		w.Must(w.Projector.Rebuild(t.Context(), users[1]))
		left.Store(0)
		if met == before {
			w.CheckAgainstFacts(users[1])
		}
	}
	if met < 4 {
		t.Errorf("the post was deleted before %d reads only: the reads were not met", met)
	}
}

// Concurrent callers share one rebuild, and each gets the whole projection.
func TestCallersShareARebuild(t *testing.T) {
	w := newRedisServerWorld(t)
	author, reader := w.MakeUsers(1)[0], w.MakeNeverSeenUsers(1)[0]
	w.Follow(author, reader)
	w.InsertPosts(author, 10)
	const callers = 50
	ctx, trips := redis.WithRoundTrips(t.Context())
	w.Must(w.Projector.Rebuild(ctx, reader))
	alone := trips.Count()
	w.RedisServer.Flush()
	ctx, trips = redis.WithRoundTrips(t.Context())
	w.RedisServer.Pause()
	errs := make(chan error, callers)
	for range callers {
		go func() { errs <- w.Projector.Rebuild(ctx, reader) }()
	}
	eventually.Holds(t, "the first rebuild waits for Redis", func() bool { return trips.Count() > 0 })
	w.RedisServer.Resume()
	for range callers {
		w.Must(<-errs)
	}
	// A caller that came after the first rebuild's end began another one; fifty rebuilds would take fifty times as many trips.
	if trips.Count() > 10*alone {
		t.Errorf("%d callers waited %d times for Redis, one alone %d times", callers, trips.Count(), alone)
	}
	w.CheckAgainstFacts(reader)
}

// A rebuild continues after the context of its only caller has ended. The caller gets UNAVAILABLE, unless the rebuild was quicker.
func TestARebuildOutlivesItsCaller(t *testing.T) {
	w := newEmbeddedWorld(t)
	author, reader := w.MakeUsers(1)[0], w.MakeNeverSeenUsers(1)[0]
	w.Follow(author, reader)
	w.InsertPosts(author, 3)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if err := w.Projector.Rebuild(ctx, reader); err != nil && !services.IsUnavailable(err) {
		t.Errorf("a user who has left got %v", err)
	}
	eventually.Holds(t, "the document", func() bool { return w.Document(reader).Ready })
	w.CheckAgainstFacts(reader)
}

// A call whose run waits for a slot counts until the run has ended, also when its caller has given up. The run counts as running only
// once it has the slot.
func TestACallIsPendingUntilItsRunEnds(t *testing.T) {
	w := newEmbeddedWorld(t)
	const slots = 16 // the default
	begun, release := make(chan struct{}), make(chan struct{})
	errs := make(chan error, slots)
	for i := range slots {
		go func() {
			errs <- w.Projector.RunSharedRebuild(t.Context(), fmt.Sprint("holds a slot ", i), "the test's data", func(context.Context) error {
				begun <- struct{}{}
				<-release
				return nil
			})
		}()
		<-begun
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	last := make(chan projector.RebuildStats, 1)
	err := w.Projector.RunSharedRebuild(ctx, "waits", "the test's data", func(context.Context) error {
		last <- w.Projector.RebuildStats()
		return nil
	})
	if !services.IsUnavailable(err) {
		t.Errorf("a caller who has left got %v", err)
	}
	if stats := w.Projector.RebuildStats(); stats.Running != slots || stats.Pending != slots+1 {
		t.Errorf("one run waits: %+v", stats)
	}
	close(release)
	for range slots {
		w.Must(<-errs)
	}
	if stats := <-last; stats.Pending < 1 {
		t.Errorf("while the last one ran: %+v", stats)
	}
	eventually.Holds(t, "all runs have ended", func() bool { return w.Projector.RebuildStats().Pending == 0 })
}

// A lost feed is rebuilt as the facts say, whatever its length and also if it was trimmed. Until then the document is not ready, so it
// is not shown as 0.
func TestALostFeedIsRebuiltFromTheFacts(t *testing.T) {
	for _, posts := range []int{0, 1, services.FeedRetention - 1, services.FeedRetention, services.FeedRetention + 1, services.FeedRetention + 60} {
		w := newRedisServerWorld(t)
		users := w.MakeUsers(2)
		w.Follow(users[0], users[1])
		w.RunAllJobs(w.Fanout)
		ids := w.InsertPosts(users[0], posts)
		w.RedisServer.Flush()
		if w.Document(users[1]).Ready {
			t.Fatal("the flush left the document")
		}
		w.Must(w.Projector.Rebuild(t.Context(), users[1]))
		w.Must(w.Projector.Rebuild(t.Context(), users[0]))
		w.CheckAgainstFacts(users...)
		if posts < 2 {
			continue
		}
		w.Write(func(ctx context.Context, tx *sql.Tx) error {
			_, err := positions.Advance(ctx, tx, users[1], positions.HomeFeedView, ids[posts-2])
			return err
		})
		w.RedisServer.Flush()
		w.Must(w.Projector.Rebuild(t.Context(), users[1]))
		if count := w.Document(users[1]).FeedCount; count != 1 {
			t.Errorf("of %d posts all but one were seen: %d", posts, count)
		}
		w.CheckAgainstFacts(users[1])
	}
}

// One refill for every recent user repairs feeds after follows without jobs, as by an import.
func TestQueuedRefillsRepairTheFeedsOfActiveUsers(t *testing.T) {
	w := newEmbeddedWorld(t)
	users, absent := w.MakeUsers(3), w.MakeNeverSeenUsers(1)[0]
	author, readers := users[0], users[1:]
	w.Post(author)
	w.RunAllJobs(w.Fanout)
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		var edges []services.FollowEdge
		for _, reader := range append([]services.UserID{absent}, readers...) {
			edges = append(edges, services.FollowEdge{Follower: reader, Followee: author, PostsCountAfter: services.PostID(w.IDs.Next())})
		}
		_, err := people.ImportFollows(ctx, tx, edges)
		return err
	})
	if w.DiffAgainstFacts(readers[0]) == "" {
		t.Fatal("there is nothing to mend")
	}
	queued, err := projector.QueueInboxRefills(t.Context(), w.DB, fanouttest.StartTime)
	if queued != len(users) || err != nil {
		t.Errorf("%d refills, %v; want one for each of the %d who were here", queued, err, len(users))
	}
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(users...)
	if w.Document(absent).Ready {
		t.Error("a document was made for somebody who was never here")
	}
}
