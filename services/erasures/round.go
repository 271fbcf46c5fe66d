package erasures

import (
	"context"
	"time"

	"tidings/services/sql"
)

// scrubRoundStaleAfter is how long a scrubRound may make no progress before another erasure begins its own round. The job of the round's
// leader may have died, or wait long for a worker.
const scrubRoundStaleAfter = time.Minute

// scrubRound is one scrub of the whole SQLite file, by the job of one erasure. It serves all erasures that had come to the step of
// scrubbing when the round began: the bytes of their deleted rows were in the file by then. Erasures that come later wait for the next
// round. Without rounds, twenty erasures at once would read a large file twenty times. After a restart, an erasure that had begun the
// step ends it alone.
type scrubRound struct {
	leaderErasure          string    // whose job scrubs; "" while there is no round
	erasureNames           []string  // the erasures, the leader among them
	began, lastPartEndedAt time.Time // lastPartEndedAt: when the leader's job last ended a part, at first when the round began
	partRunning            bool      // the leader's job scrubs a part now; the first part also checks a large file for damage, which takes long
}

var (
	// after is 0 only in erasures that have not begun the step: erasures that have begun it end the step alone.
	erasuresAwaitingScrub = sql.NewStatement("erasures that wait for a round", `SELECT id FROM erasures WHERE user_number > 0 AND step = $1 AND after = 0`)

	// An erasure that has begun to scrub alone meanwhile is not moved.
	moveErasuresOfRound = sql.NewStatement("move on the erasures of a round", `UPDATE erasures SET step = $3 WHERE {in id $1 TEXT} AND step = $2 AND after = 0`)
)

// joinScrubRound makes an erasure the leader of a new scrubRound, if there is no round. wait is how long to wait for the round of another
// erasure, and 0 if the caller may scrub. A caller that may scrub calls pauseScrubRound at the end of the part.
func (s *Service) joinScrubRound(ctx context.Context, at erasureProgress) (wait time.Duration, err error) {
	s.scrubState.Lock()
	defer s.scrubState.Unlock()
	r, now := &s.scrubState.round, s.cfg.DB.Now()
	switch {
	case r.leaderErasure == at.id:
		r.partRunning = true
		return 0, nil
	case r.leaderErasure != "" && (r.partRunning || now.Sub(r.lastPartEndedAt) < scrubRoundStaleAfter) && at.stepPosition == 0:
		// The more erasures wait, the less often each of them asks.
		return min(time.Second+time.Duration(len(r.erasureNames))*20*time.Millisecond, maxRequeueWait), nil
	case at.stepPosition > 0: // the erasure had begun the step before this node started, or stood still
		return 0, nil
	}
	serves, err := sql.ReadColumn[string](ctx, s.cfg.DB, erasuresAwaitingScrub, at.step)
	if err == nil {
		*r = scrubRound{leaderErasure: at.id, erasureNames: serves, began: now, lastPartEndedAt: now, partRunning: true}
	}
	return 0, err
}

// pauseScrubRound notes that the leader's job has ended a part. From then on the round stands still until the job begins the next
// part.
func (s *Service) pauseScrubRound(erasure string) {
	s.scrubState.Lock()
	defer s.scrubState.Unlock()
	if r := &s.scrubState.round; r.leaderErasure == erasure {
		r.partRunning, r.lastPartEndedAt = false, s.cfg.DB.Now()
	}
}

// endScrubRound ends the round of an erasure, so that the next erasure may begin one. It does nothing if the erasure leads no round.
func (s *Service) endScrubRound(erasure, step string) {
	s.scrubState.Lock()
	ended := s.scrubState.round
	if ended.leaderErasure == erasure {
		s.scrubState.round = scrubRound{}
	}
	s.scrubState.Unlock()
	if ended.leaderErasure == erasure && s.cfg.Logger != nil {
		s.cfg.Logger.Info("a round over the database's file has ended", "step", step, "erasures", len(ended.erasureNames), "took", s.cfg.DB.Now().Sub(ended.began))
	}
}

// erasuresOfRound lists the erasures for which an erasure scrubs: itself alone, if it leads no round.
func (s *Service) erasuresOfRound(erasure string) []string {
	s.scrubState.Lock()
	defer s.scrubState.Unlock()
	if s.scrubState.round.leaderErasure == erasure {
		return s.scrubState.round.erasureNames
	}
	return []string{erasure}
}
