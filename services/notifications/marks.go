package notifications

import (
	"context"
	"slices"
	"strconv"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// newMarkCommand makes the command by which a user marks notifications seen, read or unread. write makes the mark, and returns the
// resulting states and the data for the answer. The counts are projected before the answer, and once more by the job.
func (s *Service) newMarkCommand(name string, user services.UserID, write func(ctx context.Context, tx *sql.Tx) ([]categoryState, []string, error)) *jobs.Command {
	var states []categoryState
	return &jobs.Command{
		Name: name, Actor: user,
		Apply: func(ctx context.Context, tx *sql.Tx) (ids []string, err error) {
			if states, ids, err = write(ctx, tx); err != nil {
				return nil, err
			}
			return ids, jobs.Enqueue(ctx, tx, ProjectCountsJob(user))
		},
		// The states were read under the lock. If the projection fails, the caller answers from SQL and the job repeats it.
		AfterApply: func(ctx context.Context) error { return s.project(ctx, states) },
	}
}

// MarkSeen is the command for an opened panel: notifications of the categories up to a position no longer count, and stay unread.
// nil means all categories; upTo 0 means everything until now. The error is INVALID if the position is beyond the newest, and
// NOT_FOUND if it is of another user's list.
func (s *Service) MarkSeen(user services.UserID, categories []services.Category, upTo services.NotificationID) (*jobs.Command, error) {
	categories, err := s.checkCategories("categories", categories)
	if err != nil {
		return nil, err
	}
	return s.newMarkCommand("markNotificationsSeen", user, func(ctx context.Context, tx *sql.Tx) ([]categoryState, []string, error) {
		states, err := markSeen(ctx, tx, user, categories, upTo)
		return states, nil, err
	}), nil
}

// ReadSelection is what was read: IDs and UpToPositions alone, or else everything in Categories (nil: all) up to UpTo (0: until
// now). If IDs and UpToPositions are nil, none were given; a list that was given and is empty is refused. MarkRead checks the
// combination.
type ReadSelection struct {
	IDs           []services.NotificationID // of notifications: each one's causes until now
	UpToPositions []services.NotificationID // positions of notifications: each one's causes up to there
	Categories    []services.Category       // nil: all
	UpTo          services.NotificationID   // a position; 0: until now
	All           bool                      // alone: everything until now
	ReadToken     string                    // the readToken of the list that was shown; "" for none
}

// maxMarkedNotifications bounds the notifications that one mark names: a page of a list, many times over.
const maxMarkedNotifications = 500

// MarkRead is the command that marks notifications read. The error is INVALID if the mark names nothing, too much, or a position
// beyond the newest, and NOT_FOUND if an ID or the position is not of this user's list.
func (s *Service) MarkRead(user services.UserID, read ReadSelection) (*jobs.Command, error) {
	gen, err := services.ParseReadToken(read.ReadToken)
	if err != nil {
		return nil, err
	}
	// All categories are locked, as a named notification may be of any of them.
	marked := readMarkSelection{UpTo: read.UpTo, MarkGeneration: gen, AllCategories: s.Memory.allCategories()}
	named, given := len(read.IDs)+len(read.UpToPositions), read.IDs != nil || read.UpToPositions != nil
	switch ranged := read.Categories != nil || read.UpTo != 0; {
	case given && (ranged || read.All), read.All && ranged:
		return nil, services.Errorf(services.Invalid, "ids, all: neither goes with anything else but readToken")
	case given && (named == 0 || named > maxMarkedNotifications):
		return nil, services.Errorf(services.Invalid, "ids: 1 to %d are allowed, got %d", maxMarkedNotifications, named)
	case given:
		marked.IDs = slices.Compact(slices.Sorted(slices.Values(read.IDs)))
		marked.UpToPositions = slices.Compact(slices.Sorted(slices.Values(read.UpToPositions)))
	case ranged || read.All:
		if marked.Categories, err = s.checkCategories("categories", read.Categories); err != nil {
			return nil, err
		}
	default:
		return nil, services.Errorf(services.Invalid, "ids, upTo, categories or all: one of them must say what was read")
	}
	return s.newMarkCommand("markNotificationsRead", user, func(ctx context.Context, tx *sql.Tx) ([]categoryState, []string, error) {
		states, err := markRead(ctx, tx, user, marked)
		return states, nil, err
	}), nil
}

// MarkUnread is the command that marks a notification unread again. The error is NOT_FOUND if it is not of this user's list. The
// notification counts again only if it is beyond the seen position: see markUnread.
func (s *Service) MarkUnread(user services.UserID, id services.NotificationID) *jobs.Command {
	return s.newMarkCommand("markNotificationUnread", user, func(ctx context.Context, tx *sql.Tx) ([]categoryState, []string, error) {
		states, err := markUnread(ctx, tx, user, s.Memory.allCategories(), id)
		return states, nil, err
	})
}

// MarkAllRead is the command that marks everything read up to a position; 0 means until now. It can be undone until UndoDeadline.
// That time is stored as the command's ID, so that a repetition under one idempotency key gets the same answer.
func (s *Service) MarkAllRead(user services.UserID, upTo services.NotificationID, token string) (*jobs.Command, error) {
	gen, err := services.ParseReadToken(token)
	if err != nil {
		return nil, err
	}
	return s.newMarkCommand("markAllRead", user, func(ctx context.Context, tx *sql.Tx) ([]categoryState, []string, error) {
		states, until, err := markAllRead(ctx, tx, user, s.Memory.allCategories(), upTo, gen)
		if until.IsZero() {
			return states, nil, err
		}
		// The time is stored with the command: a repetition knows nothing else of the first answer.
		return states, []string{strconv.FormatInt(until.UnixMicro(), 10)}, err
	}), nil
}

// UndoDeadline is the time until which a MarkAllRead can be undone; the zero time if there is nothing to undo.
func UndoDeadline(cmd *jobs.Command) time.Time {
	if len(cmd.IDs()) == 0 {
		return time.Time{}
	}
	us, err := strconv.ParseInt(cmd.IDs()[0], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// UndoAllRead is the command that undoes the last MarkAllRead. The error is CONFLICT after 30 s, and if there is nothing to undo.
func (s *Service) UndoAllRead(user services.UserID) *jobs.Command {
	return s.newMarkCommand("undoMarkAllRead", user, func(ctx context.Context, tx *sql.Tx) ([]categoryState, []string, error) {
		states, err := undoAllRead(ctx, tx, user, s.Memory.allCategories())
		return states, nil, err
	})
}
