package erasures

import (
	"context"
	"time"

	"tidings/services/sql"
)

// roundStaleAfter is how long a round may stand still before another erasure begins its own round. The job of the round's leader may
// have died, or wait long for a worker.
const roundStaleAfter = time.Minute

// round is one reading of the whole file, by the job of one erasure. It serves all erasures that had come to the step of scrubbing
// when the round began: the bytes of their deleted rows were in the file by then. Erasures that come later wait for the next round.
// Without rounds, twenty erasures at once would read a large file twenty times. After a restart, an erasure that had begun the step
// ends it alone.
type round struct {
	leader       string    // whose job scrubs; "" while there is no round
	serves       []string  // the erasures, the leader among them
	began, moved time.Time // moved: when the leader's job last ended a part, at first when the round began
	busy         bool      // the leader's job scrubs a part now; the first part also checks a large file for damage, which takes long
}

var (
	// after is 0 only in erasures that have not begun the step: erasures that have begun it end the step alone.
	scrubWaits = sql.NewStatement("erasures that wait for a round", `SELECT id FROM erasures WHERE user_number > 0 AND step = $1 AND after = 0`)

	// An erasure that has begun to scrub alone meanwhile is not moved.
	moveServed = sql.NewStatement("move on the erasures of a round", `UPDATE erasures SET step = $3 WHERE {in id $1 TEXT} AND step = $2 AND after = 0`)
)

// joinRound makes an erasure the leader of a round, if there is no round. wait is how long to wait for the round of another erasure,
// and 0 if the caller may scrub. A caller that may scrub calls pauseRound at the end of the part.
func (s *Service) joinRound(ctx context.Context, at progress) (wait time.Duration, err error) {
	s.scrubbing.Lock()
	defer s.scrubbing.Unlock()
	r, now := &s.scrubbing.round, s.cfg.DB.Now()
	switch {
	case r.leader == at.id:
		r.busy = true
		return 0, nil
	case r.leader != "" && (r.busy || now.Sub(r.moved) < roundStaleAfter) && at.after == 0:
		// The more erasures wait, the less often each of them asks.
		return min(time.Second+time.Duration(len(r.serves))*20*time.Millisecond, longestWait), nil
	case at.after > 0: // the erasure had begun the step before this node started, or stood still
		return 0, nil
	}
	serves, err := sql.ReadColumn[string](ctx, s.cfg.DB, scrubWaits, at.step)
	if err == nil {
		*r = round{leader: at.id, serves: serves, began: now, moved: now, busy: true}
	}
	return 0, err
}

// pauseRound notes that the leader's job has ended a part. From then on the round stands still until the job begins the next part.
func (s *Service) pauseRound(erasure string) {
	s.scrubbing.Lock()
	defer s.scrubbing.Unlock()
	if r := &s.scrubbing.round; r.leader == erasure {
		r.busy, r.moved = false, s.cfg.DB.Now()
	}
}

// endRound ends the round of an erasure, so that the next erasure may begin one. It does nothing if the erasure leads no round.
func (s *Service) endRound(erasure, step string) {
	s.scrubbing.Lock()
	ended := s.scrubbing.round
	if ended.leader == erasure {
		s.scrubbing.round = round{}
	}
	s.scrubbing.Unlock()
	if ended.leader == erasure && s.cfg.Logger != nil {
		s.cfg.Logger.Info("a round over the database's file has ended", "step", step, "erasures", len(ended.serves), "took", s.cfg.DB.Now().Sub(ended.began))
	}
}

// served lists the erasures for which an erasure scrubs: itself alone, if it leads no round.
func (s *Service) served(erasure string) []string {
	s.scrubbing.Lock()
	defer s.scrubbing.Unlock()
	if s.scrubbing.round.leader == erasure {
		return s.scrubbing.round.serves
	}
	return []string{erasure}
}
