package fanout

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/store"
)

const (
	claimLimit   = 1000
	maxTries     = 5
	retryAfter   = 2 * time.Second
	pauseFor     = 500 * time.Millisecond // how long a lane rests after an engine did not answer
	jobParallel  = 4
	finishWithin = 5 * time.Second
)

// Worker does the jobs of one lane.
type Worker struct {
	fanout *Fanout
	lane   lane
}

// Workers makes this node's workers: one for short work, bulk for the chunks of large fan-outs, and one for
// those chunks that come first.
func (f *Fanout) Workers(bulk int) []*Worker {
	workers := []*Worker{{f, laneQuick}}
	for range max(bulk, 1) {
		workers = append(workers, &Worker{f, laneBulk})
	}
	return append(workers, &Worker{f, laneOnline})
}

// Wake makes idle workers look for jobs now.
func (f *Fanout) Wake() {
	for _, wakeUp := range f.wakeUp {
		select {
		case wakeUp <- struct{}{}:
		default:
		}
	}
}

// Run does jobs until ctx ends; the jobs that it is at then are finished first.
func (w *Worker) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		done, err := w.RunOnce(ctx)
		wait := w.fanout.cfg.Poll
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			w.fanout.log.Warn("jobs wait", "error", err)
			wait = pauseFor
		case done > 0:
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.fanout.wakeUp[w.lane]:
			if err != nil { // rest, whoever calls
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-timer.C:
				}
			}
		case <-timer.C:
		}
	}
}

// RunOnce claims what is due, does it, and answers how many jobs it claimed. The error is that an engine did not
// answer: those jobs are released and not counted as tried.
func (w *Worker) RunOnce(ctx context.Context) (claimed int, err error) {
	f := w.fanout
	limit := claimLimit
	if w.lane != laneQuick {
		limit = 1 // chunks are shared among workers and nodes
	}
	jobs, err := f.store.Claim(ctx, f.lanes[w.lane], limit, f.cfg.Lease)
	if err != nil {
		f.inDoubt.add(jobs)
		return 0, err
	}
	if len(jobs) == 0 {
		return 0, nil
	}
	// What was claimed is finished even when the process is asked to stop: it is short, and its lease is ours.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go f.keepLeases(work, jobs)
	return len(jobs), f.runJobs(work, jobs)
}

// keepLeases renews the leases at half their time until the work is done.
func (f *Fanout) keepLeases(ctx context.Context, jobs []store.Job) {
	ticker := time.NewTicker(f.cfg.Lease / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := f.store.Extend(ctx, jobs, f.cfg.Lease); err != nil && ctx.Err() == nil {
				f.log.Warn("leases were not renewed; another worker may repeat the jobs", "error", err)
			}
		}
	}
}

// runJobs does the jobs, those of a kind that has them together at once and the others a few at a time, and settles each.
func (f *Fanout) runJobs(ctx context.Context, jobs []store.Job) error {
	var group errgroup.Group
	group.SetLimit(jobParallel)
	outcomes := make([]error, len(jobs))
	together := map[string][]int{}
	for i, job := range jobs {
		kind, known := f.kinds[job.Kind]
		switch {
		case !known:
			outcomes[i] = fmt.Errorf("job kind %q is not known to this version", job.Kind)
		case kind.batch != nil:
			together[job.Kind] = append(together[job.Kind], i)
		default:
			group.Go(func() error {
				outcomes[i] = kind.each(ctx, job)
				return nil
			})
		}
	}
	for name, places := range together {
		batch := make([]store.Job, len(places))
		for k, i := range places {
			batch[k] = jobs[i]
		}
		for k, outcome := range f.kinds[name].batch(ctx, batch) {
			outcomes[places[k]] = outcome
		}
	}
	_ = group.Wait() // outcomes are settled below
	return f.settle(ctx, jobs, outcomes)
}

// settle finishes what succeeded, releases what met an engine that did not answer, and counts a try for what failed
// by itself.
func (f *Fanout) settle(ctx context.Context, jobs []store.Job, outcomes []error) error {
	ctx, cancel := context.WithTimeout(ctx, finishWithin)
	defer cancel()
	var finished, released []store.Job
	var unavailable error
	for i, job := range jobs {
		switch err := outcomes[i]; {
		case err == nil:
			finished = append(finished, job)
		case err == errFinished:
		case services.IsUnavailable(err):
			released, unavailable = append(released, job), err
		default:
			retryAt := f.clock.Now().Add(retryAfter * time.Duration(job.Tries+1))
			dead, failed := f.store.Fail(ctx, job, err, retryAt, maxTries)
			f.log.Error("job failed", "kind", job.Kind, "key", job.Key, "tries", job.Tries+1, "dead", dead, "error", err)
			if failed != nil {
				f.inDoubt.add(jobs) // those that are settled are not ours any more: nothing happens to them
				return failed
			}
		}
	}
	if len(finished) > 0 {
		if _, err := f.store.Finish(ctx, finished); err != nil {
			f.inDoubt.add(jobs)
			return fmt.Errorf("finish jobs: %w", err)
		}
	}
	if len(released) > 0 {
		if err := f.store.Release(ctx, released, f.clock.Now().Add(pauseFor)); err != nil {
			f.inDoubt.add(released)
			return fmt.Errorf("release jobs: %w", err)
		}
	}
	return unavailable
}
