package messages

import (
	"context"

	"tidings/services"
)

// Page is a page of a user's messages, the newest first. The texts are the present ones: an edit shows in pages that are read
// later.
type Page struct {
	Messages   []Message
	HasNext    bool
	Generation uint64 // the user's generation when the list was read: a mark with it skips messages that were marked unread since
}

// Page lists at most size of a user's messages before a position; if requested, only messages of one type, or only unread ones.
// The badge counts the same unread messages.
func (s *Service) Page(ctx context.Context, user services.UserID, kind *string, unreadOnly bool, before ID, size int) (Page, error) {
	// Only configured types are listed: messages of a type that was taken out of the settings stay in SQL, and no list or count has
	// them.
	types := s.types
	if kind != nil {
		if err := checkType(*kind, s.types); err != nil {
			return Page{}, err
		}
		types = []string{*kind}
	}
	// Read the generation before the list. A message that is marked unread between the two reads is then shown as unread, and
	// at worst a late mark of it is ignored.
	gen, err := readGeneration(ctx, s.db, user)
	if err != nil {
		return Page{}, err
	}
	messages, err := listMessages(ctx, s.db, user, types, unreadOnly, before, size+1)
	if err != nil {
		return Page{}, err
	}
	return Page{Messages: messages[:min(size, len(messages))], HasNext: len(messages) > size, Generation: gen}, nil
}

// ByID reads messages of a user by their IDs; a message that the user does not have is absent.
func (s *Service) ByID(ctx context.Context, user services.UserID, ids []ID) (map[ID]Message, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return readMessages(ctx, s.db, user, ids)
}

// Report is a message as its sender sees it. The error is NOT_FOUND if there is no such message. Report counts the rows at each
// call: it is for senders, not for every reader.
func (s *Service) Report(ctx context.Context, id ID) (SentMessage, error) {
	return readReport(ctx, s.db, id)
}

// Reports are messages as their senders see them; a message that does not exist is absent.
func (s *Service) Reports(ctx context.Context, ids []ID) (map[ID]SentMessage, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return readReports(ctx, s.db, ids)
}
