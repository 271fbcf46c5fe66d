package erasures

import (
	"context"
	"errors"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// After the last pass no row has anything of the user, but a file of SQLite still has the bytes of the rows. So on SQLite further steps
// follow: the file is scrubbed; the key, which was refused until then, is removed from the erasure and is free; the file is scrubbed
// again, for the key, and for bytes that moved between two pages during the first round; the write-ahead log is emptied. Each step
// records where it is, as the steps of features do.
const (
	scrubbedDB = "scrub the file"
	scrubAgain = "scrub the file again"
	emptyLog   = "empty the log"
)

// While a long read, such as a backup, is in progress, the log cannot be emptied. The erasure waits for it only for a
// bounded time.
const (
	logTries = 30          // to empty the log
	logWait  = time.Second // between two tries
	logPages = 16384       // written between two tries to empty the log: about 64 MB
)

// scrubs reports whether the erasure is at one of the steps of scrub, which belong to no feature.
func (at progress) scrubs() bool {
	return at.step == scrubbedDB || at.step == scrubAgain || at.step == emptyLog
}

// scrubbing is the state that this node's erasures share: only one erasure scrubs at a time. SQLite serves one process, so this
// node has all erasures.
type scrubbing struct {
	sync.Mutex
	logged int // pages written since the log was last emptied
	held   int // failed tries to empty the log since then
	round  round
}

// scrub does the next part of its steps. wait is how long the following part has to wait. done is true when the erasure is done.
// The part is scrubbed before its position is saved: a crash in between repeats it, which does no harm.
func (s *Service) scrub(ctx context.Context, user services.UserID, at progress) (done bool, wait time.Duration, err error) {
	if at.step == emptyLog {
		return s.emptyLog(ctx, user, at)
	}
	if wait, err = s.joinRound(ctx, at); err != nil || wait > 0 {
		return false, wait, err
	}
	defer s.pauseRound(at.id)
	part, given, wait, err := s.scrubPart(ctx, at)
	if err != nil || wait > 0 {
		return false, wait, err
	}
	next, ended, serves := at, false, s.served(at.id)
	// Find the next step. A scrub that is given up skips the second round and goes on with emptyLog.
	switch next.after = part.Next; {
	case given != "":
		next.step, ended = emptyLog, true
	case part.More:
	case at.step == scrubbedDB:
		next.step, ended = scrubAgain, true
	default:
		next.step, ended = emptyLog, true
	}
	moved, err := s.writeUnlessMoved(ctx, user, at, func(tx *sql.Tx) error {
		if !ended {
			return s.save(ctx, tx, next)
		}
		next.after = 0
		if at.step == scrubbedDB {
			if err := s.freeKeys(ctx, tx, serves); err != nil {
				return err
			}
		}
		if err := s.save(ctx, tx, next); err != nil {
			return err
		}
		_, err := tx.Run(ctx, moveServed, serves, at.step, next.step)
		return err
	})
	if moved && ended {
		s.endRound(at.id, at.step)
		for _, erasure := range serves {
			if given != "" {
				s.warn("a user is erased, but the bytes of what they had may still be in the database's file: it was not scrubbed", "erasure", erasure, "reason", given)
			}
		}
	}
	return false, 0, err
}

// emptyLog is the last step of scrub: the log still has the old content of the overwritten pages. In this step at.after counts the
// tries.
func (s *Service) emptyLog(ctx context.Context, user services.UserID, at progress) (done bool, wait time.Duration, err error) {
	emptied, fault := s.cfg.DB.EmptyLog(ctx)
	next := at
	more := (fault != nil || !emptied) && at.after < logTries
	if more {
		next.after, wait = at.after+1, logWait
	} else if fault != nil || !emptied {
		s.warn("a user is erased, but a reader of the database holds its write-ahead log, which may still have texts of theirs; "+
			"the next erasure or the end of the server empties it", "erasure", at.id, "error", fault)
	}
	moved, err := s.writeUnlessMoved(ctx, user, at, func(tx *sql.Tx) error {
		if more {
			return s.save(ctx, tx, next)
		}
		return s.end(ctx, tx, at)
	})
	return moved && !more, wait, err
}

// writeUnlessMoved runs a function in a transaction, unless another worker has moved the erasure on. moved reports whether the function
// ran. Scrubbing needs this check, because its work is done outside of the transaction that records it.
func (s *Service) writeUnlessMoved(ctx context.Context, user services.UserID, at progress, do func(tx *sql.Tx) error) (moved bool, err error) {
	err = s.cfg.DB.Write(ctx, func(tx *sql.Tx) error {
		now, err := s.lock(ctx, tx, user)
		if moved = err == nil && now.step == at.step && now.after == at.after; !moved {
			return err
		}
		return do(tx)
	})
	return moved && err == nil, err
}

// scrubPart scrubs the next part of the file. given says why the scrub is given up: the file is damaged, its pages are not understood, or a
// reader holds the log, which would grow by as much as is overwritten. wait is how long to wait for such a reader.
func (s *Service) scrubPart(ctx context.Context, at progress) (part sql.ScrubbedPart, given string, wait time.Duration, err error) {
	// The file is checked before the first page is overwritten, because a scrub may damage a damaged file further. The check
	// reads the whole file.
	if at.step == scrubbedDB && at.after == 0 {
		damage, err := s.cfg.DB.FindDamage(ctx)
		if damage != "" && s.cfg.Logger != nil {
			s.cfg.Logger.Error("the database's file is damaged", "damage", damage)
		}
		if err != nil || damage != "" {
			return part, damage, 0, err
		}
	}
	now := &s.scrubbing
	now.Lock()
	defer now.Unlock()
	// Overwritten pages are in the log until it is emptied. Without this bound, the log of a large file would become as large
	// as the file.
	if now.logged >= logPages {
		emptied, err := s.cfg.DB.EmptyLog(ctx)
		switch {
		case err == nil && emptied:
			now.logged, now.held = 0, 0
		case now.held < logTries:
			now.held++
			return part, "", logWait, nil
		default:
			now.held = 0
			return part, "a reader of the database holds its write-ahead log", 0, nil
		}
	}
	part, err = s.cfg.DB.Scrub(ctx, at.after)
	// A later try would not understand the pages either.
	if errors.Is(err, sql.ErrUnknownPages) {
		return part, err.Error(), 0, nil
	}
	now.logged += part.Pages
	return part, "", 0, err
}

// warn writes to the server's log, if there is one.
func (s *Service) warn(text string, more ...any) {
	if s.cfg.Logger != nil {
		s.cfg.Logger.Warn(text, more...)
	}
}
