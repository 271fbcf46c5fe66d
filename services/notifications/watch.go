package notifications

import (
	"context"

	"tidings/services"
	"tidings/services/push"
)

// PageUpdate is the first page of a user's notifications, with the user's badges. It is a whole state and not a difference.
type PageUpdate struct {
	Page Page
	// Badges are the badges at which the page was read, or last found unchanged. Callers must not change them: the hub shares them.
	Badges *services.Badges
}

// Watch opens a channel with the first page of a user's list: the present one, and then each change. A slow consumer gets only
// the latest. badges are the user's badges from the hub; Watch waits for the first of them. The list is read again only when the
// badges say that it changed. The channel is closed when ctx ends and when badges is closed.
func (s *Service) Watch(ctx context.Context, user services.UserID, query PageQuery, badges <-chan *services.Badges) <-chan PageUpdate {
	// The channel has no buffer: push.SendDerivedStates replaces a state that nobody has received yet, and could not replace a
	// state in a buffer.
	changes := make(chan PageUpdate)
	var last PageUpdate
	// look reads the page again if the badges say that it changed. Only the goroutine below calls it.
	look := func(ctx context.Context, badges *services.Badges) (PageUpdate, error) {
		next := PageUpdate{last.Page, badges}
		if last.Badges == nil || !next.hasSamePage(last) {
			var err error
			if next.Page, err = s.Page(ctx, user, query); err != nil {
				return next, err
			}
		}
		// last is set only after the page was read: after an error the same badges cause another try.
		last = next
		return next, nil
	}
	go func() {
		defer close(changes)
		push.SendDerivedStates(ctx, changes, badges, nil, look, PageUpdate.hasSamePage)
	}()
	return changes
}

// hasSamePage reports whether nothing of the list changed between two updates. A list of unknown version may have changed.
func (c PageUpdate) hasSamePage(other PageUpdate) bool {
	return c.Badges.Notifications.Equal(&other.Badges.Notifications) && c.Badges.Notifications.Version != 0
}
