package resolvers

import (
	"context"
	"errors"
	"log/slog"

	"tidings/services"
)

// relay turns the changes of a service into the events of a subscription, until the changes end. cancel ends the source of the
// changes. A change that cannot be shown is skipped, because the next one has the whole state too; so is a change for which
// show returns errKnown. relay has a goroutine of its own, which ends with ctx or with the changes. It holds one event at a
// time: while the client is slow, the source conflates further changes.
func relay[C, E any](ctx context.Context, cancel context.CancelFunc, log *slog.Logger, changes <-chan C, show func(context.Context, C) (E, error)) <-chan E {
	// The channel has no buffer, because an event that waits in a buffer would be older than the newest state of the source.
	shown := make(chan E)
	go func() {
		defer cancel()
		defer close(shown)
		for change := range changes {
			event, err := shownSafely(ctx, change, show)
			if err != nil {
				// The end of the subscription is not a failure.
				if ctx.Err() == nil && !errors.Is(err, errKnown) {
					log.Warn("an event of a subscription could not be made; the next one has the whole state", "error", err)
				}
				continue
			}
			select {
			case shown <- event:
			case <-ctx.Done():
				return
			}
		}
	}()
	return shown
}

// errKnown is show's error for a change that the client already has.
var errKnown = errors.New("the client has this already")

// shownSafely calls show. A panic is an error: relay's goroutine serves one subscription, and its end would be that of the process.
func shownSafely[C, E any](ctx context.Context, change C, show func(context.Context, C) (E, error)) (event E, err error) {
	defer services.Recover(&err)
	return show(ctx, change)
}
