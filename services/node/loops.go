package node

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"tidings/services"
)

// workerLoops are the loops of the workers that run jobs. They are apart from the other loops, because the drain ends them
// first.
func (s *Server) workerLoops() []func(context.Context) error {
	var loops []func(context.Context) error
	for _, worker := range s.Jobs.Workers(s.Config.Jobs.Workers) {
		loops = append(loops, worker.Run)
	}
	return loops
}

// startLoops runs loops that end with ctx; the channel is closed when all have ended. A loop that ends early ends alone. errgroup's
// own context is not used: the end of one loop must not end the others, or a fault of the audit would stop pushes. A loop that panics
// begins again: the sockets of all users must not end with it.
func startLoops(ctx context.Context, log *slog.Logger, loops ...func(context.Context) error) <-chan struct{} {
	done := make(chan struct{})
	var group errgroup.Group
	for _, loop := range loops {
		group.Go(func() error { return services.KeepRunning(ctx, log, loop) })
	}
	go func() {
		_ = group.Wait() // loops end with their context and log their own failures
		close(done)
	}()
	return done
}
