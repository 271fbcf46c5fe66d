package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A panic becomes an error with the stack of the goroutine that panicked first. A function without a panic keeps its own error.
func TestRecover(t *testing.T) {
	call := func(fn func() error) (err error) {
		defer Recover(&err)
		return fn()
	}
	mine := errors.New("mine")
	if err := call(func() error { return mine }); err != mine {
		t.Errorf("the error is %v", err)
	}
	first := call(func() error { panic("while it works") })
	if CodeOf(first) != Internal || !strings.HasPrefix(first.Error(), "panic: while it works\n") || !strings.Contains(first.Error(), "TestRecover") {
		t.Errorf("the error is %v", first)
	}
	if again := call(func() error { panic(first) }); again != first {
		t.Errorf("the panic that was raised again became %v", again)
	}
}

// A panic is passed on to the goroutine that waits, with the stack of the goroutine that panicked.
func TestRepanic(t *testing.T) {
	mine := errors.New("mine")
	if err := Repanic(mine); err != mine || Repanic(nil) != nil || IsPanic(mine) {
		t.Errorf("the error is %v", err)
	}
	var first error
	again := func() (err error) {
		defer Recover(&err)
		func() {
			defer Recover(&first)
			panic("while it works")
		}()
		return Repanic(fmt.Errorf("wrapped: %w", first))
	}()
	if !errors.Is(again, first) || !IsPanic(again) || strings.Count(again.Error(), "[running]") != 1 {
		t.Errorf("it was passed on as %v", again)
	}
}

// A loop that panics begins again after a pause. It ends with its own error, or with ctx during the pause.
func TestKeepRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		mine, runs := errors.New("mine"), 0
		began := time.Now()
		err := KeepRunning(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), func(context.Context) error {
			if runs++; runs < 3 {
				panic("while it works")
			}
			return mine
		})
		if err != mine || runs != 3 || time.Since(began) != 2*pauseAfterPanic || strings.Count(log.String(), "while it works") != 2 {
			t.Errorf("%v after %d runs and %v: %s", err, runs, time.Since(began), &log)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = KeepRunning(ctx, slog.New(slog.DiscardHandler), func(context.Context) error {
			cancel()
			panic("at the end")
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}
