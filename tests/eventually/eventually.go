// Package eventually lets a test wait for a condition, instead of for a while. A condition that does not come in time ends the
// test, so a limit is never reached in a test that passes, and may be generous.
package eventually

import (
	"testing"
	"time"
)

// limit is what Holds waits: far longer than anything takes on a busy machine.
const limit = time.Minute

// Holds waits until a condition holds, for at most a minute. what names the condition in the failure.
func Holds(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	HoldsWithin(tb, limit, what, condition)
}

// HoldsWithin is Holds with a limit of its own.
func HoldsWithin(tb testing.TB, limit time.Duration, what string, condition func() bool) {
	tb.Helper()
	if !wait(limit, condition) {
		tb.Fatalf("not within %s: %s", limit, what)
	}
}

// Succeeds waits until a call succeeds. The failure shows the last error.
func Succeeds(tb testing.TB, limit time.Duration, what string, call func() error) {
	tb.Helper()
	var err error
	if !wait(limit, func() bool { err = call(); return err == nil }) {
		tb.Fatalf("not within %s: %s: %v", limit, what, err)
	}
}

// wait calls a condition in the test's own goroutine, so that it may end the test.
func wait(limit time.Duration, condition func() bool) (held bool) {
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
