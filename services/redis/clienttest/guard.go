package clienttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/redistest"
)

// EveryReadIsGuarded fails the test for a read without the guard of services/redis. While Redis hangs, that guard refuses reads at once,
// except for one after each pause, which waits for an answer.
func EveryReadIsGuarded[C any](t *testing.T, open func(t *testing.T, options redis.Options) C, all map[string]func(ctx context.Context, c C) error) {
	// within is the read timeout, and pause the longer of the guard's pauses.
	const reads, within, pause = 100, 60 * time.Millisecond, 500 * time.Millisecond
	for name, ask := range all {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, redistest.NewServer(t).Addr())
			c := open(t, redis.Options{URL: proxy.URL(), ReadTimeout: within})
			proxy.BlackHole(true)
			start, waited := time.Now(), 0
			for range reads {
				err := ask(t.Context(), c)
				if !services.IsUnavailable(err) {
					t.Fatalf("%v, want UNAVAILABLE", err)
				}
				if !errors.Is(err, gobreaker.ErrOpenState) {
					waited++
				}
			}
			// One read waits before the first pause and one after each pause; the breaker alone would let ten readers wait in
			// that time.
			if most := 2 + int(time.Since(start)/pause); waited == 0 || waited > most {
				t.Errorf("%d reads waited in %v, want 1 to %d", waited, time.Since(start), most)
			}
		})
	}
}
