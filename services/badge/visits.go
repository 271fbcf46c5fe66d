package badge

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// visits records each user's visit once a day, so that active users stay active: in SQL, which fan-out reads, and on the user's
// keys, whose lifetime is then extended.
type visits struct {
	db        *sql.DB
	redis     *rdb.Projections
	projector *projector.Projector
	clock     services.Clock
	log       *slog.Logger

	// mu guards the rest. unwritten is a set: a user who reads often in one second is written once.
	mu           sync.Mutex
	unwritten    map[services.UserID]struct{} // users whose visit is not in SQL yet
	visitedToday map[services.UserID]struct{} // the users whose badges Visit has read on the day visitedDay
	visitedDay   int64                        // the day of visitedToday, in days since 1970
}

const (
	visitWriteInterval = time.Second // between two writes of visits
	maxUnwrittenVisits = 100_000     // users in unwritten; beyond it a user is recorded at their next read
	maxVisitedToday    = 100_000     // users in visitedToday; beyond it Visit reads each time
)

func newVisits(cfg Config) *visits {
	return &visits{
		db: cfg.DB, redis: cfg.Redis, projector: cfg.Projector, clock: cfg.Clock, log: cfg.Log,
		unwritten: map[services.UserID]struct{}{}, visitedToday: map[services.UserID]struct{}{},
	}
}

// record records a visit. noted is the day of the last visit that the user's document has. If that is today, as for nearly all
// reads of a day, record does nothing.
func (v *visits) record(user services.UserID, noted int64) {
	if noted >= v.today() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.unwritten) < maxUnwrittenVisits {
		v.unwritten[user] = struct{}{}
	}
}

// Visit records that a user is here, for callers that need no badges: the user is active, and announcements that are published after a
// user's first visit count. It reads the badges once a day for each user on this node, and otherwise nothing.
func (s *Service) Visit(ctx context.Context, user services.UserID) error {
	if s.visits.hasVisitedToday(user) {
		return nil
	}
	badges, err := s.Read(ctx, user)
	// Counts from SQL are STALE, and were no visit: the next call tries again.
	if err == nil && (badges.Total.Precision == services.Exact || badges.Total.Precision == services.AtLeast) {
		s.visits.rememberVisitedToday(user)
	}
	return err
}

// hasVisitedToday reports whether Visit has read the badges of a user today.
func (v *visits) hasVisitedToday(user services.UserID) bool {
	today := v.today()
	v.mu.Lock()
	defer v.mu.Unlock()
	_, came := v.visitedToday[user]
	return came && v.visitedDay == today
}

// rememberVisitedToday makes hasVisitedToday true for a user until the day ends.
func (v *visits) rememberVisitedToday(user services.UserID) {
	today := v.today()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.visitedDay != today {
		v.visitedDay, v.visitedToday = today, map[services.UserID]struct{}{}
	}
	if len(v.visitedToday) < maxVisitedToday {
		v.visitedToday[user] = struct{}{}
	}
}

// today is the number of days since 1970.
func (v *visits) today() int64 { return v.clock.Now().Unix() / int64(day/time.Second) }

// Run works each second until ctx ends: it writes visits, brings changes into Redis that this node has acknowledged and Redis lacks,
// and raises documents above the fallback versions.
func (s *Service) Run(ctx context.Context) error {
	return services.Every(ctx, visitWriteInterval, func(ctx context.Context) {
		// Each of the steps is tried again in the next second, whatever has failed.
		if _, err := s.WriteVisits(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("visits were not written; they are written with the next ones", "error", err)
		}
		if left := s.jobs.UpdateStaleProjections(ctx); left > 0 {
			s.log.Debug("Redis lacks changes that this node has acknowledged: these users are read from SQL", "users", left)
		}
		s.queueStaleDocumentRaises()
		if _, err := s.raiseDocumentsAboveFallbacks(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("Redis does not have the users yet that were answered from SQL", "error", err)
		}
	})
}

// WriteVisits writes the visits since the last call and returns how many: SQL first, so that no user's keys outlive their
// active period.
func (s *Service) WriteVisits(ctx context.Context) (int, error) {
	v := s.visits
	v.mu.Lock()
	users := make([]services.UserID, 0, len(v.unwritten))
	for user := range v.unwritten {
		users = append(users, user)
	}
	// If the write fails, these visits are lost here. Each user's next read or Visit notes the visit again, because the document
	// still has the former day.
	clear(v.unwritten)
	v.mu.Unlock()
	if len(users) == 0 {
		return 0, nil
	}
	err := v.db.Write(ctx, func(tx *sql.Tx) error { return people.MarkActive(ctx, tx, users) })
	if err == nil {
		err = v.redis.MarkActive(ctx, users, v.today(), v.projector.RedisKeyLifetime())
	}
	if err != nil {
		v.forgetVisitedToday(users)
		return 0, err
	}
	return len(users), nil
}

// forgetVisitedToday makes the next Visit of these users read again.
func (v *visits) forgetVisitedToday(users []services.UserID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, user := range users {
		delete(v.visitedToday, user)
	}
}
