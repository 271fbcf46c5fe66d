// Package fanout brings posts to followers: fan-out on write, authors' modes, and what a follow or its end changes.
//
// A post, a follow or a seen position is on disk with its job before it is answered. It guarantees that every effect on an
// inbox is idempotent and safe against reordering: additions and removals follow the rule of jobs.Merge, as the rebuilds of
// services/projector do. When Redis fails, the job fails and tries again. services/jobs runs the jobs; New registers their
// kinds there.
package fanout

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Config is what fan-out needs.
type Config struct {
	Jobs      *jobs.Engine // New registers the kinds of fan-out's jobs in it
	Projector *projector.Projector
	Store     *sql.DB
	Redis     *rdb.Projections
	Clock     services.Clock
	IDs       *services.IDClock
	Log       *slog.Logger

	Chunk      int                 // followers a chunk job serves; 0 means 2,000
	Thresholds services.Thresholds // of authors' modes, unless an admin has set others; zero means 5,000 and 1,000,000
}

// Fanout is the fan-out of one node. It is safe for concurrent use.
type Fanout struct {
	*jobs.Engine
	Projector *projector.Projector
	Chunk     int // how many followers a chunk has: see Config

	store      *sql.DB
	redis      *rdb.Projections
	clock      services.Clock
	ids        *services.IDClock
	log        *slog.Logger
	thresholds services.Thresholds // the configured ones
	hosts      HostMerge

	delivered atomic.Uint64 // how many entries this node has put into inboxes
}

// keepFanouts is how long a fan-out with a dead chunk is kept.
const keepFanouts = 24 * time.Hour

// New makes the fan-out, and registers the kinds of its jobs.
func New(cfg Config) *Fanout {
	if cfg.Chunk == 0 {
		cfg.Chunk = 2000
	}
	if cfg.Thresholds == (services.Thresholds{}) {
		cfg.Thresholds = services.Thresholds{Big: 5000, Huge: 1_000_000}
	}
	f := &Fanout{
		Engine: cfg.Jobs, Projector: cfg.Projector, Chunk: cfg.Chunk, store: cfg.Store, redis: cfg.Redis, clock: cfg.Clock,
		ids: cfg.IDs, log: cfg.Log, thresholds: cfg.Thresholds,
	}
	for _, kinds := range [][]jobs.Kind{f.feedKinds(), f.authorKinds(), f.restrictionKinds()} {
		f.Register(kinds...)
	}
	f.Projector.RegisterLimitedRows("fan-outs with a dead chunk", func(ctx context.Context) (dropped int, err error) {
		return posts.ForgetFanouts(ctx, f.store, f.clock.Now().Add(-keepFanouts))
	})
	return f
}
