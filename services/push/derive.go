package push

import (
	"context"
	"errors"
	"time"

	"tidings/services"
)

// deriveGap is the time between two states that Derive sends: the first goes at once.
const deriveGap = 100 * time.Millisecond

// ErrBehind says that the badges are older than what else is looked at, and are about to follow.
var ErrBehind = errors.New("the badges are behind")

// Derive sends what rests on more than a user's badges: a state for the first of badges, which the hub brings, and then
// each further one, the latest only where the consumer is slow. look reads it when the badges change or moved has a token (nil:
// it rests on nothing else); a state that is the same as the last one is not sent. It returns when ctx ends, when badges is
// closed, and when look says NOT_FOUND: there is nothing to see any more. With ErrBehind it looks again as soon as something
// happens, and after a gap in any case; whatever else look cannot read is read again after a gap.
func Derive[S any](ctx context.Context, out chan<- S, badges <-chan *services.Badges, moved <-chan struct{},
	look func(ctx context.Context, badges *services.Badges) (S, error), same func(a, b S) bool,
) {
	var newest *services.Badges
	var last S
	var sent, dirty, open bool // something was sent or is about to be; something happened since last was read; the gap is over
	var ready chan<- S         // out while last is to be sent
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case next, more := <-badges:
			if !more {
				return
			}
			newest, dirty = next, true
		case <-moved:
			dirty = true
		case <-gap.C:
			open = true
		case ready <- last:
			ready = nil
		}
		if !open || !dirty || newest == nil {
			continue
		}
		state, err := look(ctx, newest)
		if services.CodeOf(err) == services.NotFound {
			return
		}
		if errors.Is(err, ErrBehind) {
			gap.Reset(deriveGap)
			continue
		}
		if err == nil {
			if !sent || !same(state, last) {
				last, ready, sent = state, out, true
			}
			dirty = false
		}
		open = false
		gap.Reset(deriveGap)
	}
}
