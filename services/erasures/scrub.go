package erasures

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// After the last pass no row has anything of the user, but a file of SQLite still has the bytes of the rows. So there follow, only there,
// one step after the other: the file is scrubbed; the key, which was refused until then, is taken from the erasure and is free; the
// file is scrubbed again, for the key, and for what moved between two pages during the first round; the write-ahead log is emptied. Each
// records where it is, as the steps of features do.
const (
	scrubFile  = "scrub the file"
	scrubAgain = "scrub the file again"
	emptyLog   = "empty the log"
)

// A reader that takes long, such as a backup, holds the log back. The erasure does not wait for it for ever.
const (
	logTries = 30
	logWait  = time.Second // between two tries
)

// scrubs reports whether the erasure is at one of these steps.
func (at place) scrubs() bool {
	return at.step == scrubFile || at.step == scrubAgain || at.step == emptyLog
}

var dropKey = sql.NewStatement("free the key of an erasure", `UPDATE erasures SET key = '' WHERE id = $1`)

// scrub does the next part of these steps. wait is how long the next one has to wait. done is true when the erasure is.
func (s *Service) scrub(ctx context.Context, user services.UserID, at place) (done bool, wait time.Duration, err error) {
	next, more := at, false
	if at.step == emptyLog {
		emptied, err := s.cfg.DB.EmptyLog(ctx)
		if more = (err != nil || !emptied) && at.after < logTries; more {
			next.after, wait = at.after+1, logWait
		} else if (err != nil || !emptied) && s.cfg.Logger != nil {
			s.cfg.Logger.Warn("a user is erased, but a reader of the database holds its write-ahead log, which may still have texts of theirs; "+
				"the next erasure or the end of the server empties it", "erasure", at.id, "error", err)
		}
	} else if next.after, more, err = s.cfg.DB.Scrub(ctx, at.after); err != nil {
		return false, 0, err
	}
	err = s.cfg.DB.Write(ctx, func(tx *sql.Tx) error {
		done = false
		now, err := s.lock(ctx, tx, user)
		if err != nil || now.step != at.step || now.after != at.after { // another worker was faster
			return err
		}
		switch {
		case more:
		case at.step == scrubFile:
			next.step, next.after = scrubAgain, 0
			if _, err := tx.Run(ctx, dropKey, at.id); err != nil {
				return err
			}
		case at.step == scrubAgain:
			next.step, next.after = emptyLog, 0
		default:
			done = true
			return s.end(ctx, tx, at)
		}
		return s.save(ctx, tx, next)
	})
	return done, wait, err
}
