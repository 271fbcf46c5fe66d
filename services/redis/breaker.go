package redis

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// The breaker's limits. Half a second is short enough that a restarted Redis is in use within a second, and long enough
// that a dead one costs two calls a second.
const (
	breakerFailureLimit = 10                     // failures in a row after which calls fail without being tried
	breakerOpenTime     = 500 * time.Millisecond // how long calls then fail; after that one call is tried again
)

// breaker limits the calls of one Redis server: after 10 calls in a row without an answer it refuses all calls for 500 ms, then
// admits one. It is safe for concurrent use.
type breaker struct {
	steps *gobreaker.TwoStepCircuitBreaker[struct{}] // the breaker of gobreaker: it admits a call, and takes the result later

	mu               sync.Mutex    // guards runningDoneFuncs
	runningDoneFuncs []func(error) // take the results of the running calls, the oldest call first
}

// newBreaker makes the breaker of one address. The limit is ten failures in a row, because one slow answer does not cause so many, and
// an outage causes them on a busy node within milliseconds.
func newBreaker(addr string, log *slog.Logger) *breaker {
	return &breaker{steps: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         addr,
		Timeout:      breakerOpenTime,
		ReadyToTrip:  func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= breakerFailureLimit },
		IsSuccessful: func(err error) bool { return !isOutage(err) },
		IsExcluded:   saysNothingAboutServer,
		OnStateChange: func(name string, from, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				// Each failed probe opens the breaker again: the log says so once.
				if from == gobreaker.StateClosed {
					log.Warn("Redis does not answer: calls fail at once until it answers", "address", name)
				}
			case gobreaker.StateClosed:
				log.Info("Redis answers again", "address", name)
			}
		},
	})}
}

// Allow refuses a call while the breaker is open. It and ReportResult are the methods of a Limiter of go-redis.
func (b *breaker) Allow() error {
	done, err := b.steps.Allow()
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.runningDoneFuncs = append(b.runningDoneFuncs, done)
	b.mu.Unlock()
	return nil
}

// ReportResult takes the result of a call. go-redis does not say which call it was: the breaker assumes the oldest running
// call. A wrong guess matters only if a call takes longer than the breaker's pause, which hardly ever happens.
func (b *breaker) ReportResult(err error) {
	b.mu.Lock()
	if len(b.runningDoneFuncs) == 0 {
		b.mu.Unlock()
		return
	}
	// Each Allow has one result: an entry left in the list would count as a call that never ended.
	done := b.runningDoneFuncs[0]
	b.runningDoneFuncs = b.runningDoneFuncs[1:]
	b.mu.Unlock()
	done(err)
}

// isOutage reports whether an error means that the server answers no command: it is absent, not ready yet, or accepts no more
// clients. A full server, a read-only one and one with a moving slot still answer reads, and a busy pool is this process's own
// problem.
func isOutage(err error) bool {
	if err == nil || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return false
	}
	// These servers answer but serve nobody: waiting for such a server would cost as much as waiting for an absent server.
	return unreachable(err) || redis.HasErrorPrefix(err, "LOADING") || redis.HasErrorPrefix(err, "MASTERDOWN") ||
		redis.HasErrorPrefix(err, "max number of clients reached")
}

// saysNothingAboutServer reports whether an error says nothing about the server: the caller gave up before the call reached the
// network, no connection was free, or the call came after Close.
func saysNothingAboutServer(err error) bool {
	// An error of the network itself does say something about the server, even if it wraps the end of a context.
	if _, network := errors.AsType[*net.OpError](err); network {
		return false
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || errors.Is(err, redis.ErrClosed)
}
