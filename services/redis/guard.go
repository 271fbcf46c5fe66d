package redis

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// The pauses after a time-out.
const (
	// guardPause is the pause after the first time-out: a short stall must not send every reader to SQL for long.
	guardPause     = 100 * time.Millisecond
	guardLongPause = breakerOpenTime // the pause after a probe (the one read after a pause) that timed out too: the server hangs
)

// guard keeps readers from waiting for a server that hangs. They can read from SQL instead, so one time-out is enough for them,
// while writers continue until the breaker opens. After a time-out reads fail at once for a pause, then one of them probes the
// server while the others still fail. It is safe for concurrent use.
type guard struct {
	maxWait time.Duration    // the longest wait of a read
	now     func() time.Time // monotonic: the machine's clock and not the node's

	mu      sync.Mutex // guards tripped, probing and pauseEnd
	tripped bool       // a read timed out, and no probe was answered since
	// probing: one read is probing the server, and all others are refused until it ends.
	probing  bool
	pauseEnd time.Time // from then on a read may probe the server
}

// newGuard makes a guard that lets every read through until the first time-out.
func newGuard(within time.Duration) *guard { return &guard{maxWait: within, now: time.Now} }

// refuses reports whether a read that began now would be refused. A nil guard refuses nothing.
func (g *guard) refuses() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusesLocked()
}

// refusesLocked reports whether a read that began now would be refused. The lock is held.
func (g *guard) refusesLocked() bool {
	return g.tripped && (g.probing || g.now().Before(g.pauseEnd))
}

// beginRead admits a read or refuses it. An admitted read must call endRead.
func (g *guard) beginRead() (probe bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refusesLocked() {
		return false, gobreaker.ErrOpenState
	}
	// The first read after the pause is the probe.
	g.probing = g.tripped
	return g.probing, nil
}

// endRead records the outcome of a read. Each time-out starts a pause, even the time-out of a read that began before the guard
// tripped: otherwise a read that waited for the same batch would become the probe and wait a second time. Only the answer to a
// probe lets all reads through again. If the caller of a probe cut it short, the next read is the probe.
func (g *guard) endRead(probe, timedOut, answered bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if probe {
		g.probing = false
	}
	// An answer to a read that began before the guard tripped must not end the pause: only a probe's answer does.
	switch {
	case timedOut && probe:
		g.pauseEnd = g.now().Add(guardLongPause)
	case timedOut:
		g.tripped = true
		// The pause never gets shorter: the pause after a failed probe is the longer one.
		if pause := g.now().Add(guardPause); pause.After(g.pauseEnd) {
			g.pauseEnd = pause
		}
	case answered && (probe || !g.tripped):
		g.tripped = false
	}
}

// guardedReadKey is the context key of WithReadGuard.
type guardedReadKey struct{}

// WithReadGuard marks the calls of a context as reads to which the guard applies: it bounds their wait, and refuses them while the
// server hangs. Mark only calls whose caller can read from SQL instead.
func WithReadGuard(ctx context.Context) context.Context {
	return context.WithValue(ctx, guardedReadKey{}, true)
}

// guardedReadCmd marks a command as a read to which the guard applies; WithReadGuard marks all calls of a context. A batch has one
// context for the commands of many callers, so each command has a mark of its own.
type guardedReadCmd struct{ noRetryCmd }

// isGuardedRead reports whether the guard applies to a call: its command or its context is marked.
func isGuardedRead(ctx context.Context, cmd redis.Cmder) bool {
	if _, ok := cmd.(guardedReadCmd); ok {
		return true
	}
	marked, _ := ctx.Value(guardedReadKey{}).(bool)
	return marked
}

// guardHook is a hook for go-redis. It applies a guard to the reads of one server.
type guardHook struct{ *guard }

// DialHook leaves dialling alone: it is a part of the call that needs the connection.
func (guardHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook guards a single read.
func (h guardHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !isGuardedRead(ctx, cmd) {
			return next(ctx, cmd)
		}
		err := h.run(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
		// A refused command was never sent, and go-redis reads the error from the command.
		if err != nil && cmd.Err() == nil {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook guards a pipeline of reads. A refused pipeline was not sent, so each of its commands gets the error here.
func (h guardHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		// A pipeline is of one kind, so its first command speaks for all.
		if !isGuardedRead(ctx, cmds[0]) {
			return next(ctx, cmds)
		}
		sent := false
		err := h.run(ctx, func(ctx context.Context) error {
			sent = true
			return next(ctx, cmds)
		})
		if !sent {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// run sends a read, unless the guard refuses. A connection that the read needs is made in a context without the mark: its
// handshake is a part of the same read.
func (h guardHook) run(ctx context.Context, send func(context.Context) error) error {
	probe, err := h.beginRead()
	if err != nil {
		return err
	}
	own := false // the caller has less time than the guard allows
	if deadline, ok := ctx.Deadline(); ok {
		own = time.Until(deadline) < h.maxWait
	}
	ended := false
	defer func() {
		if !ended { // send panicked
			h.endRead(probe, false, false)
		}
	}()
	bounded, cancel := context.WithTimeout(context.WithValue(ctx, guardedReadKey{}, false), h.maxWait)
	defer cancel()
	err = send(bounded)
	ended = true
	// The time-out of a caller with less time than the guard allows says nothing about the server, and neither does a caller that
	// gave up.
	timedOut := isTimeout(err)
	h.endRead(probe, timedOut && !own && ctx.Err() == nil, !timedOut && !saysNothingAboutServer(err))
	return err
}

// isTimeout reports whether the time for an answer ran out.
func isTimeout(err error) bool {
	if failure, ok := errors.AsType[net.Error](err); ok && failure.Timeout() {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}
