package notifications

import (
	"context"

	"tidings/services"
)

// Query asks for a page of a user's list.
type Query struct {
	Categories []services.Category // none: all
	UnreadOnly bool
	UnseenOnly bool     // exactly the notifications that the count has
	Before     Position // only those after it in the list; the zero position: from the first
	First      int
}

// Page reads a page of a user's notifications, the newest first. INVALID for an unknown category.
func (s *Service) Page(ctx context.Context, user services.UserID, query Query) (Page, error) {
	categories, err := CheckCategories("categories", query.Categories)
	if err != nil {
		return Page{}, err
	}
	only := everything
	switch {
	case query.UnseenOnly: // what is unseen is unread
		only = onlyUnseen
	case query.UnreadOnly:
		only = onlyUnread
	}
	return readPage(ctx, s.db, listQuery{
		user: user, categories: categories, only: only, before: query.Before, limit: query.First, expiry: s.expiry,
	})
}

// At reads a user's notifications by positions in them, whatever has joined them since. A position in another list, or in a
// notification without a remaining cause, is absent.
func (s *Service) At(ctx context.Context, user services.UserID, places []services.PostID) (map[services.PostID]Notification, error) {
	if len(places) == 0 {
		return nil, nil
	}
	return readAt(ctx, s.db, user, places, s.expiry)
}
