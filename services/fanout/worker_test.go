package fanout_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/store"
)

// A post of many followers is split: chunks replace their parent, all or none.
func TestAFanOutIsSplitInOneTransaction(t *testing.T) {
	w := world(t, smallChunks)
	users := w.Users(6)
	w.Follow(users[0], users[1:]...)
	w.Quiet(w.Fanout)
	w.Post(users[0])
	quick := w.Fanout.Workers(1)[0]
	if claimed, err := quick.RunOnce(t.Context()); claimed != 1 || err != nil {
		t.Fatalf("%d claimed, %v", claimed, err)
	}
	if waiting, _ := w.Jobs(); waiting != 3 {
		t.Fatalf("%d jobs stand for five followers in chunks of two, want 3", waiting)
	}
	if claimed, err := quick.RunOnce(t.Context()); claimed != 0 || err != nil {
		t.Errorf("the worker of short jobs took %d chunks, %v", claimed, err)
	}
	bulk := w.Fanout.Workers(1)[1]
	for done := range 3 {
		if claimed, err := bulk.RunOnce(t.Context()); claimed != 1 || err != nil {
			t.Fatalf("chunk %d: %d claimed, %v", done, claimed, err)
		}
	}
	if claimed, err := bulk.RunOnce(t.Context()); claimed != 0 || err != nil {
		t.Errorf("a fourth chunk: %d, %v", claimed, err)
	}
	w.Agree(users...)
}

// Followers who come and go between the split and the chunk are served according to the follows when it runs.
func TestAChunkServesItsFollowersOfNow(t *testing.T) {
	w := world(t, smallChunks)
	users := w.Users(8)
	w.Follow(users[0], users[1:6]...)
	w.Quiet(w.Fanout)
	w.Post(users[0])
	if _, err := w.Fanout.Workers(1)[0].RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Unfollow(users[0], users[2])
	w.Follow(users[0], users[6], users[7])
	w.Quiet(w.Fanout)
	w.Agree(users...)
}

// A split that another worker has made already leaves nothing: its chunks are not queued twice.
func TestALateSplitLeavesNothing(t *testing.T) {
	w := world(t, smallChunks)
	users := w.Users(6)
	w.Follow(users[0], users[1:]...)
	w.Quiet(w.Fanout)
	w.Post(users[0])
	late := claim(w)
	w.Clock.Advance(31 * time.Second)
	if _, err := w.Another().Workers(1)[0].RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Fanout.RunJobs(t.Context(), late); !services.IsUnavailable(err) {
		t.Errorf("the late worker got %v", err)
	}
	if waiting, _ := w.Jobs(); waiting != 3 {
		t.Errorf("%d chunks of 3", waiting)
	}
	w.Quiet(w.Fanout)
	w.Agree(users...)
}

// Workers of two nodes share the work, and each piece is done.
func TestTwoNodesShareTheWork(t *testing.T) {
	w := world(t, smallChunks)
	users := w.Users(6)
	w.Follow(users[0], users[1:]...)
	for range 10 {
		w.Post(users[0])
	}
	var group errgroup.Group
	for _, node := range []*fanout.Fanout{w.Fanout, w.Another()} {
		for _, worker := range node.Workers(2) {
			group.Go(func() error {
				for idle := 0; idle < 3; {
					claimed, err := worker.RunOnce(t.Context())
					if err != nil && !services.IsUnavailable(err) {
						return err
					}
					idle++
					if claimed > 0 {
						idle = 0
					}
				}
				return nil
			})
		}
	}
	w.Must(group.Wait())
	w.Quiet(w.Fanout)
	w.Agree(users...)
}

// The janitor deletes old rows, and no others.
func TestTheJanitorTakesWhatIsOld(t *testing.T) {
	const keepLog, keepIdempotencyFor = time.Hour, 24 * time.Hour
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		user := w.Users(1)[0]
		janitor := w.Projector.Janitor()
		remember := func(key string) {
			w.Write(func(ctx context.Context, tx *store.Tx) error {
				if _, err := changelog.AppendLog(ctx, tx.Tx, "post", key, nil); err != nil {
					return err
				}
				return jobs.Remember(ctx, tx.Tx, "u1", key, []byte(key), nil)
			})
		}
		remember("first")
		remember("second")
		for _, turn := range []struct {
			after   time.Duration
			dropped int
		}{{0, 0}, {keepLog, 0}, {time.Second, 1}, {0, 0}, {keepIdempotencyFor - keepLog, 2}, {0, 0}} {
			w.Clock.Advance(turn.after)
			if dropped, err := janitor.RunOnce(t.Context()); dropped != turn.dropped || err != nil {
				t.Errorf("at %s: %d went, %v; want %d", w.Clock.Now().Sub(fanouttest.Start), dropped, err, turn.dropped)
			}
		}
		if head, oldest, err := changelog.LogHead(t.Context(), w.Store.DB, "post"); head != 2 || oldest != 2 || err != nil {
			t.Errorf("the log goes from %d to %d, %v: the newest entry stays", oldest, head, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := janitor.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
		w.Agree(user)
	})
}
