package resolvers

import (
	"context"
	"log/slog"
	"strings"
	"testing"
)

// A change whose event panics is skipped like one that cannot be shown, and the log has the stack.
func TestAPanicSkipsAnEvent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var log strings.Builder
	changes := make(chan int, 2)
	changes <- 1
	changes <- 2
	close(changes)
	events := relay(ctx, cancel, slog.New(slog.NewTextHandler(&log, nil)), changes, func(_ context.Context, change int) (int, error) {
		if change == 1 {
			panic("while it is shown")
		}
		return change, nil
	})
	if event := <-events; event != 2 {
		t.Errorf("the event is %d", event)
	}
	if _, more := <-events; more || !strings.Contains(log.String(), "while it is shown") {
		t.Errorf("more events: %v; the log is %s", more, &log)
	}
}
