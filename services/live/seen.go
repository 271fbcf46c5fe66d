package live

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/positions"
	"tidings/services/sql"
)

// MarkSeen is the command that marks the board as seen by a viewer: the board of the session whose text is given, or the present board
// if text is nil. Shows that go live after that board still count.
//
// The mark only moves forward. If the command has a past time, the present board is the board at that time. The error is INVALID
// for another user's session and for a session in the future.
func (s *Service) MarkSeen(ctx context.Context, viewer services.UserID, text *string) (*jobs.Command, error) {
	var session Session
	present := text == nil
	if !present {
		var err error
		if session, err = ParseSession("sessionId", viewer, *text); err != nil {
			return nil, err
		}
	}
	// catchUpToSession is needed for the present board too: a cache that was never loaded is at version 0, and the command would
	// mark nothing.
	if err := s.catchUpToSession(ctx, "sessionId", session); err != nil {
		return nil, err
	}
	if present {
		session.Version = s.Memory.Version()
	}
	return &jobs.Command{
		Name: "markLiveBoardSeen", Actor: viewer,
		Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			version := session.Version
			if present && tx.EventMoment() != 0 {
				var err error
				if version, err = boardVersionBefore(ctx, tx, tx.EventTime()); err != nil {
					return nil, err
				}
			}
			if _, err := positions.Advance(ctx, tx, viewer, positions.LiveBoardView, version); err != nil {
				return nil, err
			}
			// The job makes sure that the mark is projected; AfterCommit below projects it at once for the answer.
			return nil, jobs.Enqueue(ctx, tx, projectSeenJob(viewer))
		},
		AfterCommit: func(ctx context.Context) error { return s.projectSeen(ctx, viewer) },
	}, nil
}

// selectBoardVersionBefore reads the last sequence of the log of shows, and the lowest LiveVersion of the running shows that
// started after a time. Only running shows count in badges, so the others do not matter. A show that started before the time still
// counts if its start was logged after the start of one of these shows. The conditions on host and on status < 2 make the query a range
// of the index shows_active: SQLite uses a partial index only if the query repeats its condition.
var selectBoardVersionBefore = sql.NewStatement("version of the board at a time", `SELECT
	COALESCE((SELECT head FROM log_heads WHERE kind = '`+ChangelogKind+`'), 0),
	COALESCE((SELECT min(live_ver) FROM shows WHERE host > 0 AND status < 2 AND status = 1 AND live_ver > 0 AND started_at > $1), 0)`)

// boardVersionBefore returns the last version of the board from before a time: the version before the next start of a show, or the
// newest version if there was no start since.
func boardVersionBefore(ctx context.Context, tx *sql.Tx, at time.Time) (version uint64, err error) {
	var next uint64
	_, err = tx.One(ctx, selectBoardVersionBefore, []any{at}, &version, &next)
	if next > 0 {
		version = min(version, next-1)
	}
	return version, err
}
