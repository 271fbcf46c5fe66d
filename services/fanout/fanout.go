// Package fanout brings posts to followers: fan-out on write, authors' modes, and the effects of a follow and of its end.
//
// A post, a follow or a seen position is on disk with its job before its command is answered. The package guarantees that every
// effect on an inbox is idempotent and safe against reordering: additions and removals follow the rule of jobs.ProjectionMerge, as the
// rebuilds of services/projector do. When Redis fails, the job fails and tries again. services/jobs runs the jobs; New registers
// their kinds there.
//
// The path of one post of an author with many followers:
//
//  1. services/feed commits the post with the job post.fanout. It also decides there whether the post is pushed or pulled.
//  2. fanOut puts it into the author's own feed. A pulled post ends here: readers find it in the node cache.
//  3. splitIntoChunkJobs replaces the job by chunks of followers. The changelog then notifies every node that the post is in flight, and
//     pages merge it in until its end.
//  4. The chunks of users who are online run first (post.online), because these users would notice a delay. The last
//     of them queues the chunks of all followers (post.push).
//  5. A chunk reads the follows as they are when it runs. pushToInboxes then calls one script for each inbox.
//  6. An inbox from which something was removed meanwhile refuses. mergePostIntoInbox reads post and follow again for this reader.
//  7. The last chunk ends the fan-out on all nodes.
//
// A deletion takes the same path without steps 4, 6 and 7, and its post is not in flight. A follow, an unfollow and the end of a mute
// are the work of one function: ReconcileFollow.
package fanout

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Config is what fan-out needs.
type Config struct {
	Jobs      *jobs.Engine // New registers the kinds of fan-out's jobs in it
	Projector *projector.Projector
	DB        *sql.DB
	Redis     *rdb.Projections
	Clock     services.Clock
	IDs       *services.IDClock
	Log       *slog.Logger

	// All nodes need the same values of these: every node splits posts, runs chunks and updates modes.
	ChunkSize int // followers a chunk job serves; 0 means 2,000
	Settings
}

// Fanout is the fan-out of one node. It is safe for concurrent use.
type Fanout struct {
	ChunkSize int // how many followers one job of a fan-out serves; not changed after the first job

	jobs       *jobs.Engine
	projector  *projector.Projector
	db         *sql.DB
	redis      *rdb.Projections
	clock      services.Clock
	ids        *services.IDClock
	log        *slog.Logger
	thresholds services.FollowerThresholds // the configured ones, in force until an admin sets others
	hostMerge  HostMerge                   // nil without the feature of shows; set before the first job and not afterwards

	// deliveredEntries is how many entries this node has put into inboxes since its start. It is for metrics: a repeated chunk adds
	// only the entries that it changed.
	deliveredEntries atomic.Uint64
}

// fanoutsKeptFor is how long a fan-out with a dead chunk is in flight: until then pages merge its post in. Afterwards the followers
// of that chunk lack the post until an operator runs the chunk again.
const fanoutsKeptFor = 24 * time.Hour

// New makes the fan-out, and registers the kinds of its jobs.
func New(cfg Config) *Fanout {
	cfg.Settings = services.WithDefaults(cfg.Settings)
	// Two thousand inboxes are four round trips of scripts: a chunk ends well within its lease, and few chunks make a fan-out.
	if cfg.ChunkSize == 0 {
		cfg.ChunkSize = 2000
	}
	f := &Fanout{
		ChunkSize: cfg.ChunkSize, jobs: cfg.Jobs, projector: cfg.Projector, db: cfg.DB, redis: cfg.Redis, clock: cfg.Clock,
		ids: cfg.IDs, log: cfg.Log, thresholds: services.FollowerThresholds{Big: cfg.BigFollowers, Huge: max(cfg.BigFollowers, cfg.HugeFollowers)},
	}
	for _, kinds := range [][]jobs.Kind{f.feedKinds(), f.authorKinds(), f.restrictionKinds()} {
		f.jobs.Register(kinds...)
	}
	// The projector's janitor calls endExpiredFanouts, as it does for other rows that are kept for a limited time.
	f.projector.RegisterExpiringRows("fan-outs with a dead chunk", f.endExpiredFanouts)
	return f
}

// endExpiredFanouts ends the fan-outs that began longer than fanoutsKeptFor ago, in SQL and in the memory of every node. They have not
// ended because one of their chunks is dead.
func (f *Fanout) endExpiredFanouts(ctx context.Context) (dropped int, err error) {
	err = f.db.Write(ctx, func(tx *sql.Tx) error {
		gone, err := posts.ForgetFanouts(ctx, tx, f.clock.Now().Add(-fanoutsKeptFor))
		for _, fanout := range gone {
			if err := (nodecache.FanoutChange{InFlightFanout: fanout, Ended: true}).Append(ctx, tx); err != nil {
				return err
			}
		}
		dropped = len(gone)
		return err
	})
	return dropped, err
}
