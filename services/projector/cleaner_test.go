package projector_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/rdb/rdbtest"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

const cleanInterval = 10 * time.Minute // from the beginning of one run of the cleaner to the next

// runCleaner lets a cleaner do a whole run.
func runCleaner(w *fanouttest.World, c *projector.Cleaner) projector.FreedCounts {
	w.TB.Helper()
	w.Must(c.AskForRun(w.TB.Context()))
	for {
		took, err := c.RunOnce(w.TB.Context())
		w.Must(err)
		if state, err := c.LatestRun(w.TB.Context()); err != nil || !state.RunningOrDue {
			w.Must(err)
			return state.LastFreed
		}
		if !took {
			w.TB.Fatal("a run is due and nobody takes it")
		}
	}
}

// markUsersActive marks users as seen now, in SQL alone.
func markUsersActive(w *fanouttest.World, users ...services.UserID) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error { return people.MarkActive(ctx, tx, users) })
}

// hasNoKeys reports whether Redis has no key of a user.
func hasNoKeys(w *fanouttest.World, user services.UserID) bool {
	w.TB.Helper()
	return rdbtest.Snapshot(w.TB, w.Redis, user).Wholeness == rdb.DocumentAbsent
}

// A run removes the entries that no list shows and the keys of dormant and unknown users, and no other key.
func TestCleanerRemovesOnlyUnusedEntriesAndKeys(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(5)
		author, reader, dormant, never := users[0], users[1], users[2], users[3]
		w.Follow(author, reader, dormant)
		w.InsertPosts(author, 320)
		w.RunAllJobs(w.Fanout)
		w.Clock.Advance(31 * 24 * time.Hour)
		for _, user := range []services.UserID{author, reader} {
			w.Must(w.Projector.Rebuild(t.Context(), user))
		}
		const unknown = services.UserID(999)
		_, err := w.Redis.BeginRebuild(t.Context(), []services.UserID{unknown}, rdb.RebuildMode{IsVisit: true})
		w.Must(err)
		c := projector.NewCleaner(w.Projector, cleanInterval)
		freed := runCleaner(w, c)
		if freed.TrimmedLists != 2 || freed.RemovedEntries != 40 || freed.DormantUsers < 1 || freed.UnknownUsers != 1 || freed.DroppedKeys < 4 || freed != c.Stats() {
			t.Errorf("freed %+v, this node %+v", freed, c.Stats())
		}
		for _, user := range []services.UserID{dormant, never, unknown} {
			if !hasNoKeys(w, user) {
				t.Errorf("something is kept of user %d: %+v", user, rdbtest.Snapshot(w.TB, w.Redis, user))
			}
		}
		w.CheckAgainstFacts(author, reader)
		if held := rdbtest.Snapshot(w.TB, w.Redis, reader); len(held.Entries) != services.FeedRetention || held.NewestTrimmed == 0 {
			t.Errorf("the inbox holds %d entries above %s", len(held.Entries), held.NewestTrimmed)
		}
		if again := runCleaner(w, c); again != (projector.FreedCounts{}) {
			t.Errorf("the next run freed %+v", again)
		}
		// The audit finds nothing wrong in the trimmed inbox, later posts are listed and counted, and a dormant user who returns gets
		// the whole feed.
		if differed, err := w.Projector.Recount(t.Context(), reader); err != nil || len(differed) > 0 {
			t.Errorf("what was trimmed differs from the facts in %v, %v", differed, err)
		}
		for range 5 {
			w.Post(author)
		}
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(reader)
		w.Must(w.Projector.Rebuild(t.Context(), dormant))
		w.CheckAgainstFacts(dormant)
	})
}

// After an inbox was trimmed and posts in it were deleted, it is refilled with posts that the trim had removed.
func TestDeletionsRefillATrimmedInbox(t *testing.T) {
	w := newEmbeddedWorld(t)
	users := w.MakeUsers(2)
	w.Follow(users[0], users[1])
	posts := w.InsertPosts(users[0], 330)
	w.RunAllJobs(w.Fanout)
	runCleaner(w, projector.NewCleaner(w.Projector, cleanInterval))
	for _, post := range posts[len(posts)-12:] {
		w.Delete(post)
	}
	w.RunAllJobs(w.Fanout)
	if held := w.Inbox(users[1]); len(held) != services.FeedRetention {
		t.Errorf("%d are listed", len(held))
	}
	w.CheckAgainstFacts(users[1])
}

// newSlowCleaner is a cleaner with a slow connection to Redis, so that much can happen between its reads and its drops.
func newSlowCleaner(t *testing.T, w *fanouttest.World, cfg projector.Config) *projector.Cleaner {
	t.Helper()
	proxy := redistest.NewProxy(t, w.RedisServer.Addr())
	redis, err := rdb.Open(t.Context(), redis.Options{URL: proxy.URL(), NodeID: "slow", Log: w.Log, ReadTimeout: 5 * time.Second}, rdb.DocumentShape{})
	w.Must(err)
	t.Cleanup(func() { _ = redis.Close() })
	proxy.Delay(20 * time.Millisecond)
	cfg.Redis, cfg.Jobs = redis, jobs.New(jobs.Config{DB: w.DB})
	return projector.NewCleaner(projector.New(cfg), cleanInterval)
}

// A user who returns while their keys are dropped has a complete document as soon as their rebuild has ended, and keeps it. A user
// who does not return has no keys.
func TestAUserWhoReturnsDuringADropIsComplete(t *testing.T) {
	const people, rounds = 90, 5
	var cfg projector.Config
	w := fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.Postgres(t), Projector: func(c *projector.Config) { cfg = *c }})
	users := w.MakeUsers(people)
	author := users[0]
	w.Follow(author, users[1:]...)
	w.InsertPosts(author, 3)
	w.RunAllJobs(w.Fanout)
	cleaners := []*projector.Cleaner{projector.NewCleaner(w.Projector, cleanInterval), newSlowCleaner(t, w, cfg)}
	for round := range rounds {
		w.Clock.Advance(31 * 24 * time.Hour)
		markUsersActive(w, author)
		w.Must(cleaners[0].AskForRun(t.Context()))
		comes := func(i int) bool { return i%3 != round%3 }
		var busy sync.WaitGroup
		busy.Go(func() {
			if _, err := cleaners[1].RunOnce(t.Context()); err != nil {
				t.Error(err)
			}
		})
		for visitor := range 2 {
			busy.Go(func() {
				for i := 1 + visitor; i < people; i += 2 {
					if !comes(i) {
						continue
					}
					if err := w.Projector.Rebuild(t.Context(), users[i]); err != nil {
						t.Error(err)
					}
				}
			})
		}
		busy.Wait()
		for i, user := range users[1:] {
			if comes(i + 1) {
				w.CheckAgainstFacts(user)
			}
		}
		runCleaner(w, cleaners[0])
		for i, user := range users[1:] {
			if comes(i + 1) {
				w.CheckAgainstFacts(user)
			} else if !hasNoKeys(w, user) {
				t.Errorf("round %d: user %d was not here and is kept", round, user)
			}
		}
	}
}

// All nodes share one run; another node continues the run of one that dies in its turn, from the same position.
func TestCleanersOfAllNodesShareOneRun(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		here, there := projector.NewCleaner(w.Projector, cleanInterval), projector.NewCleaner(w.AnotherFanout().Projector, cleanInterval)
		takes := func(c *projector.Cleaner, want bool, when string) {
			t.Helper()
			if took, err := c.RunOnce(t.Context()); err != nil || took != want {
				t.Errorf("%s: %v, %v", when, took, err)
			}
		}
		takes(here, true, "the first run")
		takes(there, false, "when it has ended")
		w.Clock.Advance(cleanInterval - time.Second)
		takes(there, false, "before the next is due")
		w.Clock.Advance(time.Second)
		turn, taken, err := projector.TakeCleanerTurn(t.Context(), w.DB, cleanInterval, 30*time.Second)
		if err != nil || !taken {
			t.Fatalf("%v, %v", taken, err)
		}
		takes(there, false, "while somebody has the turn")
		turn.Position, turn.FreedJSON = `{"master":"","cursor":0}`, `{"orphans":7}`
		if held, err := projector.LeaveCleanerTurn(t.Context(), w.DB, turn, false); err != nil || !held {
			t.Fatalf("%v, %v", held, err)
		}
		if _, taken, err = projector.TakeCleanerTurn(t.Context(), w.DB, cleanInterval, 30*time.Second); err != nil || !taken {
			t.Fatalf("%v, %v", taken, err)
		}
		w.Clock.Advance(29 * time.Second)
		takes(there, false, "while the lease of the dead lasts")
		w.Clock.Advance(time.Second)
		takes(there, true, "after it")
		state, err := there.LatestRun(t.Context())
		want := projector.CleanerRun{LastEndedAt: w.Clock.Now(), LastFreed: projector.FreedCounts{OrphanKeys: 7}}
		if diff := cmp.Diff(want, state); err != nil || diff != "" {
			t.Errorf("the run (-want +got), %v:\n%s", err, diff)
		}
		if held, err := projector.LeaveCleanerTurn(t.Context(), w.DB, turn, true); err != nil || held {
			t.Errorf("the dead node has passed its turn on: %v, %v", held, err)
		}
		w.Must(there.AskForRun(t.Context()))
		takes(here, true, "when somebody asks for it")
	})
}

// Without Redis a run waits, and continues from its position when Redis is back. In the end the log reports the freed data.
func TestCleanerWithoutRedis(t *testing.T) {
	var text lockedLog
	w := fanouttest.New(t, fanouttest.Options{Projector: func(cfg *projector.Config) { cfg.Log = slog.New(slog.NewTextHandler(&text, nil)) }})
	c := projector.NewCleaner(w.Projector, cleanInterval)
	w.RedisServer.Do("HSET", "{u77}:c", "1", "1,0,0,1,0,0,")
	w.RedisServer.Pause()
	took, err := c.RunOnce(t.Context())
	if !took || !services.IsUnavailable(err) {
		t.Errorf("without Redis: %v, %v", took, err)
	}
	w.RedisServer.Resume()
	eventually.Holds(t, "the run ends", func() bool {
		_, _ = c.RunOnce(t.Context())
		state, err := c.LatestRun(t.Context())
		return err == nil && !state.RunningOrDue && state.LastFreed.OrphanKeys == 1
	})
	if log := text.String(); !strings.Contains(log, "Redis is cleaned") || !strings.Contains(log, "orphans=1") {
		t.Errorf("the log says %s", log)
	}
}

// lockedLog is a log that a test can read while others write to it.
type lockedLog struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lockedLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A cleaner runs by itself, and ends with its context.
func TestCleanerRunsUntilItsContextEnds(t *testing.T) {
	w := newEmbeddedWorld(t)
	_, err := w.Redis.BeginRebuild(t.Context(), []services.UserID{999}, rdb.RebuildMode{IsVisit: true})
	w.Must(err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := projector.NewCleaner(w.Projector, cleanInterval)
	go func() { ended <- c.Run(ctx) }()
	eventually.Holds(t, "it is cleaned", func() bool { return c.Stats().UnknownUsers == 1 })
	stop()
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
	if text := fmt.Sprint(c.Stats().DroppedKeys); text != "2" {
		t.Errorf("%s keys went", text)
	}
}
