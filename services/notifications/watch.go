package notifications

import (
	"context"

	"tidings/services"
	"tidings/services/push"
)

// Change is the first page of a user's notifications, with the user's badges. It is a whole state and not a difference.
type Change struct {
	Page Page
	// Badges are the badges at which the page was read, or last found unchanged. Callers must not change them: the hub shares them.
	Badges *services.Badges
}

// Watch opens a channel with the first page of a user's list: the present one, and then each change. A slow consumer gets only
// the latest. badges are the user's badges from the hub; Watch waits for the first of them. The list is read again only when the
// badges say that it changed. The channel is closed when ctx ends and when badges is closed.
func (s *Service) Watch(ctx context.Context, user services.UserID, query Query, badges <-chan *services.Badges) <-chan Change {
	// The channel has no buffer: Derive replaces a state that nobody has received yet, and could not replace a state in a buffer.
	changes := make(chan Change)
	var last Change
	// Only the goroutine below calls look.
	look := func(ctx context.Context, badges *services.Badges) (Change, error) {
		next := Change{last.Page, badges}
		if last.Badges == nil || !next.same(last) {
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
		push.Derive(ctx, changes, badges, nil, look, Change.same)
	}()
	return changes
}

// same reports whether nothing of the list changed between two changes. A list of unknown version may have changed.
func (c Change) same(other Change) bool {
	return c.Badges.Notifications.Equal(&other.Badges.Notifications) && c.Badges.Notifications.Version != 0
}
