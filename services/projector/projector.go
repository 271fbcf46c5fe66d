// Package projector projects the facts of a user into their document and inbox, and keeps both right: rebuilds, versioned fields,
// the audit's comparison, idle users, the cleaner. Features register the data that they keep of a user. In this package, a user's
// projection is their document and their inbox together.
//
// The package guarantees that every effect on a projection is idempotent and safe against reordering: rebuilds, additions and removals
// all follow the rule of jobs.ProjectionMerge. services/jobs runs its jobs; New registers their kinds there. When Redis fails, the
// write fails and its job tries again.
//
// There are two ways into a projection. A change of facts takes the short one: the feature's job reads its versioned field from SQL,
// PutVersionedFields writes it, and HintAndMark sends hints and marks the user for the change stream. A projection that is missing or
// broken, or whose user was idle, takes the long one, Rebuild:
//
//  1. RecordVisit records the visit, so that all posts published from now on are pushed to the user. RefillInbox and Restore, which
//     jobs and the audit call, are no visits: they skip this step, make no document, and do nothing for idle and dormant users.
//  2. rdb.BeginRebuild makes the missing keys, marked as being built, and returns a stamp. Writers find these keys and use them.
//  3. readRebuildFacts reads everything of the user from SQL: the feed, each registered reader, each registered part.
//  4. rdb.EndRebuild merges these facts under the stamp. If something was removed meanwhile it refuses, and step 2 begins again.
//
// Readers answer from SQL in the meantime. The audit (CompareWithFacts) reads the same facts by other statements and names the
// differences; the cleaner and the janitor remove data that is no longer needed.
package projector

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/singleflight"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/sql"
)

// Config is what a projector needs.
type Config struct {
	Jobs     *jobs.Engine // New registers the kinds of its jobs in it
	DB       *sql.DB
	Redis    *rdb.Projections
	Activity *people.ActivityThresholdCache // the thresholds of idle and dormant users
	Clock    services.Clock
	IDs      *services.IDClock // makes this node's sortable IDs, by the database's clock
	Log      *slog.Logger

	Settings
	MaxParallelRebuilds int // how many projections are rebuilt in parallel, for all callers together; 0 means 16

	Expiry services.SourceExpiry // how long items of each source stay in its count
}

// Projector is the projector of one node. It is safe for concurrent use.
type Projector struct {
	Profiles *people.ProfileProjector // copies users' profiles to Redis

	db             *sql.DB
	redis          *rdb.Projections
	activityMemory *people.ActivityThresholdCache // the thresholds of idle and dormant users
	clock          services.Clock
	ids            *services.IDClock
	log            *slog.Logger
	cfg            Config

	// rebuilds, rebuildSlots, rebuildCounts, skew and negativeCounts guard themselves. Registrations fill the other fields from
	// here on before the first job; afterwards these are only read.
	rebuilds              singleflight.Group          // lets concurrent callers share a rebuild
	rebuildSlots          chan struct{}               // a value for each rebuild that runs
	rebuildCounts         rebuildCounts               // the numbers that RebuildStats returns
	versionedFieldReaders []namedVersionedFieldReader // of versioned fields
	auditParts            []namedAuditPart            // what audits compare, part by part
	rebuildParts          []namedRebuildPart          // what a rebuild reads beside the feed and versioned fields
	visitWriters          []VisitWriter               // run in the transaction that records a visit
	expiring              []expiringRows              // the rows that the janitor deletes for features
	hostsReader           HostsReader                 // lists the hosts in documents; nil: documents have no hosts
	skew                  clockSkew                   // how far this node's clock is ahead of the database's
	negativeCounts        atomic.Uint64               // documents in which a count was negative
	// OnMark adds a function to both: markFuncs record users whose badges may have changed, and markingEnabled report whether the
	// functions of markFuncs do anything at present.
	markFuncs      []func(ctx context.Context, users []services.UserID) error
	markingEnabled []func() bool
}

// New makes the projector, and registers the kinds of its jobs.
func New(cfg Config) *Projector {
	cfg.Settings = services.WithDefaults(cfg.Settings)
	// If IdleAfter were longer than DormantAfter, users would get no posts pushed (dormant) and no rebuild (not idle yet) in
	// between.
	cfg.IdleAfter = min(cfg.IdleAfter, cfg.DormantAfter)
	if cfg.MaxParallelRebuilds == 0 {
		cfg.MaxParallelRebuilds = 16
	}
	p := &Projector{
		db: cfg.DB, redis: cfg.Redis, activityMemory: cfg.Activity, clock: cfg.Clock, ids: cfg.IDs, log: cfg.Log, cfg: cfg,
		rebuildSlots: make(chan struct{}, cfg.MaxParallelRebuilds),
	}
	p.Profiles = people.NewProfileProjector(cfg.Jobs, cfg.DB, cfg.Redis)
	cfg.Jobs.Register(p.kinds()...)
	// The policy, the feed and the fields are the projector's own parts; features add theirs.
	p.AddVersionedFields("display policy", p.policyVersionedFields, p.auditPolicy)
	p.RegisterAuditPart("home feed", p.auditFeed)
	p.RegisterAuditPart("versioned fields", p.auditVersionedFields)
	cfg.Jobs.OnBeat(p.adjustIDClock)
	return p
}

// today is the present day, since 1970.
func (p *Projector) today() int64 { return services.DayOf(p.clock.Now()) }

// OnMark registers a function that durably records the users whose badges jobs may have changed. It runs before the job is done,
// also when the job is repeated and finds nothing left to change. marking reports whether mark does anything at present. Register
// before the first job.
func (p *Projector) OnMark(mark func(ctx context.Context, users []services.UserID) error, marking func() bool) {
	p.markFuncs, p.markingEnabled = append(p.markFuncs, mark), append(p.markingEnabled, marking)
}

// MarkingEnabled reports whether Mark does anything now. If it does not, a job need not read users only to mark them.
func (p *Projector) MarkingEnabled(ctx context.Context) bool {
	return jobs.InJob(ctx) && slices.ContainsFunc(p.markingEnabled, func(marking func() bool) bool { return marking() })
}

// Mark records users whose documents a job has changed. Outside of a job it does nothing: a document that a command changes
// at once is changed again by its job.
func (p *Projector) Mark(ctx context.Context, users []services.UserID) error {
	if len(p.markFuncs) == 0 || !jobs.InJob(ctx) {
		return nil
	}
	for _, mark := range p.markFuncs {
		if err := mark(ctx, users); err != nil {
			return fmt.Errorf("mark changed users: %w", err)
		}
	}
	return nil
}

// HintAndMark sends hints for the documents that a job has changed, and records all the users by Mark. If it fails, the job must
// run again.
func (p *Projector) HintAndMark(ctx context.Context, users []services.UserID, results []redis.Result) error {
	p.sendHints(ctx, users, results)
	return p.Mark(ctx, users)
}

// sendHints notifies the nodes where the users are online that their documents changed. It may fail: reconciliation then finds
// the change.
func (p *Projector) sendHints(ctx context.Context, users []services.UserID, results []redis.Result) {
	byNode := map[string][]redis.Hint{}
	// Only an Applied result has OnlineNodes: a document that did not change needs no hint.
	for i, result := range results {
		for _, node := range result.OnlineNodes {
			byNode[node] = append(byNode[node], redis.Hint{User: users[i], Version: result.Version})
		}
	}
	if len(byNode) == 0 {
		return
	}
	if err := p.redis.Client.PublishHints(ctx, byNode); err != nil {
		p.log.Debug("hints were not sent; reconciliation will find the change", "error", err)
	}
}

// RaiseVersions raises documents above the versions that clients got while Redis was away, so that clients accept the documents
// again. It returns the users whose documents are above those versions now, or will be when they are made.
func (p *Projector) RaiseVersions(ctx context.Context, users []services.UserID, passed []uint64) (done []services.UserID, err error) {
	results, err := p.redis.RaiseVersions(ctx, users, passed)
	if err != nil {
		return nil, err
	}
	p.sendHints(ctx, users, results)
	// Unchanged means that the document is above the version already, or that there is none: one that is made later begins with a version
	// of its time, and the clock of Redis has passed the version.
	for i, result := range results {
		if result.Status != redis.Missing {
			done = append(done, users[i])
		}
	}
	return done, nil
}
