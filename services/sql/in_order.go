package sql

import (
	"context"

	"tidings/services"
)

// inOrderKey is the context key of InOrder.
type inOrderKey struct{}

// InOrder is for functions that may need the effects of those before them. In each WriteAll under the context, no function runs
// after one that failed for now, see services.FailedForNow: the error of all later ones is ErrBehind. The caller can then repeat
// the failed function and the later ones, in their order.
func InOrder(ctx context.Context) context.Context { return context.WithValue(ctx, inOrderKey{}, true) }

// ErrBehind is the error of a function that did not run because one before it failed: see InOrder. It is a failure for now too, so
// only the function just before has to be looked at to know whether another may run.
var ErrBehind = services.Errorf(services.Unavailable, "not tried, because one before it in the request failed: send both again, in their order")

// isInOrder reports whether a WriteAll is under InOrder.
func isInOrder(ctx context.Context) bool { return ctx.Value(inOrderKey{}) != nil }
