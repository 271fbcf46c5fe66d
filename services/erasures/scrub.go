package erasures

import (
	"context"
	"errors"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// After the last pass no row has anything of the user, but a file of SQLite still has the bytes of the rows. So on SQLite further
// steps follow: the file is scrubbed; the key, which was refused until then, is removed from the erasure and is free; the file is
// scrubbed again, for the key, and for bytes that moved between two pages during the first round; the write-ahead log is emptied.
// Each step records in the erasure's row where it is, so that it continues there after a crash.
const (
	stepScrubFile  = "scrub the file"
	stepScrubAgain = "scrub the file again"
	stepEmptyWAL   = "empty the log"
)

// While a long read, such as a backup, is in progress, the write-ahead log cannot be emptied. The erasure waits for it only for a bounded
// time.
const (
	maxEmptyWALTries  = 30          // tries to empty the write-ahead log
	emptyWALRetryWait = time.Second // between two tries
	maxWALPages       = 16384       // pages written to the write-ahead log between two tries to empty it: about 64 MB
)

// atScrubStep reports whether the erasure is at one of the steps of the scrub, which belong to no feature.
func (at erasureProgress) atScrubStep() bool {
	return at.step == stepScrubFile || at.step == stepScrubAgain || at.step == stepEmptyWAL
}

// sharedScrubState is the state that this node's erasures share: only one erasure scrubs at a time. SQLite serves one process, so this
// node has all erasures.
type sharedScrubState struct {
	sync.Mutex
	walPages         int        // pages written since the write-ahead log was last emptied
	emptyWALFailures int        // failed tries to empty the write-ahead log since then
	round            scrubRound // the round in progress; zero while there is none
}

// runScrubStep does the next part of the step of the scrub at which the erasure is. wait is how long the following part has to
// wait. done is true when the erasure is done. The part is scrubbed before its position is saved: a crash in between repeats it,
// which does no harm.
func (s *Service) runScrubStep(ctx context.Context, user services.UserID, at erasureProgress) (done bool, wait time.Duration, err error) {
	if at.step == stepEmptyWAL {
		return s.emptyWAL(ctx, user, at)
	}
	if wait, err = s.joinScrubRound(ctx, at); err != nil || wait > 0 {
		return false, wait, err
	}
	defer s.pauseScrubRound(at.id)
	part, given, wait, err := s.scrubPart(ctx, at)
	if err != nil || wait > 0 {
		return false, wait, err
	}
	next, ended, serves := at, false, s.erasuresOfRound(at.id)
	// Find the next step. A scrub that is given up skips the second round and goes on with emptyWAL.
	switch next.stepPosition = part.NextAfterPage; {
	case given != "":
		next.step, ended = stepEmptyWAL, true
	case part.More:
	case at.step == stepScrubFile:
		next.step, ended = stepScrubAgain, true
	default:
		next.step, ended = stepEmptyWAL, true
	}
	moved, err := s.writeIfStillAtStep(ctx, user, at, func(tx *sql.Tx) error {
		if !ended {
			return s.save(ctx, tx, next)
		}
		next.stepPosition = 0
		if at.step == stepScrubFile {
			if err := s.freeKeys(ctx, tx, serves); err != nil {
				return err
			}
		}
		if err := s.save(ctx, tx, next); err != nil {
			return err
		}
		_, err := tx.Run(ctx, moveErasuresOfRound, serves, at.step, next.step)
		return err
	})
	if moved && ended {
		s.endScrubRound(at.id, at.step)
		for _, erasure := range serves {
			if given != "" {
				s.warn("a user is erased, but the bytes of what they had may still be in the database's file: it was not scrubbed", "erasure", erasure, "reason", given)
			}
		}
	}
	return false, 0, err
}

// emptyWAL is the last step of the scrub: it empties the write-ahead log, which still has the old content of the overwritten pages. In
// this step at.stepPosition counts the tries.
func (s *Service) emptyWAL(ctx context.Context, user services.UserID, at erasureProgress) (done bool, wait time.Duration, err error) {
	emptied, fault := s.cfg.DB.EmptyWAL(ctx)
	next := at
	more := (fault != nil || !emptied) && at.stepPosition < maxEmptyWALTries
	if more {
		next.stepPosition, wait = at.stepPosition+1, emptyWALRetryWait
	} else if fault != nil || !emptied {
		s.warn("a user is erased, but a reader of the database holds its write-ahead log, which may still have texts of theirs; "+
			"the next erasure or the end of the server empties it", "erasure", at.id, "error", fault)
	}
	moved, err := s.writeIfStillAtStep(ctx, user, at, func(tx *sql.Tx) error {
		if more {
			return s.save(ctx, tx, next)
		}
		return s.end(ctx, tx, at)
	})
	return moved && !more, wait, err
}

// writeIfStillAtStep runs a function in a transaction, unless another worker has moved the erasure on. moved reports whether the
// function ran. Scrubbing needs this check, because its work is done outside of the transaction that records it.
func (s *Service) writeIfStillAtStep(ctx context.Context, user services.UserID, at erasureProgress, do func(tx *sql.Tx) error) (moved bool, err error) {
	err = s.cfg.DB.Write(ctx, func(tx *sql.Tx) error {
		now, err := s.lockProgress(ctx, tx, user)
		if moved = err == nil && now.step == at.step && now.stepPosition == at.stepPosition; !moved {
			return err
		}
		return do(tx)
	})
	return moved && err == nil, err
}

// scrubPart scrubs the next part of the file. given says why the scrub is given up: the file is damaged, its pages are not understood, or
// a reader holds the write-ahead log, which would grow by as much as is overwritten. wait is how long to wait for such a reader.
func (s *Service) scrubPart(ctx context.Context, at erasureProgress) (part sql.ScrubbedPart, given string, wait time.Duration, err error) {
	// The file is checked before the first page is overwritten, because a scrub may damage a damaged file further. The check
	// reads the whole file.
	if at.step == stepScrubFile && at.stepPosition == 0 {
		damage, err := s.cfg.DB.FindDamage(ctx)
		if damage != "" && s.cfg.Logger != nil {
			s.cfg.Logger.Error("the database's file is damaged", "damage", damage)
		}
		if err != nil || damage != "" {
			return part, damage, 0, err
		}
	}
	now := &s.scrubState
	now.Lock()
	defer now.Unlock()
	// Overwritten pages are in the write-ahead log until it is emptied. Without this bound, the log of a large file would become as large as
	// the file.
	if now.walPages >= maxWALPages {
		emptied, err := s.cfg.DB.EmptyWAL(ctx)
		switch {
		case err == nil && emptied:
			now.walPages, now.emptyWALFailures = 0, 0
		case now.emptyWALFailures < maxEmptyWALTries:
			now.emptyWALFailures++
			return part, "", emptyWALRetryWait, nil
		default:
			now.emptyWALFailures = 0
			return part, "a reader of the database holds its write-ahead log", 0, nil
		}
	}
	part, err = s.cfg.DB.Scrub(ctx, at.stepPosition)
	// A later try would not understand the pages either.
	if errors.Is(err, sql.ErrUnknownPages) {
		return part, err.Error(), 0, nil
	}
	now.walPages += part.PagesWithDeletedData
	return part, "", 0, err
}

// warn writes a warning to the server's log, if there is one.
func (s *Service) warn(text string, more ...any) {
	if s.cfg.Logger != nil {
		s.cfg.Logger.Warn(text, more...)
	}
}
