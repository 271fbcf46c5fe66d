package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services/jobs"
	"tidings/tests/eventually"
)

// blockingJobKind returns a kind whose jobs report on begun when they begin, and end when leave has a value.
func blockingJobKind(name string) (kind jobs.Kind, begun, leave chan struct{}) {
	begun, leave = make(chan struct{}), make(chan struct{})
	return shortJobKind(name, func(context.Context, jobs.Job) error {
		close(begun)
		<-leave
		return nil
	}), begun, leave
}

// A worker at a long job keeps its lease: no other worker takes the job meanwhile.
func TestALeaseIsRenewedWhileTheJobRuns(t *testing.T) {
	const lease = 20 * time.Millisecond
	kind, begun, leave := blockingJobKind("paint")
	n := sqliteNode(t, func(cfg *jobs.Config) { cfg.Lease = lease }, kind)
	n.enqueue(jobs.KeyedJob("paint", ""))
	done := make(chan error, 1)
	go func() {
		_, err := n.Workers(1)[0].RunOnce(t.Context())
		done <- err
	}()
	<-begun
	for range 3 {
		n.clock.advance(15 * time.Millisecond)
		eventually.Holds(t, "the lease is renewed", func() bool {
			ended, err := jobs.OverdueIDs(t.Context(), n.db, n.Kinds(), n.clock.Now(), n.clock.Now().Add(lease-time.Microsecond), 1)
			return err == nil && len(ended) == 0
		})
	}
	if claimed := n.claim(); len(claimed) != 0 {
		t.Errorf("%d jobs were taken from a worker that lives", len(claimed))
	}
	close(leave)
	n.must(<-done)
	if waiting, _ := n.queueCounts(); waiting != 0 {
		t.Errorf("%d jobs are left", waiting)
	}
}

// Run runs due jobs, sleeps in between, is woken by Wake, and ends with its context.
func TestRunIsWokenAndEndsWithItsContext(t *testing.T) {
	n := sqliteNode(t, func(cfg *jobs.Config) { cfg.PollInterval = time.Hour }, shortJobKind("paint", doNothing))
	ctx, stop := context.WithCancel(t.Context())
	var group errgroup.Group
	for _, worker := range n.Workers(1) {
		group.Go(func() error { return worker.Run(ctx) })
	}
	for range 3 {
		n.enqueue(jobs.KeyedJob("paint", ""), jobs.KeyedJob("paint", ""))
		n.Wake()
		eventually.Holds(t, "the jobs are done", func() bool {
			waiting, _ := n.queueCounts()
			return waiting == 0
		})
	}
	stop()
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("the workers ended with %v", err)
	}
}

// A worker that is stopped finishes its present job.
func TestRunFinishesItsPresentJob(t *testing.T) {
	kind, begun, leave := blockingJobKind("paint")
	n := sqliteNode(t, nil, kind)
	n.enqueue(jobs.KeyedJob("paint", ""))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Workers(1)[0].Run(ctx) }()
	<-begun
	stop()
	close(leave)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if waiting, _ := n.queueCounts(); waiting != 0 {
		t.Errorf("%d jobs are left: what was held is given up", waiting)
	}
}

// A claim is not cut off by a stop: the jobs would stay leased by a node that is gone.
func TestAStopDoesNotInterruptAClaim(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		done := 0
		n.Register(shortJobKind("paint", func(context.Context, jobs.Job) error { done++; return nil }))
		n.enqueue(jobs.KeyedJob("paint", ""))
		stopped, stop := context.WithCancel(t.Context())
		stop()
		claimed, err := n.Workers(1)[0].RunOnce(stopped)
		n.must(err)
		if waiting, _ := n.queueCounts(); claimed != 1 || done != 1 || waiting != 0 {
			t.Errorf("%d jobs claimed, %d done, %d wait", claimed, done, waiting)
		}
	})
}

// A worker that is stopped between two claims takes no more jobs.
func TestAStoppedWorkerClaimsNothing(t *testing.T) {
	n := sqliteNode(t, nil, shortJobKind("paint", doNothing))
	n.enqueue(jobs.KeyedJob("paint", ""))
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := n.Workers(1)[0].Run(stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if waiting, _ := n.queueCounts(); waiting != 1 {
		t.Errorf("%d jobs wait", waiting)
	}
}
