package rdb

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"tidings/services/redis"
)

func TestMain(m *testing.M) {
	// After many failed dials the library retries each second, and notices only then that its pool is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// connect opens the projections for a test and closes them with the test.
func connect(t *testing.T, options redis.Options, shape ...Shape) *Projections {
	t.Helper()
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.DataDir == "" {
		options.DataDir = t.TempDir()
	}
	c, err := Open(t.Context(), options, append(shape, Shape{})[0])
	if err != nil {
		t.Fatalf("Open(%q): %v", options.URL, err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}
