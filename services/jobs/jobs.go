// Package jobs is the engine of commands and of the jobs that they leave behind. It depends on no feature: the packages
// that own kinds of jobs register them.
//
// It guarantees that a command's facts and jobs are in one transaction, that one idempotency key has one effect and one answer, and
// that actors never read projections that are older than the answers to their own commands: see ProjectionsStale. A job runs at least once,
// so its effect must be idempotent. A job waits while Redis or SQL does not answer, and that does not count as a
// try. A job that fails by itself is tried five times, and then it is dead. When a process dies between any two steps, another worker
// repeats the step: at once when the process restarts under its name, after two seconds of silence on another node, and in any case
// when the lease expires. Meanwhile CountsBehind names the counts that may lack the effect of the job.
//
// The path of one mutation:
//
//  1. The service makes a Command. Commit runs its Apply, which writes the facts and calls Enqueue, in one transaction with the
//     idempotency key.
//  2. After the commit AfterApply and AfterCommit bring the actor's own projections up to date. If that fails, the update is owed
//     (owedUpdates), and until it succeeds the actor's reads come from SQL.
//  3. The answer goes out. The workers have been woken by then.
//  4. A Worker claims the due jobs of its class under a lease, collapses jobs of one key, and runs them by their Kind.
//  5. settle deletes the jobs that are done, releases jobs for which Redis or SQL did not answer, and counts a try of the others.
//  6. The Heartbeat announces that the node lives, and takes over the jobs of nodes that are silent.
package jobs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// Config holds what New needs.
type Config struct {
	DB    *sql.DB
	Clock services.Clock
	Log   *slog.Logger

	Lease              time.Duration // of a job, renewed at half its time; 0 means 30 s
	PollInterval       time.Duration // how often a worker checks for jobs without being woken; 0 means 250 ms
	AfterCommitTimeout time.Duration // how long a command waits after its commit for the projections of its user; 0 means 300 ms
}

// Engine commits the commands and runs the jobs of one node. It is safe for concurrent use once its kinds are registered.
type Engine struct {
	db    *sql.DB
	clock services.Clock
	log   *slog.Logger
	cfg   Config

	// Registrations fill kinds, kindsByClass and beatCallbacks before the first worker runs; they are only read afterwards.
	kinds          map[string]Kind                                 // by name
	kindsByClass   map[JobClass][]string                           // the names of the kinds
	beatCallbacks  []func(ctx context.Context, nodes []Node) error // see OnBeat
	wakeUp         map[JobClass]chan struct{}                      // wakes the workers of a class
	wakeUpPriority chan struct{}                                   // wakes the worker of the jobs that go ahead of bulk work

	// Many goroutines use these fields. Each is safe for that by itself.
	owedUpdates        owedUpdates        // failed updates of actors' projections
	possiblyLeasedJobs possiblyLeasedJobs // jobs that this node may hold, to be released
	lateJobs           lateJobs           // the jobs whose counts CountsBehind names
	lastHaltMicros     atomic.Int64       // when Redis or SQL last did not answer a job, in microseconds; 0: never
}

// New makes the engine of a node, without any kind of job.
func New(cfg Config) *Engine {
	if cfg.Lease == 0 {
		cfg.Lease = 30 * time.Second
	}
	if cfg.PollInterval == 0 {
		cfg.PollInterval = 250 * time.Millisecond
	}
	if cfg.AfterCommitTimeout == 0 {
		cfg.AfterCommitTimeout = 300 * time.Millisecond
	}
	e := &Engine{
		db: cfg.DB, clock: cfg.Clock, log: cfg.Log, cfg: cfg,
		kinds: map[string]Kind{}, kindsByClass: map[JobClass][]string{}, wakeUp: map[JobClass]chan struct{}{}, wakeUpPriority: make(chan struct{}, 1),
	}
	// Each channel holds one token: a worker that is woken looks at the queue once, however many jobs came.
	for _, class := range []JobClass{ShortClass, BulkClass, UrgentClass} {
		e.wakeUp[class] = make(chan struct{}, 1)
	}
	return e
}

// Wake makes idle workers check for jobs now.
func (e *Engine) Wake() {
	e.wakeAllButShort()
	services.Signal(e.wakeUp[ShortClass])
}

// wakeAllButShort makes idle workers check for jobs after a commit whose jobs go ahead of bulk work. It does not wake the worker of all
// short jobs, which would claim the same jobs. That worker checks the queue by itself, and helps if there are more jobs than the other
// worker can do.
func (e *Engine) wakeAllButShort() {
	services.Signal(e.wakeUpPriority)
	services.Signal(e.wakeUp[BulkClass])
	services.Signal(e.wakeUp[UrgentClass])
}
