package notify

import (
	"context"

	"tidings/services"
	"tidings/services/store"
)

// Query asks for a page of a user's list.
type Query struct {
	Categories []services.Category // none: all
	UnreadOnly bool
	UnseenOnly bool                          // exactly the notifications that the count has
	Before     services.NotificationPosition // only those after it in the list; the zero position: from the first
	First      int
}

// Page reads a page of a user's notifications, the newest first. INVALID for an unknown category.
func (s *Service) Page(ctx context.Context, user services.UserID, query Query) (store.NotificationPage, error) {
	categories, err := services.CheckCategories("categories", query.Categories)
	if err != nil {
		return store.NotificationPage{}, err
	}
	filter := store.AllNotifications
	switch {
	case query.UnseenOnly: // what is unseen is unread
		filter = store.UnseenNotifications
	case query.UnreadOnly:
		filter = store.UnreadNotifications
	}
	return s.store.Notifications(ctx, store.NotificationQuery{
		User: user, Categories: categories, Filter: filter, Before: query.Before, Limit: query.First, Expiry: s.expiry,
	})
}

// At reads a user's notifications by positions in them, whatever has joined them since. A position in another list, or in a
// notification without a remaining cause, is absent.
func (s *Service) At(ctx context.Context, user services.UserID, places []services.PostID) (map[services.PostID]services.Notification, error) {
	if len(places) == 0 {
		return nil, nil
	}
	return s.store.NotificationsAt(ctx, user, places, s.expiry)
}
