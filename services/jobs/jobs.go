// Package jobs is the engine of commands and of the jobs that they leave behind.
//
// It guarantees that a command's facts and jobs are in one transaction, that one idempotency key has one effect and one
// answer, and that an actor never reads views that are older than the answer to a command of theirs: see ViewsStale.
package jobs

import (
	"log/slog"
	"time"

	"tidings/services/store"
)

// Config is what an engine needs.
type Config struct {
	Store *store.Store
	Log   *slog.Logger
	Wake  func() // makes idle workers look for jobs

	AfterCommit time.Duration // how long a command waits for the actor's own views; 0 means 300 ms
}

// Engine commits the commands of one node. It is safe for concurrent use.
type Engine struct {
	store *store.Store
	log   *slog.Logger
	cfg   Config
	stale staleViews
}

// New makes the engine of a node.
func New(cfg Config) *Engine {
	if cfg.AfterCommit == 0 {
		cfg.AfterCommit = 300 * time.Millisecond
	}
	return &Engine{store: cfg.Store, log: cfg.Log, cfg: cfg}
}
