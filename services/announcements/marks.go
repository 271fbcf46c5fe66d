package announcements

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// ReadUpTo is how far a user has read: up to an announcement at its present position, or up to the position at which the user saw
// one. The zero value is the end of the list.
type ReadUpTo struct {
	Announcement services.AnnouncementID // read up to its present position; 0: Position says how far
	Position     uint64                  // a stamp of the announcements' clock; 0: the end of the list
}

// MarkRead is the command by which a user reads the list up to a position. Their read position never moves backward. NOT_FOUND for an
// announcement that does not exist, or not for this user: one that has not started, was withdrawn, or is for other segments; INVALID for
// a position beyond the end.
func (s *Service) MarkRead(user services.UserID, upTo ReadUpTo) *jobs.Command {
	return s.ownStateCommand("markAnnouncementsRead", user, func(ctx context.Context, tx *sql.Tx) error {
		position, err := upTo.position(ctx, tx, user)
		if err != nil {
			return err
		}
		if tx.EventMoment() != 0 {
			// A user who has no position yet starts at the stamp of the time at which they read, and not at the present end: later announcements
			// must be unread.
			return raisePastReadPosition(ctx, tx, user, pastStamp(tx.EventMoment()), position)
		}
		// First, a user who returns after a long time gets the position of a new user. Reading can only move it forward.
		if err := s.initPosition(ctx, tx, user); err != nil {
			return err
		}
		return raiseReadPosition(ctx, tx, user, position)
	})
}

// position returns the stamp up to which the list is marked read. The errors do not disclose announcements for other segments: these get
// the same error as missing ones.
func (upTo ReadUpTo) position(ctx context.Context, tx *sql.Tx, user services.UserID) (uint64, error) {
	if upTo.Announcement != 0 {
		found, err := Read(ctx, tx.Runner, []services.AnnouncementID{upTo.Announcement})
		if err != nil {
			return 0, err
		}
		// These are the segments as of the transaction: a user who has just left a segment cannot mark up to its announcements.
		state, err := readUser(ctx, tx.Runner, user)
		if err != nil {
			return 0, err
		}
		a := found[upTo.Announcement]
		// An ended announcement is in no list, but may still be on a user's screen: a mark up to it counts.
		if a.Position == 0 || a.Withdrawn || !a.Segments.reaches(Segments(state.Segments.Bits)) {
			return 0, services.Errorf(services.NotFound, "upTo: there is no %s", globalID(upTo.Announcement))
		}
		return a.Position, nil
	}
	// This read takes no lock: an announcement whose transaction is still open has a later stamp, and stays unread.
	last, err := lastStamp(ctx, tx)
	switch {
	case upTo.Position == 0 && tx.EventMoment() != 0:
		return pastStamp(tx.EventMoment()), err
	case err != nil:
		return 0, err
	case upTo.Position == 0:
		return last, nil
	// The cursor of a page is never beyond the end. A position beyond it would mark announcements read before they are published.
	case upTo.Position > last:
		return 0, services.Errorf(services.Invalid, "upTo: the cursor is beyond the end of the announcements")
	}
	return upTo.Position, nil
}
