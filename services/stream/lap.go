package stream

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

const (
	// earlyLapDivisor is a divisor: after a change that many users share a lap begins Settings.LapInterval / earlyLapDivisor after the last
	// lap began, by default 5 s.
	earlyLapDivisor = 12
	// lapRestFactor is how long the writer rests after a lap, as a multiple of the time that it worked: a lap never takes more than
	// a fifth of one processor.
	lapRestFactor = 4
)

// lap is a walk over all active users, which finds changes that are not written for each user. It is in the writer's memory:
// another writer begins a lap of its own.
type lap struct {
	running              bool            // a lap is under way
	repeatSoon           bool            // another lap is due Settings.LapInterval / earlyLapDivisor after this one began: see requestLap
	began                time.Time       // when the lap under way began, or else the last one
	ended                time.Time       // when the last lap ended; zero while one is under way
	workTime             time.Duration   // how long the lap has worked, without its waits for an engine that did not answer
	sharedChangesAtStart uint64          // Config.SharedChanges when it began
	lastUser             services.UserID // the last user visited
}

// requestLap asks for a lap now, and for a second one Settings.LapInterval / earlyLapDivisor later, when every node has learned that the
// stream is on: until then a node marks nobody.
func (l *lap) requestLap() { *l = lap{repeatSoon: true} }

// stepLap visits the next users of a lap, if one is due. more says that the lap goes on. Users who differ are only marked:
// compareDueUsers writes their changes, so that only one place writes changes.
func (s *Service) stepLap(ctx context.Context) (more bool, err error) {
	now := s.cfg.Clock.Now()
	if !s.lap.running && !s.lapDue(now) {
		return false, nil
	}
	if !s.lap.running {
		s.lap = lap{running: true, repeatSoon: s.lap.repeatSoon && s.lap.began.IsZero(), began: now, sharedChangesAtStart: s.cfg.SharedChanges()}
	}
	users, err := people.ActiveUsers(ctx, s.db, s.lap.lastUser, compareBatchSize, s.cfg.ActiveSince())
	if err != nil {
		return false, err
	}
	// The walk has come to its end.
	if len(users) == 0 {
		s.lap.running, s.lap.ended = false, s.cfg.Clock.Now()
		s.stats.laps.Add(1)
		s.stats.lastLapNanos.Store(int64(s.lap.ended.Sub(s.lap.began)))
		return false, nil
	}
	differ, err := s.findDiffering(ctx, users)
	if err != nil {
		return false, err
	}
	if len(differ) > 0 {
		err = s.db.Write(ctx, func(tx *sql.Tx) error { return markUsers(ctx, tx, differ, tx.Now) })
	}
	if err == nil {
		// The position moves only after the marks are written, so that an error repeats this part.
		s.lap.lastUser = users[len(users)-1]
		s.lap.workTime += s.cfg.Clock.Now().Sub(now)
	}
	return err == nil, err
}

// lapDue reports whether it is time for a lap: the usual time has passed, or a twelfth of it and there is a reason. In any case
// the writer has rested.
func (s *Service) lapDue(now time.Time) bool {
	l := &s.lap
	// There was no lap since this node became the writer.
	if l.began.IsZero() {
		return true
	}
	since := now.Sub(l.began)
	if now.Sub(l.ended) < lapRestFactor*l.workTime {
		return false
	}
	return since >= s.cfg.LapInterval || since >= s.cfg.LapInterval/earlyLapDivisor && (l.repeatSoon || s.cfg.SharedChanges() != l.sharedChangesAtStart)
}

// findDiffering lists the users whose badges differ from their last change or cannot be read. The caller marks them, and marked users
// are compared again before anything is written, so findDiffering takes no lock.
func (s *Service) findDiffering(ctx context.Context, users []services.UserID) (differ []services.UserID, err error) {
	// Read the hashes before the badges: a change that is written in between then only looks like a difference, and costs a
	// comparison. In the other order a difference could be missed.
	had, err := readShownHashes(ctx, s.db, users)
	if err != nil {
		return nil, err
	}
	badges, errs := s.peek(ctx, users)
	failures := 0
	for i, user := range users {
		if errs[i] != nil {
			err = errs[i]
			failures++
			differ = append(differ, user)
			continue
		}
		state := stateOf(badges[i])
		hash, some := had[user]
		if some && hash != state.shownHash() || !some && !state.empty() {
			differ = append(differ, user)
		}
	}
	// As in compare, nobody is marked while an engine does not answer.
	if failures > 0 && failures == len(users) && !s.canReadBadges(ctx) {
		return nil, err
	}
	return differ, nil
}

// canReadBadges reports whether badges can be read at all, by reading those of user ID 0, which nobody has. Without this check, one
// user whose badges cannot be counted would stop the comparison whenever no other user is due. A panic does not say that an engine
// is away.
func (s *Service) canReadBadges(ctx context.Context) bool {
	_, errs := s.peek(ctx, []services.UserID{0})
	return errs[0] == nil || services.IsPanic(errs[0])
}
