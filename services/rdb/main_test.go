package rdb

import (
	"testing"

	"go.uber.org/goleak"

	"tidings/services/redis"
	"tidings/services/redis/clienttest"
)

// longReadTimeout is the read timeout of a test that runs a history of random events. It is long because a history tests order, not
// time.
const longReadTimeout = clienttest.LongReadTimeout

func TestMain(m *testing.M) {
	// After many failed dials go-redis retries each second, and finds out only then that its pool is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// openProjections opens the projections for a test and closes them with the test.
func openProjections(t *testing.T, options redis.Options, shape ...DocumentShape) *Projections {
	t.Helper()
	return clienttest.OpenBy(t, options, func(options redis.Options) (*Projections, error) {
		return Open(t.Context(), options, append(shape, DocumentShape{})[0])
	})
}
