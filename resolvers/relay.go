package resolvers

import (
	"context"
	"errors"
	"log/slog"
)

// relay makes of a service's changes what a subscription shows of them, until they end; cancel ends whatever brings them.
// A change that cannot be shown is passed over: the next one is of the whole state too. So is one of which show says errKnown.
func relay[C, E any](ctx context.Context, cancel context.CancelFunc, log *slog.Logger, changes <-chan C, show func(context.Context, C) (E, error)) <-chan E {
	shown := make(chan E)
	go func() {
		defer cancel()
		defer close(shown)
		for change := range changes {
			event, err := show(ctx, change)
			if err != nil {
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

// errKnown says of a change that the client has it.
var errKnown = errors.New("the client has this already")
