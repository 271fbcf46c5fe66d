// Package live implements shows and the live board: scheduling, starting, ending, boards that do not move while a user scrolls, the
// jobs that bring shows onto boards and replays into lists, their facts and their node cache, and the source of the badges.
//
// A session is a version of the board and not a copy: every node makes the same page of a session from its cache of shows and from
// the viewer's list of replays, usually in one or two round trips. Statuses and positions do not change within a session, whatever
// the hosts do meanwhile. Board (board.go) reads a page: cutPage chooses its lines, versionedPosition.holdsAt decides which position a
// show had, versionedPosition.frozen gives its status and times at that position, and replaysAtSession selects the replays.
// Memory.forgetOldPositions and forgetFormerPositions drop positions that no session can need any more.
//
// One start of a show, from the host to a phone: Start makes the command; changeShow writes the row, its former position and an
// entry of the log of shows, all in one transaction; each node's Memory.apply puts the show at its new version, and
// Memory.finishLogRead notifies the watched followers and the open boards; the hub renders the followers' badges, and
// boardWatcher.readChange sends each open board the difference from its session. No document is written: each read computes the
// count, from the node cache and the document's field with the position up to which the user has seen the board.
//
// Shows come onto boards only when the documents of all followers name their host (jobs_hosts.go): a board that lists a show must
// also get its changes. Live and upcoming shows are read from the node cache, and replays from a list for each user in Redis.
// Replays of huge hosts are in no list: they are read from the node cache too.
//
// While a lost list of replays is rebuilt, boards come from SQL. When Redis does not answer, boards come from SQL, and every
// session lives for its longest life. A node that has not loaded the shows yet loads them for the first request, or answers
// UNAVAILABLE: it never shows an empty board instead.
package live

import (
	"context"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/positions"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Config configures the service.
type Config struct {
	DB        *sql.DB
	Redis     *rdb.Projections
	Reader    *nodecache.PostAndUserReader // reads the hosts of the shows on a page
	Changelog *changelog.Follower          // the node cache follows it
	Memory    *Memory                      // the node cache; nil: New makes it. Services of one node share it
	Jobs      *jobs.Engine                 // New registers its kinds of jobs
	Projector *projector.Projector         // New registers the boards' part of rebuilds and audits, and rows that expire
	Fanout    *fanout.Fanout               // New registers the boards' part of follows
	IDs       *services.IDClock
	Clock     services.Clock

	Settings
	// RebuildWait is how long a page waits for a rebuild before it is read from SQL; 0 means 500 ms.
	RebuildWait time.Duration
}

// Service implements shows and boards. It is safe for concurrent use.
type Service struct {
	Memory *Memory // this node's cache of the shows on boards

	db *sql.DB
	// The engines, shared with the node's other services.
	redis     projection
	reader    *nodecache.PostAndUserReader
	jobs      *jobs.Engine
	fanout    *fanout.Fanout
	projector *projector.Projector
	ids       *services.IDClock
	clock     services.Clock
	expiry    services.SourceExpiry // after how many days an item leaves the count

	// These come from Config, with its defaults filled in. sessionIdleTime is how long a session lives after its last page,
	// maxSessionLife the longest that it lives in any case.
	limits                          ShowLimits
	sessionScope                    SessionScope // which sessions share a slot: only one of them lives
	sessionIdleTime, maxSessionLife time.Duration
	buildWait                       time.Duration // how long a page waits for a rebuild

	// replaysDelivered is for metrics: how often a list got replays that it lacked.
	replaysDelivered atomic.Uint64
}

// New makes the service of a node, and registers its kinds of jobs, its part of each user's document and board, and the rows that
// the projector's janitor deletes.
func New(cfg Config) *Service {
	cfg.Settings = services.WithDefaults(cfg.Settings)
	if cfg.RebuildWait == 0 {
		cfg.RebuildWait = 500 * time.Millisecond
	}
	s := &Service{
		limits: cfg.Limits, buildWait: cfg.RebuildWait,
		db: cfg.DB, jobs: cfg.Jobs, redis: projection{cfg.Redis}, reader: cfg.Reader, fanout: cfg.Fanout, projector: cfg.Projector,
		ids: cfg.IDs, clock: cfg.Clock, expiry: cfg.Projector.Expiry(),
		sessionScope: SessionScope(cfg.SessionScope), sessionIdleTime: cfg.SessionIdleTime, maxSessionLife: maxSessionLifeInIdleTimes * cfg.SessionIdleTime,
	}
	if s.Memory = cfg.Memory; s.Memory == nil {
		s.Memory = newMemory(cfg.Changelog, database{cfg.DB}, s.maxSessionLife+extraSessionRetention)
	}
	cfg.Jobs.Register(s.kinds()...)
	// From here on rebuilds, follows, audits and the janitor include boards. They call the registered functions, so that the
	// engines need not import a feature.
	cfg.Fanout.RegisterHosts(s.mergeHost)
	cfg.Projector.RegisterHostsReader(s.followedHosts)
	cfg.Projector.AddPositionReader("live board", positions.LiveBoardView, rdb.LiveSeenVersionedField, s.versionedFields)
	cfg.Projector.RegisterAuditPart("live board", s.audit)
	cfg.Projector.RegisterExpiringRows("former positions of shows", s.forgetAfterSessions(forgetFormerPositions))
	cfg.Projector.RegisterExpiringRows("ended follows of hosts", s.forgetAfterSessions(forgetPastFollows))
	cfg.Projector.RegisterExpiringRows("gaps of follows of hosts", s.forgetAfterSessions(forgetFollowGaps))
	return s
}

// extraSessionRetention is how long the data of a session is kept after the longest session has ended: clocks of nodes differ, and a page
// may be under way.
const extraSessionRetention = time.Hour

// forgetAfterSessions returns a function that deletes the rows that are older than every session that may be open.
func (s *Service) forgetAfterSessions(forget func(ctx context.Context, db *sql.DB, before time.Time) (int, error)) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		return forget(ctx, s.db, s.clock.Now().Add(-s.maxSessionLife-extraSessionRetention))
	}
}

// maxSessionLifeInIdleTimes is the longest life of a session, as a multiple of Settings.SessionIdleTime, however often the session is
// read. Nodes and SQL keep former positions of shows for that long.
const maxSessionLifeInIdleTimes = 24
