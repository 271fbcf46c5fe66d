package sql

import (
	"context"

	"tidings/services"
)

// orderedWritesKey is the context key of WithOrderedWrites.
type orderedWritesKey struct{}

// WithOrderedWrites is for functions that may need the effects of those before them. In each WriteAll under the context, no
// function runs after one that failed for now, that is, for a reason that may pass (services.IsTransient): the error of all later
// ones is ErrEarlierWriteFailed. The caller can then repeat the failed function and the later ones, in their order.
func WithOrderedWrites(ctx context.Context) context.Context {
	return context.WithValue(ctx, orderedWritesKey{}, true)
}

// ErrEarlierWriteFailed is the error of a function that did not run, under WithOrderedWrites, because one before it failed for now.
// It is a failure for now too, so only the function just before has to be looked at to know whether another may run.
var ErrEarlierWriteFailed = services.Errorf(services.Unavailable, "not tried, because one before it in the request failed: send both again, in their order")

// hasOrderedWrites reports whether a WriteAll is under WithOrderedWrites.
func hasOrderedWrites(ctx context.Context) bool { return ctx.Value(orderedWritesKey{}) != nil }
