package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// panicError is the error of a panic. Its text has the stack, so that whoever logs the error logs the stack too.
type panicError struct{ text string }

func (p *panicError) Error() string { return p.text }

// NewPanicError returns the error for a panic, from the value that recover returned: INTERNAL, with the stack in its second and
// further lines. An error of a panic that was raised again in another goroutine stays as it is: it has the first stack.
func NewPanicError(cause any) error {
	if known, is := cause.(error); is && IsPanic(known) {
		return known
	}
	return &panicError{fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())}
}

// Recover turns a panic of the function that defers it into that function's error. A goroutine that runs the code of a feature, or
// handles what a host or a client has sent, defers it around each step: a panic then fails the step and does not end the process,
// which serves everybody.
func Recover(err *error) {
	if cause := recover(); cause != nil {
		*err = NewPanicError(cause)
	}
}

// IsPanic reports whether an error is that of a panic.
func IsPanic(err error) bool {
	_, is := errors.AsType[*panicError](err)
	return is
}

// Repanic panics again if err is the error of a panic, and returns any other error. A goroutine that waits for others calls it with
// their error, which a deferred Recover has made: their panic then unwinds the waiting goroutine too, as if it had done the work
// itself.
func Repanic(err error) error {
	if IsPanic(err) {
		panic(err)
	}
	return err
}

// pauseAfterPanic is the time between a panic of a loop and its next run by KeepRunning. A bug that panics each time costs a line of the
// log per second.
const pauseAfterPanic = time.Second

// KeepRunning runs a loop, and begins it again after a panic, until ctx ends or the loop returns. A loop that panics must end its own
// goroutines and release its locks; otherwise the next run would wait for them.
func KeepRunning(ctx context.Context, log *slog.Logger, loop func(ctx context.Context) error) error {
	for {
		err := func() (err error) {
			defer Recover(&err)
			return loop(ctx)
		}()
		if !IsPanic(err) {
			return err
		}
		log.Error("a part of the node panicked; it begins again", "error", err)
		if err := Sleep(ctx, pauseAfterPanic); err != nil {
			return err
		}
	}
}
