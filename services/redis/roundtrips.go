package redis

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"tidings/services/trace"
)

// RoundTrips counts how often an operation waited for Redis. A pipeline is one round trip, whatever it contains and however many
// masters of a cluster it uses at once. It is safe for concurrent use.
type RoundTrips struct{ count atomic.Int64 }

// Count is the number of round trips so far.
func (r *RoundTrips) Count() int { return int(r.count.Load()) }

// roundTripsKey is the context key of the innermost count of round trips.
type roundTripsKey struct{}

// WithRoundTrips makes a context whose calls are counted, also by an outer count of the same context. It is for the tests, which bound
// the round trips of each operation.
func WithRoundTrips(ctx context.Context) (context.Context, *RoundTrips) {
	counter := &nestedRoundTrips{outer: innermostCount(ctx)}
	return context.WithValue(ctx, roundTripsKey{}, counter), &counter.roundTrips
}

// nestedRoundTrips is a count and the count around it, such as the count of a part of a request and the count of the request. A
// round trip adds to both.
type nestedRoundTrips struct {
	roundTrips RoundTrips
	outer      *nestedRoundTrips // the count around this one; nil: none
}

// innermostCount is the innermost count of a context, nil without any.
func innermostCount(ctx context.Context) *nestedRoundTrips {
	chain, _ := ctx.Value(roundTripsKey{}).(*nestedRoundTrips)
	return chain
}

// withoutRoundTripCount is the context for calls that belong to no operation, such as making a connection.
func withoutRoundTripCount(ctx context.Context) context.Context {
	return context.WithValue(ctx, roundTripsKey{}, (*nestedRoundTrips)(nil))
}

// countRoundTrip adds one to every count of a context.
func countRoundTrip(ctx context.Context) {
	for chain := innermostCount(ctx); chain != nil; chain = chain.outer {
		chain.roundTrips.count.Add(1)
	}
}

// roundTripHook counts each round trip and records a span for it. It is a hook of the client that is called, not of the clients of a
// cluster's nodes, which are called concurrently.
type roundTripHook struct{}

// DialHook counts nothing: a connection is made for many calls.
func (roundTripHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook counts one command.
func (roundTripHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if isHandshake(cmd) {
			return next(ctx, cmd)
		}
		countRoundTrip(ctx)
		ctx, span := trace.Start(ctx, "redis", cmd.Name())
		err := next(ctx, cmd)
		endSpan(span, err)
		return err
	}
}

// ProcessPipelineHook counts a pipeline as one.
func (roundTripHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if isHandshake(cmds[0]) {
			return next(ctx, cmds)
		}
		countRoundTrip(ctx)
		ctx, span := trace.Start(ctx, "redis", "pipeline")
		span.SetCount(len(cmds))
		err := next(ctx, cmds)
		endSpan(span, err)
		return err
	}
}

// endSpan ends the span of a round trip. An absent value is no error, and an error may be the error of one command of many.
func endSpan(span trace.Span, err error) {
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	span.End(MapError(err))
}

// isHandshake reports whether a command only makes a connection. go-redis sends it in the context, and through the hooks, of
// the call that happens to need a new connection. The package sends none of these itself.
func isHandshake(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "hello", "auth", "select", "readonly", "client":
		return true
	}
	return false
}
