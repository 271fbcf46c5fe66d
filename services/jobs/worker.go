package jobs

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/trace"
)

// MaxTries is how many times a job fails by itself until it is dead.
const MaxTries = 5

// The limits of workers.
const (
	claimLimit       = 1000                   // short jobs that a worker claims at once; a worker of chunks claims one at a time
	retryAfter       = 2 * time.Second        // the wait after the first failure; it is multiplied by the number of tries
	unavailablePause = 500 * time.Millisecond // a worker's pause after an engine did not answer
	maxParallelJobs  = 4                      // how many jobs one worker runs at a time
	shutdownGrace    = 5 * time.Second        // the most time for a claim after the process was asked to stop, and for settling jobs
)

// Worker runs the jobs of one class.
type Worker struct {
	engine     *Engine
	class      JobClass
	minDueFor  time.Duration   // how long its jobs are due at least: priorityHeadStart for the worker of jobs that go ahead, else 0
	maxClaimed int             // the most jobs of one claim
	wakeUp     <-chan struct{} // wakes Run while it waits
}

// Workers makes this node's workers: one for short jobs, some for bulk jobs, one for urgent ones, and one for the short jobs that go
// ahead.
func (e *Engine) Workers(bulk int) []*Worker {
	workers := []*Worker{{engine: e, class: ShortClass, maxClaimed: claimLimit, wakeUp: e.wakeUp[ShortClass]}}
	for range max(bulk, 1) { // workers and nodes share the chunks
		workers = append(workers, &Worker{engine: e, class: BulkClass, maxClaimed: 1, wakeUp: e.wakeUp[BulkClass]})
	}
	return append(workers, &Worker{engine: e, class: UrgentClass, maxClaimed: 1, wakeUp: e.wakeUp[UrgentClass]},
		&Worker{engine: e, class: ShortClass, minDueFor: priorityHeadStart, maxClaimed: priorityClaimLimit, wakeUp: e.wakeUpPriority})
}

// Run runs jobs until ctx ends, and then finishes the jobs in progress.
func (w *Worker) Run(ctx context.Context) error {
	e := w.engine
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		done, err := w.RunOnce(ctx)
		wait := e.cfg.PollInterval
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			e.log.Warn("jobs wait", "error", err)
			wait = unavailablePause
		case done > 0:
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wakeUp:
			if err != nil { // pause, even if woken
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-timer.C:
				}
			}
		case <-timer.C:
		}
	}
	return ctx.Err()
}

// RunOnce claims the due jobs, runs them, and returns how many it claimed. An error means that an engine did not answer:
// the jobs that needed it are released, and no try is counted.
func (w *Worker) RunOnce(ctx context.Context) (claimed int, err error) {
	e := w.engine
	// A claim that is cut off leaves its jobs leased by a node that is gone: nobody runs them until the leases end.
	claiming, cancel := outlive(ctx, shutdownGrace)
	defer cancel()
	jobs, err := Claim(claiming, e.db, e.kindsByClass[w.class], w.maxClaimed, e.cfg.Lease, w.minDueFor)
	if err != nil {
		if ctx.Err() == nil {
			e.noteJobsHalted()
		}
		e.possiblyLeasedJobs.add(jobs)
		return 0, err
	}
	if len(jobs) == 0 {
		return 0, nil
	}
	// Claimed jobs are finished even when the process is asked to stop: they are short, and this node holds their leases.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go e.keepLeases(work, jobs)
	return len(jobs), e.RunJobs(work, jobs)
}

// outlive returns a context that ends some time after ctx, or when it is canceled.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	// The timer starts when ctx ends. The second case ends the goroutine if the caller is done before the timer.
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// keepLeases renews the leases at half their time until the work is done. Renewal has no effect on jobs that are settled by then,
// because they no longer have this token.
func (e *Engine) keepLeases(ctx context.Context, jobs []Job) {
	_ = services.Every(ctx, e.cfg.Lease/2, func(ctx context.Context) {
		if err := extend(ctx, e.db, jobs, e.cfg.Lease); err != nil && ctx.Err() == nil {
			e.log.Warn("leases were not renewed; another worker may repeat the jobs", "error", err)
		}
	})
}

// runningJobKey is the context key that marks running jobs.
type runningJobKey struct{}

// InJob reports whether a context belongs to a running job, which runs again if it fails.
func InJob(ctx context.Context) bool { return ctx.Value(runningJobKey{}) != nil }

// RunJobs runs claimed jobs and settles each: jobs of a kind with Batch together, other jobs a few in parallel. It is exported for the
// tests of other packages, which run claimed jobs twice, late or in another order. An error means
// that an engine did not answer, as for RunOnce.
func (e *Engine) RunJobs(ctx context.Context, jobs []Job) error {
	ctx = context.WithValue(ctx, runningJobKey{}, true)
	var group errgroup.Group
	group.SetLimit(maxParallelJobs)
	outcomes := make([]error, len(jobs))
	together := map[string][]int{}
	for i, job := range jobs {
		kind, known := e.kinds[job.Kind]
		switch {
		case !known:
			outcomes[i] = fmt.Errorf("job kind %q is not known to this version", job.Kind)
		case kind.Batch != nil:
			together[job.Kind] = append(together[job.Kind], i)
		default:
			group.Go(func() error {
				ctx, span := trace.StartFrom(inheritPriority(ctx, job), []trace.Cause{job.Cause}, "job", job.Kind)
				outcomes[i] = e.noteOutcome(kind.callEach(ctx, job))
				endSpan(span, outcomes[i])
				return nil
			})
		}
	}
	for name, positions := range together {
		batch := services.Map(positions, func(i int) Job { return jobs[i] })
		e.runBatch(ctx, name, batch, func(k int, outcome error) { outcomes[positions[k]] = e.noteOutcome(outcome) })
	}
	_ = group.Wait() // outcomes are settled below
	return e.settle(ctx, jobs, outcomes)
}

// runBatch runs jobs of one kind together, and passes the outcome of each job to settle, with the index k of the job.
func (e *Engine) runBatch(ctx context.Context, name string, batch []Job, settle func(k int, outcome error)) {
	ctx, span := trace.StartFrom(inheritPriority(ctx, batch...), services.Map(batch, func(job Job) trace.Cause { return job.Cause }), "job", name)
	span.SetCount(len(batch))
	var failed error
	// All of the jobs have one span, which fails with the last failure.
	for k, outcome := range e.runTogether(ctx, e.kinds[name], batch) {
		settle(k, outcome)
		if outcome != nil && outcome != ErrFinished {
			failed = outcome
		}
	}
	endSpan(span, failed)
}

// runTogether runs jobs of one kind together. A panic does not say which job is at fault, so each then runs alone: the others must not
// count its failures.
func (e *Engine) runTogether(ctx context.Context, kind Kind, batch []Job) []error {
	outcomes, err := kind.callBatch(ctx, batch)
	if err == nil {
		return outcomes
	}
	if len(batch) == 1 {
		return []error{err}
	}
	e.log.Error("jobs failed together; each of them runs alone", "kind", kind.Name, "jobs", len(batch), "error", err)
	outcomes = make([]error, len(batch))
	for i := range batch {
		outcomes[i] = e.runTogether(ctx, kind, batch[i:i+1])[0]
	}
	return outcomes
}

// endSpan ends the span of a job; a job that has removed itself has succeeded.
func endSpan(span trace.Span, outcome error) {
	if outcome == ErrFinished {
		outcome = nil
	}
	span.End(outcome)
}

// noteOutcome returns the outcome of a job. If an engine did not answer the job, it records that at once, because the other jobs of
// the batch may still be waiting for that engine.
func (e *Engine) noteOutcome(outcome error) error {
	if outcome != nil && services.IsUnavailable(outcome) {
		e.noteJobsHalted()
	}
	return outcome
}

// settle finishes jobs that succeeded, releases jobs for which an engine did not answer, and counts a try for jobs that failed by
// themselves.
func (e *Engine) settle(ctx context.Context, jobs []Job, outcomes []error) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownGrace)
	defer cancel()
	var finished, released []Job
	var unavailable error
	for i, job := range jobs {
		switch err := outcomes[i]; {
		case err == nil:
			finished = append(finished, job)
		case err == ErrFinished:
		case services.IsUnavailable(err):
			released, unavailable = append(released, job), err
		default:
			retryAt := e.clock.Now().Add(retryAfter * time.Duration(job.Tries+1))
			dead, failed := fail(ctx, e.db, job, err, retryAt, MaxTries)
			e.log.Error("job failed", "kind", job.Kind, "key", job.Key, "tries", job.Tries+1, "dead", dead, "error", err)
			if failed != nil {
				e.possiblyLeasedJobs.add(jobs) // no effect on settled jobs: they have lost this node's token
				return failed
			}
		}
	}
	// One statement deletes all of them. It leaves out the jobs whose lease was lost, which run again elsewhere.
	if len(finished) > 0 {
		if _, err := FinishIfHeld(ctx, e.db, finished); err != nil {
			e.possiblyLeasedJobs.add(jobs)
			return fmt.Errorf("finish jobs: %w", err)
		}
	}
	if len(released) > 0 {
		if err := release(ctx, e.db, released, e.clock.Now().Add(unavailablePause)); err != nil {
			e.possiblyLeasedJobs.add(released)
			return fmt.Errorf("release jobs: %w", err)
		}
	}
	return unavailable
}
