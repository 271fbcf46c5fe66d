package fanout_test

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/posts"
	"tidings/services/projector"
)

// The fan-out of a post to many followers is split: all its chunks replace the job, or none.
func TestAFanOutIsSplitInOneTransaction(t *testing.T) {
	w := newEmbeddedWorld(t, smallChunks)
	users := w.MakeUsers(6)
	w.Follow(users[0], users[1:]...)
	w.RunAllJobs(w.Fanout)
	w.Post(users[0])
	quick := w.Fanout.Workers(1)[0]
	if claimed, err := quick.RunOnce(t.Context()); claimed != 1 || err != nil {
		t.Fatalf("%d claimed, %v", claimed, err)
	}
	if waiting, _ := w.CountJobs(); waiting != 3 {
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
	w.CheckAgainstFacts(users...)
}

// A chunk serves the followers at the time when it runs, not those at the time of the split.
func TestAChunkServesThePresentFollowers(t *testing.T) {
	w := newEmbeddedWorld(t, smallChunks)
	users := w.MakeUsers(8)
	w.Follow(users[0], users[1:6]...)
	w.RunAllJobs(w.Fanout)
	w.Post(users[0])
	if _, err := w.Fanout.Workers(1)[0].RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Unfollow(users[0], users[2])
	w.Follow(users[0], users[6], users[7])
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(users...)
}

// A worker that splits a job after another worker did changes nothing: the chunks are not queued twice.
func TestALateSplitQueuesNoChunks(t *testing.T) {
	w := newEmbeddedWorld(t, smallChunks)
	users := w.MakeUsers(6)
	w.Follow(users[0], users[1:]...)
	w.RunAllJobs(w.Fanout)
	w.Post(users[0])
	late := w.ClaimDueJobs()
	w.Clock.Advance(31 * time.Second)
	if _, err := w.AnotherFanout().Workers(1)[0].RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Fanout.RunJobs(t.Context(), late); !services.IsUnavailable(err) {
		t.Errorf("the late worker got %v", err)
	}
	if waiting, _ := w.CountJobs(); waiting != 3 {
		t.Errorf("%d chunks of 3", waiting)
	}
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(users...)
}

// Workers of two nodes share the work, and every job is done.
func TestTwoNodesShareTheWork(t *testing.T) {
	w := newEmbeddedWorld(t, smallChunks)
	users := w.MakeUsers(6)
	w.Follow(users[0], users[1:]...)
	for range 10 {
		w.Post(users[0])
	}
	var group errgroup.Group
	for _, node := range []*fanouttest.Fanout{w.Fanout, w.AnotherFanout()} {
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
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(users...)
}

// A fan-out that does not end, as when a chunk is a dead job, is deleted after a day, and not before: until then every node merges its
// post into pages.
func TestTheJanitorForgetsAFanOutThatDoesNotEnd(t *testing.T) {
	fanouttest.EachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(6)
		w.Follow(users[0], users[1:]...)
		w.RunAllJobs(w.Fanout)
		post := w.Post(users[0])
		if _, err := w.Fanout.Workers(1)[0].RunOnce(t.Context()); err != nil { // it splits the job, and serves no chunk
			t.Fatal(err)
		}
		_, err := w.Caches.Changelog.RunOnce(t.Context())
		w.Must(err)
		for _, turn := range []struct {
			after time.Duration
			left  int
		}{{24 * time.Hour, 1}, {time.Second, 0}} {
			w.Clock.Advance(turn.after)
			_, err := projector.NewJanitor(w.Projector).RunOnce(t.Context())
			w.Must(err)
			_, err = w.Caches.Changelog.RunOnce(t.Context())
			w.Must(err)
			left, err := posts.InFlightFanouts(t.Context(), w.DB)
			w.Must(err)
			if known := w.Caches.InFlight.List(); len(left) != turn.left || len(known) != turn.left {
				t.Errorf("after %s more, %d fan-outs of post %s are left, and a node knows of %d, want %d", turn.after, len(left), post, len(known), turn.left)
			}
		}
	})
}
