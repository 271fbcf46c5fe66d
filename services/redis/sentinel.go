package redis

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// sentinelDials ends the subscriptions of dials that are in flight when their client closes. A dial through sentinels subscribes to
// the sentinel that named the master. go-redis does so on a closed client too, and never ends that subscription. Closing the
// client once more ends it. Dials outlive their callers, so Close does not wait for them.
type sentinelDials struct {
	client io.Closer // the client that dials

	mu       sync.Mutex // guards closed and inFlight
	closed   bool       // no dial may start any more
	inFlight int        // dials that have begun and not ended
}

// close refuses every dial from now on. The caller closes the client afterwards.
func (d *sentinelDials) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// admitDial reports whether a dial may start. If so, it must call endDial.
func (d *sentinelDials) admitDial() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.inFlight++
	return true
}

// endDial closes the client once more if the last dial ends after close.
func (d *sentinelDials) endDial() {
	d.mu.Lock()
	d.inFlight--
	last := d.closed && d.inFlight == 0
	d.mu.Unlock()
	if last {
		_ = d.client.Close() // it is closed: this ends the subscription alone
	}
}

// DialHook counts the dials in flight, and refuses dials after close.
func (d *sentinelDials) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if !d.admitDial() {
			return nil, redis.ErrClosed
		}
		defer d.endDial()
		return next(ctx, network, address)
	}
}

// ProcessHook leaves commands alone.
func (d *sentinelDials) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook leaves pipelines alone.
func (d *sentinelDials) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
