package demo

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"tidings/services"
)

// panickingClock panics at each reading but the first.
type panickingClock struct{ readCount int }

func (c *panickingClock) Now() time.Time {
	if c.readCount++; c.readCount > 1 { // a world is made with the time
		panic("while the people act")
	}
	return time.Time{}
}

// A panic of an act ends Run, and with it the icon updater, so that the node can begin Run again.
func TestAPanicOfAnActEndsRun(t *testing.T) {
	w := New(Config{Clock: &panickingClock{}, Log: slog.New(slog.DiscardHandler)})
	err := func() (err error) {
		defer services.Recover(&err)
		return w.Run(context.WithoutCancel(t.Context()))
	}()
	if !services.IsPanic(err) {
		t.Errorf("it ended with %v", err)
	}
}
