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

// notNowPrefixes begin the answers of a Redis that is there and cannot serve: it loads, it has lost its master, a
// slot moves, it is full. Trying later may succeed; nothing is wrong with the call.
var notNowPrefixes = []string{
	"LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "TRYAGAIN", "OOM", "NOREPLICAS", "MISCONF", "BUSY ",
	"max number of clients reached",
}

// Unavailable gives an error its code: UNAVAILABLE when Redis did not answer or cannot serve now, also when the
// caller's time was up. Any other error comes back as it is, nil as nil.
func Unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case services.IsUnavailable(err):
		return err
	case unreachable(err), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted),
		errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return services.Wrapf(services.Unavailable, err, "Redis does not answer")
	}
	for _, prefix := range notNowPrefixes {
		if redis.HasErrorPrefix(err, prefix) {
			return services.Wrapf(services.Unavailable, err, "Redis cannot serve now")
		}
	}
	return err
}

// unreachable says that no answer came: the network, a time-out, a closed connection or client.
func unreachable(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, redis.ErrClosed) || strings.HasPrefix(err.Error(), "redis: all sentinels specified in configuration are unreachable")
}

// unanswered says that an error already mapped stands for no answer at all, and not for a refusal.
func unanswered(err error) bool {
	var refusal redis.Error
	return services.IsUnavailable(err) && !errors.As(err, &refusal)
}

// IsWrongType says that a command or a script met a key of another type.
func IsWrongType(err error) bool {
	return err != nil && strings.Contains(err.Error(), "wrong kind of value")
}
