package rdb

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

// Every kind of read is guarded: while Redis hangs, one read waits after each pause and all others are refused at once.
func TestEveryReadOfAHungRedisIsGuarded(t *testing.T) {
	const reads, within, pause = 100, 60 * time.Millisecond, 500 * time.Millisecond // the longer pause of the guard
	user := services.UserID(1)
	for name, ask := range map[string]func(ctx context.Context, c *Projections) error{
		"document": func(ctx context.Context, c *Projections) error {
			_, err := c.Documents(ctx, []services.UserID{user})
			return err
		},
		"documents": func(ctx context.Context, c *Projections) error {
			_, err := c.Documents(ctx, []services.UserID{user, 2})
			return err
		},
		"inbox": func(ctx context.Context, c *Projections) error {
			_, err := c.Inbox(ctx, user, services.MaxPostID, 20)
			return err
		},
		"board": func(ctx context.Context, c *Projections) error {
			_, err := c.Board(ctx, BoardQuery{Reader: user, Limit: 20})
			return err
		},
		"board's hosts": func(ctx context.Context, c *Projections) error {
			_, err := c.Board(ctx, BoardQuery{Reader: user})
			return err
		},
		"copies": func(ctx context.Context, c *Projections) error {
			_, _, err := c.Copies(ctx, []services.PostID{1}, []services.UserID{user})
			return err
		},
		"session": func(ctx context.Context, c *Projections) error {
			_, err := c.TouchSession(ctx, user, "slot", "session", time.Now().Add(time.Hour))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, redistest.NewServer(t).Addr())
			c := connect(t, redis.Options{URL: proxy.URL(), ReadTimeout: within})
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
			// One before the first pause and one after each; the breaker alone would let ten readers wait in that time.
			if most := 2 + int(time.Since(start)/pause); waited == 0 || waited > most {
				t.Errorf("%d reads waited in %v, want 1 to %d", waited, time.Since(start), most)
			}
		})
	}
}
