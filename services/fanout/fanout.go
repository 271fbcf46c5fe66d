// Package fanout projects facts into views: jobs, fan-out, rebuilds.
//
// It guarantees that every effect on a view is idempotent and safe against reordering: rebuilds, additions and removals all
// follow the rule of jobs.Merge. services/jobs runs its jobs; New registers their kinds there.
package fanout

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/store"
)

// Config is what fan-out needs.
type Config struct {
	Jobs     *jobs.Engine // New registers the kinds of fan-out's jobs in it
	Store    *store.Store
	Redis    *rdb.Projections
	Activity *mirror.Activity
	Clock    services.Clock
	IDs      *services.IDClock
	Log      *slog.Logger

	Chunk     int           // followers a chunk job serves; 0 means 2,000
	ActiveFor time.Duration // users not seen for longer are dormant, unless an admin has set another time; 0 means 30 days
	IdleAfter time.Duration // users not seen for longer are idle, unless an admin has set another time; 0 means 7 days
	Rebuilds  int           // how many views are rebuilt in parallel, for all callers together; 0 means 16

	Thresholds services.Thresholds // of authors' modes, unless an admin has set others; zero means 5,000 and 1,000,000

	Expiry services.SourceExpiry // how long items of each source stay in its number
}

// Fanout is the machinery of one node. It is safe for concurrent use.
type Fanout struct {
	*jobs.Engine
	Chunk int // the followers in a chunk: see Config

	store          *store.Store
	redis          *rdb.Projections
	activityMemory *mirror.Activity
	clock          services.Clock
	ids            *services.IDClock
	log            *slog.Logger
	cfg            Config

	rebuilds     singleflight.Group
	slots        chan struct{} // of rebuilds
	rebuilt      rebuildCounts
	readers      []namedReader // of registers
	auditParts   []namedPart
	rebuildParts []namedRebuildPart
	arrivals     []Arrival
	limited      []limitedRows
	hosts        namedHosts
	skew         skew
	clamped      atomic.Uint64

	delivered atomic.Uint64 // entries of inboxes
}

// New makes the machinery, and registers the kinds of its jobs.
func New(cfg Config) *Fanout {
	if cfg.Chunk == 0 {
		cfg.Chunk = 2000
	}
	if cfg.ActiveFor == 0 {
		cfg.ActiveFor = 30 * 24 * time.Hour
	}
	if cfg.IdleAfter == 0 {
		cfg.IdleAfter = 7 * 24 * time.Hour
	}
	cfg.IdleAfter = min(cfg.IdleAfter, cfg.ActiveFor)
	if cfg.Thresholds == (services.Thresholds{}) {
		cfg.Thresholds = services.Thresholds{Big: 5000, Huge: 1_000_000}
	}
	if cfg.Rebuilds == 0 {
		cfg.Rebuilds = 16
	}
	f := &Fanout{
		store: cfg.Store, redis: cfg.Redis, activityMemory: cfg.Activity, clock: cfg.Clock, ids: cfg.IDs, log: cfg.Log, cfg: cfg,
		Engine: cfg.Jobs, Chunk: cfg.Chunk, slots: make(chan struct{}, cfg.Rebuilds),
	}
	for _, kinds := range [][]jobs.Kind{
		f.peopleKinds(), f.feedKinds(), f.authorKinds(), f.restrictionKinds(), f.policyKinds(),
	} {
		f.Register(kinds...)
	}
	f.RegisterRegisters("display policy", f.policyRegisters, f.auditPolicy)
	f.RegisterAuditPart("home feed", f.auditFeed)
	f.RegisterAuditPart("versioned fields", f.auditRegisters)
	f.OnBeat(f.followClocks)
	return f
}

// today is the day of now, since 1970.
func (f *Fanout) today() int64 { return services.DayOf(f.clock.Now()) }

// Hint notifies the nodes where the users are online that their documents changed. It may fail: reconciliation then finds
// the change.
func (f *Fanout) Hint(ctx context.Context, users []services.UserID, results []redis.Result) {
	byNode := map[string][]redis.Hint{}
	for i, result := range results {
		for _, node := range result.Nodes {
			byNode[node] = append(byNode[node], redis.Hint{User: users[i], N: result.N})
		}
	}
	if len(byNode) == 0 {
		return
	}
	if err := f.redis.PublishHints(ctx, byNode); err != nil {
		f.log.Debug("hints were not sent; reconciliation will find the change", "error", err)
	}
}

// RaiseVersions raises documents above the versions that clients were given without Redis, so that clients accept them
// again. It answers the users whose documents are above theirs by now.
func (f *Fanout) RaiseVersions(ctx context.Context, users []services.UserID, passed []uint64) (done []services.UserID, err error) {
	results, err := f.redis.RaiseVersions(ctx, users, passed)
	if err != nil {
		return nil, err
	}
	f.Hint(ctx, users, results)
	for i, result := range results {
		if result.Status != redis.Missing {
			done = append(done, users[i])
		}
	}
	return done, nil
}
