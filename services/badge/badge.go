// Package badge renders the badges: every source's count, their total and one version, read in one round trip.
//
// The total is summed at rendering, so that it equals the sum of its parts in every answer. A missing document is rebuilt from the
// facts before the answer, and is never shown as zero. While Redis lacks a command that this node has acknowledged, the command's
// user is read from SQL.
//
// One read (readInto) first takes the moment and the state that all users share. It then reads the documents of all users in one
// round trip, and takes out items that have become too old. The sources add the state of this node's caches (AddCached), and each
// writes its part of the badges (Render); then the totals are summed. Users without a usable document are read concurrently: each
// is rebuilt (readMissing), or they are counted in SQL in groups (readFacts).
//
// Without Redis the same counts come from SQL, a few groups of users at a time, and are STALE. A source that SQL does not count in
// time keeps the value that this node showed last, as STALE, or is UNKNOWN. If no source can be counted, the answer is the badges
// shown last, or UNKNOWN with a version so old that no client accepts it as newer.
//
// A version has two halves, the user's own and the shared one: see services.BadgesVersion. The version of a STALE answer is between
// the last one that this node has shown and the document's next one. The document is raised to that next version before it is shown
// again: an EXACT answer afterwards is newer than the STALE one, and no version falls.
package badge

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// Config holds what New needs.
type Config struct {
	DB        *sql.DB
	Redis     *rdb.Projections
	Jobs      *jobs.Engine
	Projector *projector.Projector
	Pulled    *nodecache.PulledCache // the node cache of huge authors' posts
	Clock     services.Clock
	Log       *slog.Logger
	// Sources are the sources of the features that have a package of their own.
	Sources []Source
	// Caps are the largest numbers shown in full.
	Caps source.DisplayCaps
	// MaxConcurrentSQLCounts bounds the counts that run in SQL at once, each for one user or for a group of users; 0 means 8.
	MaxConcurrentSQLCounts int
	// SQLTimeout bounds the time of one source in SQL. It also bounds the wait for a slot, for a user whose last badges this node
	// remembers; 0 means 500 ms.
	SQLTimeout time.Duration
	// MaxCachedUsers is the number of users whose last badges this node keeps, about 1.2 KB each; 0 means 20,000.
	MaxCachedUsers int
}

// Service returns badges. It is safe for concurrent use.
type Service struct {
	db        *sql.DB
	redis     *rdb.Projections
	jobs      *jobs.Engine
	projector *projector.Projector
	pulled    *nodecache.PulledCache // the node cache of huge authors' posts
	clock     services.Clock
	log       *slog.Logger

	sources         sourceList              // in the order of services.Sources; those without a count come last
	expiringSources []source.ExpiringSource // the ExpiringSources among sources
	sqlReaders      []source.SQLReader      // the SQLReaders among sources
	cacheReaders    sourceList              // the other sources
	settings        source.Settings         // the settings of all renderings
	// sqlCountSlots holds a token for each count in SQL that is under way. When Redis is lost all users come at once, and SQL must
	// still serve commands.
	sqlCountSlots      chan struct{}
	sqlTimeout         time.Duration        // bounds the time of one source in SQL
	visits             *visits              // notes visits, which are written each second
	shownStaleVersions shownStaleVersions   // users who were shown STALE badges
	lastShown          *badgeCache          // the badges that this node last showed each user
	inboxOverflow      *inboxOverflowCounts // the numbers of new posts of readers whose inboxes do not hold them all
	latestShownMicros  atomic.Int64         // the latest moment at which badges were shown, in microseconds

	fallbacks fallbackVersions // the last versions of users who were answered from SQL
}

// New makes the service.
func New(cfg Config) *Service {
	if cfg.MaxConcurrentSQLCounts == 0 {
		cfg.MaxConcurrentSQLCounts = 8
	}
	if cfg.SQLTimeout == 0 {
		cfg.SQLTimeout = 500 * time.Millisecond
	}
	if cfg.MaxCachedUsers == 0 {
		cfg.MaxCachedUsers = 20_000
	}
	s := &Service{
		db: cfg.DB, redis: cfg.Redis, jobs: cfg.Jobs, projector: cfg.Projector, pulled: cfg.Pulled, clock: cfg.Clock, log: cfg.Log,
		settings: source.Settings{Caps: cfg.Caps, Expiry: cfg.Projector.Expiry()}, sqlCountSlots: make(chan struct{}, cfg.MaxConcurrentSQLCounts), sqlTimeout: cfg.SQLTimeout, visits: newVisits(cfg), lastShown: newBadgeCache(cfg.MaxCachedUsers),
		inboxOverflow: newInboxOverflowCounts(),
	}
	s.sources = s.newSources(cfg.Sources...)
	s.expiringSources = s.sources.expiringSources()
	s.sqlReaders, s.cacheReaders = s.sources.splitSQLReaders()
	return s
}

// Read returns the badges of one user.
func (s *Service) Read(ctx context.Context, user services.UserID) (*services.Badges, error) {
	// The three values escape to the heap: in one struct they are one allocation.
	var one struct {
		users  [1]services.UserID
		badges [1]*services.Badges
		errs   [1]error
	}
	one.users[0] = user
	s.readInto(ctx, one.users[:], one.badges[:], one.errs[:], asVisit)
	return one.badges[0], one.errs[0]
}

// ReadAndFollow returns the badges of users with subscriptions on this node, in their order, and is a visit of each: one round trip for
// all whose documents exist. Some counts are computed when they are read. This node's caches report changes of these counts from now
// on, until changelog.Follower.Unfollow is called for the users. errs[i] is set only if the caller's context ended.
func (s *Service) ReadAndFollow(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error) {
	badges, errs = make([]*services.Badges, len(users)), make([]error, len(users))
	s.readInto(ctx, users, badges, errs, asWatch)
	return badges, errs
}

// ReadForHost returns the badges of several users, in their order, to a reader who is none of them, such as the host application. It is
// no visit: no user becomes active by it, and nothing is rebuilt. A user whose document is missing, or is from before a long absence, is
// counted in SQL, and the counts are STALE. errs[i] is set only if the caller's context ended.
func (s *Service) ReadForHost(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error) {
	badges, errs = make([]*services.Badges, len(users)), make([]error, len(users))
	s.readInto(services.Observe(ctx), users, badges, errs, asHost)
	return badges, errs
}

// readReason is the reason for which badges are read.
type readReason int

const (
	asVisit readReason = iota // the users read their own badges
	asWatch                   // subscriptions of the users on this node read them
	asHost                    // another reader reads them, such as the host application
)

// readInto fills badges and errs, which are as long as users.
func (s *Service) readInto(ctx context.Context, users []services.UserID, badges []*services.Badges, errs []error, as readReason) {
	// The context decides, so that no caller can turn an observation into a visit by mistake.
	if services.Observed(ctx) {
		as = asHost
	}
	at := s.moment(ctx)
	// stale is taken before the documents are read: for a command that is projected in between, SQL is read without need, but no
	// command is missed.
	stale := s.jobs.StaleAmong(ctx, users)
	// err is an error of Redis, and decides below whether a rebuild is tried. A user without a document is no error.
	documents, err := s.documentsOrEmpty(ctx, users, stale)
	// Expired items are removed before the caches' state is added, because a document with such items is replaced as a whole.
	withExpired := s.removeExpiredItems(ctx, users, documents, at.Today())
	watched := as == asWatch
	s.addCached(ctx, users, documents, watched, at.Today())
	var counted, missing []int // indexes of users
	for i, user := range users {
		switch {
		// Redis has a document, but it lacks the user's own command, or counts items that are too old.
		case stale[user] || withExpired[user]:
			counted = append(counted, i)
		case documents[i].Ready && !s.projector.IsOfIdleUser(documents[i]):
			badges[i] = s.render(ctx, user, documents[i], at)
			if as != asHost {
				s.visits.record(user, documents[i].LastActiveDay)
			}
		// Nothing is rebuilt for a host, and without Redis nothing can be.
		case as == asHost || err != nil:
			counted = append(counted, i)
		default:
			missing = append(missing, i)
		}
	}
	if len(counted)+len(missing) == 0 { // most reads
		return
	}
	if as != asHost {
		s.logNotRebuilt(err)
	}
	var aside errgroup.Group
	aside.SetLimit(cap(s.sqlCountSlots))
	for indexes := range countingGroups(counted) {
		aside.Go(func() (err error) {
			defer services.Recover(&err)
			found, failed := s.readFacts(ctx, elementsAt(users, indexes))
			for at, i := range indexes {
				badges[i], errs[i] = found[at], failed[at]
			}
			return nil
		})
	}
	for _, i := range missing {
		aside.Go(func() (err error) {
			defer services.Recover(&err)
			badges[i], errs[i] = s.readMissing(ctx, users[i], watched)
			return nil
		})
	}
	_ = services.Repanic(aside.Wait()) // each function stores its errors in errs
}

// readMissing returns the badges of a user whose document is missing, or is from before a long absence: the document is
// rebuilt, or the counts come from SQL if that fails.
func (s *Service) readMissing(ctx context.Context, user services.UserID, watched bool) (*services.Badges, error) {
	users, at := []services.UserID{user}, s.moment(ctx)
	before := s.fallbackVersionsOf(users)
	document, err := s.projector.RebuildDocument(ctx, user)
	if err == nil {
		documents := []rdb.Document{document}
		// The rebuild has returned the document that it wrote. This document may still be older than an answer that this node gave
		// from SQL.
		if document.Ready {
			documents, err = s.raiseOlderDocuments(ctx, before, users, documents)
		} else {
			// This call shared another caller's rebuild, so the document is read from Redis. The moment is taken again, before
			// that read.
			at = s.moment(ctx)
			documents, err = s.documents(ctx, users)
		}
		if err == nil && documents[0].Ready && !s.removeExpiredItems(ctx, users, documents, at.Today())[user] {
			s.addCached(ctx, users, documents, watched, at.Today())
			return s.render(ctx, user, documents[0], at), nil
		}
	}
	s.logNotRebuilt(err)
	return s.ReadFacts(ctx, user)
}

// logNotRebuilt logs why documents could not be rebuilt. Unavailable means that Redis does not answer, which is logged once
// elsewhere; any other error is a bug.
func (s *Service) logNotRebuilt(err error) {
	if err != nil && !services.IsUnavailable(err) {
		s.log.Error("badges were not rebuilt; counting in SQL", "error", err)
	}
}

// moment takes the present moment. Call it before the documents are read, so that no document is older than the shared state
// shown with it.
func (s *Service) moment(ctx context.Context) source.Moment {
	at := source.Moment{Now: s.clock.Now()}
	// Days never go back: otherwise items that have left a count would return, and the version would fall.
	latest := max(s.latestShownMicros.Load(), at.Now.UnixMicro())
	s.latestShownMicros.Store(latest) // concurrent calls may store the smaller of two values, which are microseconds apart
	if at.MonotonicNow = at.Now; latest > at.Now.UnixMicro() {
		at.MonotonicNow = time.UnixMicro(latest).UTC()
	}
	// The shared state is announcements and dots. It is in memory, unless this node has never loaded it.
	shared, err := s.sources.sharedState(ctx, at.Now)
	if err != nil {
		s.log.Warn("the data that all users share is not loaded: SQL has not answered yet", "error", err)
		return at
	}
	at.SharedState = shared
	return at
}

// render renders a user's document for ctx's reader, and remembers the result.
func (s *Service) render(ctx context.Context, user services.UserID, document rdb.Document, at source.Moment) *services.Badges {
	// The rendering is on the heap, because sources get its address. It can be reused: the badges hold nothing of it, and no
	// source keeps it.
	v := renderingPool.Get().(*rendering)
	defer func() {
		*v = rendering{}
		renderingPool.Put(v)
	}()
	*v = rendering{sources: s.sources, Rendering: source.Rendering{Settings: &s.settings, Document: document, Moment: at}}
	badges := v.render()
	s.markStale(ctx, user, v, badges)
	s.lastShown.keep(user, s.asCachedBadges(v, badges))
	return badges
}

// renderingPool has the renderings that render reuses: a rendering is half as large as the badges.
var renderingPool = sync.Pool{New: func() any { return new(rendering) }}

// rendering makes the rendering of a document at a moment.
func (s *Service) rendering(document rdb.Document, at source.Moment) *rendering {
	return &rendering{sources: s.sources, Rendering: source.Rendering{Settings: &s.settings, Document: document, Moment: at}}
}

// asCachedBadges returns what badgeCache remembers of a rendering: the badges, with its display policy and its moment.
func (s *Service) asCachedBadges(v *rendering, badges *services.Badges) cachedBadges {
	return cachedBadges{s.sources, &s.settings, source.ShownBadges{Policy: v.Document.Policy, Badges: badges, At: v.Now}}
}
