package redis

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services/redis/redistest"
	"tidings/tests/eventually"
)

// dialHoldingHook holds every dial until releaseDials is closed.
type dialHoldingHook struct {
	dialHeld     chan struct{} // gets a value for each dial that is held
	releaseDials chan struct{} // closed when the held dials may go on
}

// DialHook holds each dial.
func (h dialHoldingHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		h.dialHeld <- struct{}{}
		<-h.releaseDials
		return next(ctx, network, address)
	}
}

func (dialHoldingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (dialHoldingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A dial that reaches the sentinels after Close leaves no goroutine behind.
func TestADialThatOutlivesItsClientEndsItsSubscription(t *testing.T) {
	c := connect(t, Options{URL: redistest.Sentinel(t), PoolSize: 2})
	dials := dialHoldingHook{make(chan struct{}, 100), make(chan struct{})}
	c.redis.AddHook(dials)
	subscription := c.redis.Subscribe(t.Context()) // a connection of its own
	asked := make(chan error, 1)
	go func() { asked <- subscription.Ping(t.Context()) }()
	<-dials.dialHeld
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	close(dials.releaseDials)
	<-asked // the dial has ended, and with it what it started
	_ = subscription.Close()
	eventually.Succeeds(t, 10*time.Second, "nothing listens to a sentinel", func() error {
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; strings.Contains(string(stacks), "sentinelFailover).listen") {
			return errors.New("a subscription to a sentinel is still open")
		}
		return nil
	})
}

func TestNoDialStartsAfterClose(t *testing.T) {
	closes := 0
	d := &sentinelDials{client: closer(func() error { closes++; return nil })}
	for range 2 {
		if !d.admitDial() {
			t.Fatal("a dial is refused before close")
		}
	}
	d.endDial()
	d.close()
	if closes != 0 {
		t.Errorf("the client was closed %d times by dials that ended before it", closes)
	}
	d.endDial()
	if closes != 1 {
		t.Errorf("the last dial after close closed the client %d times, want once", closes)
	}
	next := func(context.Context, string, string) (net.Conn, error) {
		t.Error("a dial started after close")
		return nil, nil
	}
	if _, err := d.DialHook(next)(t.Context(), "tcp", "127.0.0.1:1"); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("a dial after close: %v, want %v", err, redis.ErrClosed)
	}
}

// closer is a client whose Close is this function.
type closer func() error

func (c closer) Close() error { return c() }
