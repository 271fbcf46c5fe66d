package push

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"tidings/services"
)

// minDeriveInterval is the least time between two states that SendDerivedStates sends. The first state is sent at once.
const minDeriveInterval = 100 * time.Millisecond

// ErrBadgesBehind is what the function look of SendDerivedStates returns when the badges are older than its other input and will
// catch up soon.
var ErrBadgesBehind = errors.New("the badges are behind")

// SendDerivedStates sends states that depend on more than a user's badges: one state for the first badges, which the hub brings,
// and then each further state; a slow consumer gets only the latest. look reads the state when the badges change or moved has a
// token (nil: there is no other input). A state that equals the last one is not sent. It returns when ctx ends, when badges is
// closed, and when look says NOT_FOUND, because the state no longer exists. After ErrBadgesBehind it looks again as soon as an input
// changes, and after minDeriveInterval at the latest; after any other error of look it looks again after minDeriveInterval. After a
// panic of look it returns: the subscription ends, and its client may begin another.
func SendDerivedStates[S any](ctx context.Context, out chan<- S, badges <-chan *services.Badges, moved <-chan struct{},
	look func(ctx context.Context, badges *services.Badges) (S, error), same func(a, b S) bool,
) {
	var newest *services.Badges
	var last S
	var sent, dirty, open bool // sent: a state is sent or queued; dirty: inputs changed since the last look; open: gap has fired
	var ready chan<- S         // out while last is to be sent
	gap := time.NewTimer(0)    // the least time between two looks
	defer gap.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case next, more := <-badges:
			// The hub drains, or the user's context has ended.
			if !more {
				return
			}
			newest, dirty = next, true
		case <-moved:
			dirty = true
		case <-gap.C:
			open = true
		// A nil channel is never ready: nothing waits to be sent.
		case ready <- last:
			ready = nil
		}
		if !open || !dirty || newest == nil {
			// It is too soon for a look, or no input has changed, or there are no badges yet.
			continue
		}
		state, err := deriveState(ctx, newest, look)
		if services.IsPanic(err) {
			slog.Default().Error("a subscription ends because of a panic", "error", err)
			return
		}
		if services.CodeOf(err) == services.NotFound {
			return
		}
		if errors.Is(err, ErrBadgesBehind) {
			gap.Reset(minDeriveInterval)
			continue
		}
		if err == nil {
			if !sent || !same(state, last) {
				// A state that was not taken yet is replaced: the consumer gets the latest.
				last, ready, sent = state, out, true
			}
			dirty = false
		}
		// The next look waits for minDeriveInterval, whether this one succeeded or not.
		open = false
		gap.Reset(minDeriveInterval)
	}
}

// deriveState calls look. A panic is an error.
func deriveState[S any](ctx context.Context, badges *services.Badges, look func(context.Context, *services.Badges) (S, error)) (state S, err error) {
	defer services.Recover(&err)
	return look(ctx, badges)
}
