package messages

import (
	"context"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// MarkReadRequest selects some of a user's messages: the messages in IDs alone; those of one Type; or All. UpTo restricts the last two
// to messages up to one, and by itself selects the messages of all types up to it.
type MarkReadRequest struct {
	IDs  []ID
	Type *string // nil means all types
	All  bool    // all messages; it excludes IDs and Type
	UpTo ID      // 0 means all that exist when the command is committed
	// ReadToken is the readToken of the list that was shown; "" for none.
	ReadToken string
}

// maxMarkedByID bounds the rows that one mark by IDs locks. A mark of all messages has no bound, since it is one range.
const maxMarkedByID = 500

// MarkRead is the command by which a user marks messages read. The error is NOT_FOUND if the user does not have a named message.
// Messages that are read already keep the time at which they were read.
func (s *Service) MarkRead(user services.UserID, mark MarkReadRequest) (*jobs.Command, error) {
	gen, err := services.ParseReadToken(mark.ReadToken)
	if err != nil {
		return nil, err
	}
	// Types has every configured type unless one is chosen, so that a mark of all locks and marks every type that is shown.
	chosen := messageSelection{IDs: mark.IDs, Types: s.types, UpTo: mark.UpTo, Generation: gen}
	switch {
	case mark.IDs != nil && (mark.Type != nil || mark.All || mark.UpTo != 0):
		return nil, services.Errorf(services.Invalid, "ids: they exclude type, all and upTo")
	case mark.IDs != nil:
		if err := checkMarkedCount(mark.IDs); err != nil {
			return nil, err
		}
	case mark.Type != nil && mark.All:
		return nil, services.Errorf(services.Invalid, "type and all: only one of them can be given")
	case mark.Type != nil:
		if err := checkType(*mark.Type, s.types); err != nil {
			return nil, err
		}
		chosen.Types = []string{*mark.Type}
	case !mark.All && mark.UpTo == 0:
		return nil, services.Errorf(services.Invalid, "ids, type, all or upTo: one of them is needed")
	}
	return s.markCommand("markSiteMessagesRead", user, func(ctx context.Context, tx *sql.Tx) ([]unreadState, error) {
		return markRead(ctx, tx, user, chosen)
	}), nil
}

// MarkUnread is the command by which a user marks messages unread again. The error is NOT_FOUND if the user does not have one of
// the messages.
func (s *Service) MarkUnread(user services.UserID, ids []ID) (*jobs.Command, error) {
	if err := checkMarkedCount(ids); err != nil {
		return nil, err
	}
	return s.markCommand("markSiteMessagesUnread", user, func(ctx context.Context, tx *sql.Tx) ([]unreadState, error) {
		return markUnread(ctx, tx, user, ids)
	}), nil
}

// checkMarkedCount bounds the messages of one mark by IDs.
func checkMarkedCount(ids []ID) error {
	if n := len(ids); n == 0 || n > maxMarkedByID {
		return services.Errorf(services.Invalid, "ids: 1 to %d are allowed, got %d", maxMarkedByID, n)
	}
	return nil
}

// markCommand is a command that marks messages of a user by change, which returns the states to project. The command projects the
// counts once it is committed; if that fails, its job projects them. Apply reads the states under its locks, and sets them anew if it
// runs again.
func (s *Service) markCommand(name string, user services.UserID, change func(context.Context, *sql.Tx) ([]unreadState, error)) *jobs.Command {
	var states []unreadState
	return &jobs.Command{
		Name: name, Actor: user,
		Apply: func(ctx context.Context, tx *sql.Tx) (_ []string, err error) {
			if states, err = change(ctx, tx); err != nil {
				return nil, err
			}
			return nil, jobs.Enqueue(ctx, tx, projectCountsJob(user))
		},
		AfterApply: func(ctx context.Context) error { return s.project(ctx, states) },
	}
}
