package eventually

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// fakeTB is a testing.TB that can fail without ending the real test.
type fakeTB struct {
	testing.TB
	failure string // the message of Fatal or Fatalf
}

func (d *fakeTB) Helper() {}

func (d *fakeTB) Fatal(args ...any) {
	d.failure = fmt.Sprint(args...)
	runtime.Goexit()
}

func (d *fakeTB) Fatalf(format string, args ...any) {
	d.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failureOf runs a test and returns the message of its failure; "" if it passes.
func failureOf(test func(tb testing.TB)) string {
	d := &fakeTB{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(d)
	}()
	<-done
	return d.failure
}

func TestAWaitEndsWithTheCondition(t *testing.T) {
	calls := 0
	third := func() bool { calls++; return calls == 3 }
	if failure := failureOf(func(tb testing.TB) { Holds(tb, "the third call", third) }); failure != "" || calls != 3 {
		t.Errorf("%d calls, %q", calls, failure)
	}
	calls = 0
	succeeds := func() error {
		if !third() {
			return errors.New("not yet")
		}
		return nil
	}
	if failure := failureOf(func(tb testing.TB) { Succeeds(tb, time.Minute, "the third call", succeeds) }); failure != "" || calls != 3 {
		t.Errorf("%d calls, %q", calls, failure)
	}
}

func TestAConditionThatDoesNotComeFailsTheTest(t *testing.T) {
	for want, test := range map[string]func(tb testing.TB){
		"not within 1ms: rain": func(tb testing.TB) { HoldsWithin(tb, time.Millisecond, "rain", func() bool { return false }) },
		"not within 1ms: rain: dry": func(tb testing.TB) {
			Succeeds(tb, time.Millisecond, "rain", func() error { return errors.New("dry") })
		},
	} {
		if failure := failureOf(test); failure != want {
			t.Errorf("the failure is %q, want %q", failure, want)
		}
	}
}

func TestACallThatMissesItsDeadlineIsMadeAgain(t *testing.T) {
	for _, last := range []error{nil, errors.New("dry")} {
		calls := 0
		failure := failureOf(func(tb testing.TB) {
			SucceedsDespiteTimeouts(tb, func() error {
				if calls++; calls < 3 {
					return fmt.Errorf("rain: %w", context.DeadlineExceeded)
				}
				return last
			})
		})
		if want := map[bool]string{true: "dry"}[last != nil]; failure != want || calls != 3 {
			t.Errorf("%d calls, %q, want %q", calls, failure, want)
		}
	}
}
