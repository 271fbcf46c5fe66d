// Package fanout carries facts into views: jobs, fan-out, rebuilds.
//
// It guarantees that a fact and the job that carries it are in one transaction, that every effect on a view is
// idempotent and safe against reordering (the rule of rebuild, add and remove is written once, in reconcile.go and
// rebuild.go), and that the actor sees his own change as soon as he has the answer.
// When Redis does not answer, jobs wait without being counted as tried, and mutations succeed all the same. When the
// process dies between any two steps, another worker repeats the step, which changes nothing that was done: at once when
// it starts again under its name, after two seconds of silence on another node, when the lease ends in any case. Meanwhile
// Behind names the counts that may lack something.
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
	"tidings/services/store"
)

// Config is what fan-out needs.
type Config struct {
	Store  *store.Store
	Redis  *rdb.Client
	Mirror *mirror.Mirror
	Clock  services.Clock
	IDs    *services.IDClock
	Log    *slog.Logger

	Chunk       int           // followers a chunk job serves; 0 means 2,000
	ActiveFor   time.Duration // while no admin has set another: users not seen for longer are dormant; 0 means 30 days
	IdleAfter   time.Duration // the same: users not seen for longer are idle; 0 means 7 days
	Lease       time.Duration // of a job, renewed at half; 0 means 30 s
	Poll        time.Duration // how often a worker looks for jobs without being woken; 0 means 250 ms
	AfterCommit time.Duration // how long a command waits for the actor's own views; 0 means 300 ms
	Rebuilds    int           // users whose views are rebuilt at once, whoever asks; 0 means 16

	Thresholds services.Thresholds // of authors' modes, while no admin has set others; zero means 5,000 and 1,000,000

	Shows      services.ShowLimits // zero means 6 h and 12 h
	KeepBoards time.Duration       // the longest life of a session of the live board; 0 means 12 h

	MuteMentions bool // what mentions a user in a conversation that he has muted does not count either
}

// Fanout is the machinery of one node. It is safe for concurrent use.
type Fanout struct {
	*jobs.Engine

	store  *store.Store
	redis  *rdb.Client
	mirror *mirror.Mirror
	clock  services.Clock
	ids    *services.IDClock
	log    *slog.Logger
	cfg    Config

	kinds map[string]kind
	lanes map[lane][]string

	rebuilds singleflight.Group
	slots    chan struct{} // of rebuilds
	rebuilt  rebuildCounts
	skew     skew
	paces    paces
	inDoubt  inDoubt
	inFlight inFlight
	clamped  atomic.Uint64

	delivered        atomic.Uint64 // entries of inboxes
	replaysDelivered atomic.Uint64
	wakeUp           map[lane]chan struct{}
}

// New makes the machinery; the workers that do its jobs are made by Worker.
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
	if cfg.Shows == (services.ShowLimits{}) {
		cfg.Shows = services.ShowLimits{LateAfter: 6 * time.Hour, Longest: 12 * time.Hour}
	}
	if cfg.KeepBoards == 0 {
		cfg.KeepBoards = 12 * time.Hour
	}
	if cfg.Lease == 0 {
		cfg.Lease = 30 * time.Second
	}
	if cfg.Poll == 0 {
		cfg.Poll = 250 * time.Millisecond
	}
	if cfg.Rebuilds == 0 {
		cfg.Rebuilds = 16
	}
	f := &Fanout{
		store: cfg.Store, redis: cfg.Redis, mirror: cfg.Mirror, clock: cfg.Clock, ids: cfg.IDs, log: cfg.Log, cfg: cfg,
		wakeUp: map[lane]chan struct{}{}, slots: make(chan struct{}, cfg.Rebuilds),
	}
	f.Engine = jobs.New(jobs.Config{Store: cfg.Store, Log: cfg.Log, Wake: f.Wake, AfterCommit: cfg.AfterCommit})
	f.kinds = f.makeKinds()
	f.lanes = lanesOf(f.kinds)
	for _, lane := range []lane{laneQuick, laneBulk, laneOnline} {
		f.wakeUp[lane] = make(chan struct{}, 1)
	}
	return f
}

// today is the day of now, since 1970.
func (f *Fanout) today() int64 { return dayOf(f.clock.Now()) }

// dayOf is the day of a moment, since 1970.
func dayOf(t time.Time) int64 { return t.Unix() / int64(24*time.Hour/time.Second) }

// hint tells the nodes where the users are online that their documents changed. It may fail: the sweep heals that.
func (f *Fanout) hint(ctx context.Context, users []services.UserNumber, results []rdb.Result) {
	byNode := map[string][]rdb.Hint{}
	for i, result := range results {
		for _, node := range result.Nodes {
			byNode[node] = append(byNode[node], rdb.Hint{User: users[i], N: result.N})
		}
	}
	if len(byNode) == 0 {
		return
	}
	if err := f.redis.PublishHints(ctx, byNode); err != nil {
		f.log.Debug("hints were not sent; the sweep will find the change", "error", err)
	}
}

// RaiseVersions lets documents be news again for clients that hold versions made up without Redis, and answers the
// users whose documents have passed theirs by now.
func (f *Fanout) RaiseVersions(ctx context.Context, users []services.UserNumber, passed []uint64) (done []services.UserNumber, err error) {
	results, err := f.redis.RaiseVersions(ctx, users, passed)
	if err != nil {
		return nil, err
	}
	f.hint(ctx, users, results)
	for i, result := range results {
		if result.Status != rdb.Missing {
			done = append(done, users[i])
		}
	}
	return done, nil
}
