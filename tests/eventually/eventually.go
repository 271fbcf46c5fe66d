// Package eventually lets a test wait for a condition instead of a fixed time. If the condition does not hold in time, the test
// fails. A test that passes never waits until the limit, so limits are generous.
package eventually

import (
	"context"
	"errors"
	"testing"
	"time"
)

// defaultTimeout is the longest wait of Holds: far longer than anything takes on a busy machine.
const defaultTimeout = time.Minute

// Holds waits until a condition holds, for at most a minute. what describes the condition in the message of a failure.
func Holds(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	HoldsWithin(tb, defaultTimeout, what, condition)
}

// HoldsWithin waits until a condition holds, for at most limit. what describes the condition in the message of a failure.
func HoldsWithin(tb testing.TB, limit time.Duration, what string, condition func() bool) {
	tb.Helper()
	if !waitUntil(limit, condition) {
		tb.Fatalf("not within %s: %s", limit, what)
	}
}

// Succeeds waits until a call succeeds. The message of a failure has the last error.
func Succeeds(tb testing.TB, limit time.Duration, what string, call func() error) {
	tb.Helper()
	var err error
	if !waitUntil(limit, func() bool { err = call(); return err == nil }) {
		tb.Fatalf("not within %s: %s: %v", limit, what, err)
	}
}

// SucceedsDespiteTimeouts makes a call that has a deadline of its own, such as a turn of a heartbeat. On a busy machine the
// deadline may pass: then the call is made again. Any other error fails the test.
func SucceedsDespiteTimeouts(tb testing.TB, call func() error) {
	tb.Helper()
	var err error
	if !waitUntil(defaultTimeout, func() bool { err = call(); return !errors.Is(err, context.DeadlineExceeded) }) || err != nil {
		tb.Fatal(err)
	}
}

// waitUntil waits until the condition holds, or returns false after the limit. It calls the condition in the test's own goroutine, so
// that the condition may end the test.
func waitUntil(limit time.Duration, condition func() bool) (held bool) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			return false
		case <-again.C:
		}
	}
	return true
}
