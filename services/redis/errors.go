package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"tidings/services"
)

// cannotServeNowPrefixes begin the answers of a Redis that runs but cannot serve now: it is loading, has lost its master, moves a
// slot or is full. A later attempt may succeed; nothing is wrong with the call.
var cannotServeNowPrefixes = []string{
	"LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "TRYAGAIN", "OOM", "NOREPLICAS", "MISCONF", "BUSY ",
	"max number of clients reached",
}

// MapError maps an error to its code: UNAVAILABLE if Redis did not answer or cannot serve now, also if the caller's time was
// up. Any other error is returned unchanged, nil as nil.
func MapError(err error) error {
	switch {
	case err == nil:
		return nil
	case services.IsUnavailable(err):
		return err
	// No connection was free, the breaker is open, or the caller's time is up: Redis may be well, but this call got no
	// answer.
	case unreachable(err), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted),
		errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return services.Wrapf(services.Unavailable, err, "Redis does not answer")
	}
	for _, prefix := range cannotServeNowPrefixes {
		if redis.HasErrorPrefix(err, prefix) {
			return services.Wrapf(services.Unavailable, err, "Redis cannot serve now")
		}
	}
	return err
}

// unreachable reports whether no answer came: a network error, a time-out, a closed connection or client. go-redis has no type
// for the error that no sentinel can be reached.
func unreachable(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, redis.ErrClosed) || strings.HasPrefix(err.Error(), "redis: all sentinels specified in configuration are unreachable")
}

// unanswered reports whether a mapped error means that no answer came at all, rather than a refusal.
func unanswered(err error) bool {
	var refusal redis.Error
	return services.IsUnavailable(err) && !errors.As(err, &refusal)
}

// IsWrongType reports whether a command or a script met a key of the wrong type. Inside of a script Redis wraps its
// error in others, so the text is looked through.
func IsWrongType(err error) bool {
	return err != nil && strings.Contains(err.Error(), "wrong kind of value")
}
