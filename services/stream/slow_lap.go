package stream

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

const (
	slowBatchSize = 50 // users compared at once: users who were away for long are counted in SQL, one by one
	// A slow lap begins slowLapFactor * Settings.LapInterval after the beginning of the one before, unless a shared change begins it
	// earlier.
	slowLapFactor = 10
	// slowLapRestFactor is how long a slow lap rests after a batch, as a multiple of its duration: it takes a tenth of one
	// processor at most.
	slowLapRestFactor = 9
)

// slowLap is a walk over the users that a lap leaves out, because they were not seen for long. There may be a hundred times as
// many of them, so the walk rests between any two batches, and its position is kept in SQL: it may last longer than its writer.
type slowLap struct {
	positionLoaded       bool            // the position was read
	position             slowLapPosition // how far the lap has come
	sharedChangesAtStart uint64          // Config.SharedChanges when it began; 0 if another writer began it
	resumeAt             time.Time       // when the next batch is visited
}

// slowLapPosition is how far a slow lap has come, as SQL has it.
type slowLapPosition struct {
	lastUser services.UserID // the last user visited; 0: no lap is under way
	began    time.Time       // when the lap began, or else the last one
}

// stepSlowLap visits the next users of a slow lap, if it is time. The position is moved in the transaction of the marks: a crash skips
// nobody.
func (s *Service) stepSlowLap(ctx context.Context) (err error) {
	now, l := s.cfg.Clock.Now(), &s.slowLap
	if now.Before(l.resumeAt) {
		return nil
	}
	// The previous writer may have stopped in the middle of a lap.
	if !l.positionLoaded {
		if l.position, err = readSlowLapPosition(ctx, s.db); err != nil {
			return err
		}
		l.positionLoaded = true
	}
	next := l.position
	if next.lastUser == 0 {
		if !s.slowLapDue(now) {
			return nil
		}
		next.began, l.sharedChangesAtStart = now, s.cfg.SharedChanges()
	}
	users, err := people.InactiveUsers(ctx, s.db, next.lastUser, slowBatchSize, s.cfg.ActiveSince())
	if err != nil {
		return err
	}
	differ, err := s.findDiffering(ctx, users)
	if err != nil {
		return err
	}
	// Fewer users than asked for are the last ones: the lap ends with them.
	if next.lastUser = 0; len(users) == slowBatchSize {
		next.lastUser = users[slowBatchSize-1]
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		if err := moveSlowLap(ctx, tx, s.leaseToken, next); err != nil || len(differ) == 0 {
			return err
		}
		return markUsers(ctx, tx, differ, tx.Now)
	})
	if err != nil {
		return err
	}
	ended := s.cfg.Clock.Now()
	l.position, l.resumeAt = next, ended.Add(slowLapRestFactor*ended.Sub(now))
	if next.lastUser == 0 {
		s.stats.slowLaps.Add(1)
		s.stats.lastSlowLapNanos.Store(int64(ended.Sub(next.began)))
	}
	return nil
}

// slowLapDue reports whether it is time for the next slow lap: ten laps have passed, or one and a shared change.
func (s *Service) slowLapDue(now time.Time) bool {
	since := now.Sub(s.slowLap.position.began) // below 0: the clock of the previous writer was ahead
	return since < 0 || since >= slowLapFactor*s.cfg.LapInterval || since >= s.cfg.LapInterval && s.cfg.SharedChanges() != s.slowLap.sharedChangesAtStart
}
