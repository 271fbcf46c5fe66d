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
	// A slow lap begins slowerFactor * Config.Lap after the beginning of the one before, unless a shared change begins it earlier.
	slowerFactor = 10
	// slowRestFactor is how long a slow lap rests after a batch, as a multiple of its duration: it takes a tenth of one processor at most.
	slowRestFactor = 9
)

// slowLap is a walk over the users that a lap leaves out, because they were not seen for long. There may be a hundred times as
// many of them, so the walk rests between any two batches, and its place is kept in SQL: it may last longer than its writer.
type slowLap struct {
	known   bool // the place was read
	place   place
	applied uint64    // Config.Applied when it began; 0 if another writer began it
	resume  time.Time // when the next batch is visited
}

// place is how far a slow lap has come, as the head's row has it.
type place struct {
	after services.UserID // the last user visited; 0: no lap is under way
	began time.Time
}

// stepSlowLap visits the next users of a slow lap, if it is time. The place is moved in the transaction of the marks: a crash skips nobody.
func (s *Service) stepSlowLap(ctx context.Context) (err error) {
	now, l := s.cfg.Clock.Now(), &s.slow
	if now.Before(l.resume) {
		return nil
	}
	// The previous writer may have stopped in the middle of a lap.
	if !l.known {
		if l.place, err = slowPlace(ctx, s.db); err != nil {
			return err
		}
		l.known = true
	}
	next := l.place
	if next.after == 0 {
		if !s.slowLapDue(now) {
			return nil
		}
		next.began, l.applied = now, s.cfg.Applied()
	}
	users, err := people.InactiveUsers(ctx, s.db, next.after, slowBatchSize, s.cfg.ActiveSince())
	if err != nil {
		return err
	}
	differ, err := s.findDiffering(ctx, users)
	if err != nil {
		return err
	}
	// Fewer users than asked for are the last ones: the lap ends with them.
	if next.after = 0; len(users) == slowBatchSize {
		next.after = users[slowBatchSize-1]
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		if err := moveSlowLap(ctx, tx, s.token, next); err != nil || len(differ) == 0 {
			return err
		}
		return mark(ctx, tx, differ, tx.Now)
	})
	if err != nil {
		return err
	}
	ended := s.cfg.Clock.Now()
	l.place, l.resume = next, ended.Add(slowRestFactor*ended.Sub(now))
	if next.after == 0 {
		s.stats.slowLaps.Add(1)
		s.stats.slowLapTook.Store(int64(ended.Sub(next.began)))
	}
	return nil
}

// slowLapDue reports whether it is time for the next slow lap: ten laps have passed, or one and a shared change.
func (s *Service) slowLapDue(now time.Time) bool {
	since := now.Sub(s.slow.place.began) // below 0: the clock of the previous writer was ahead
	return since < 0 || since >= slowerFactor*s.cfg.Lap || since >= s.cfg.Lap && s.cfg.Applied() != s.slow.applied
}
