package resolvers

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/services"
)

// relayRetryPause is the time between two tries to show a change, give or take a tenth.
const relayRetryPause = time.Second

// relay turns the changes of a service into the events of a subscription, until the changes end. cancel ends the source of the
// changes. The source counts a change as delivered, so if a change cannot be shown, relay tries again after a pause, with the
// newest. A change is skipped if show returns errClientHasChange, or panics: it would panic again. relay has a goroutine of its
// own, which ends with ctx or with the changes. It holds one event at a time: while the client is slow, the source conflates
// further changes.
func relay[C, E any](ctx context.Context, cancel context.CancelFunc, log *slog.Logger, changes <-chan C, show func(context.Context, C) (E, error)) <-chan E {
	// The channel has no buffer, because an event that waits in a buffer would be older than the newest state of the source.
	shown := make(chan E)
	go func() {
		defer cancel()
		defer close(shown)
		var newest C
		var pause <-chan time.Time // nil: no change waits to be tried again
		logged := false            // a failure may last for minutes, and is logged once
		for {
			select {
			case <-ctx.Done():
				return
			case change, more := <-changes:
				if !more {
					return
				}
				if newest = change; pause != nil {
					continue // fast changes must not read more often
				}
			case <-pause:
				pause = nil
			}
			event, err := showSafely(ctx, newest, show)
			switch {
			case ctx.Err() != nil: // the end of the subscription is not a failure
				return
			case errors.Is(err, errClientHasChange):
				logged = false
				continue
			case services.IsPanic(err):
				log.Warn("an event of a subscription could not be made; the next one has the whole state", "error", err)
				continue
			case err != nil:
				if !logged {
					log.Warn("an event of a subscription could not be made; it is tried again", "error", err)
				}
				logged, pause = true, time.After(relayRetryPause*9/10+rand.N(relayRetryPause/5))
				continue
			}
			logged = false
			select {
			case shown <- event:
			case <-ctx.Done():
				return
			}
		}
	}()
	return shown
}

// errClientHasChange is show's error for a change that the client already has.
var errClientHasChange = errors.New("the client has this already")

// showSafely calls show. A panic becomes an error: in relay's own goroutine it would end the process.
func showSafely[C, E any](ctx context.Context, change C, show func(context.Context, C) (E, error)) (event E, err error) {
	defer services.Recover(&err)
	return show(ctx, change)
}

// skipChangesClientHas returns a function that calls show, but returns errClientHasChange for a change that the client has already.
// Once an event was shown, the client has that event instead, and every later change goes to show.
func skipChangesClientHas[C, E any](known func(C) bool, show func(context.Context, C) (E, error)) func(context.Context, C) (E, error) {
	shown := false
	return func(ctx context.Context, change C) (event E, err error) {
		if !shown && known(change) {
			return event, errClientHasChange
		}
		event, err = show(ctx, change)
		shown = shown || err == nil
		return event, err
	}
}
