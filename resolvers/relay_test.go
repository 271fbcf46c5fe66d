package resolvers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
)

// relayed is a relay of changes, in a bubble of package synctest. Its changes cannot be shown while it has a fault.
type relayed struct {
	t       *testing.T
	changes chan int              // what the relay gets
	events  <-chan int            // what the relay sends
	fault   atomic.Pointer[error] // the error of each try; nil: none
	tries   atomic.Int64          // how often show was called
	log     strings.Builder
	cancel  context.CancelFunc
}

var errAway = errors.New("the database does not answer")

// inRelay runs a test with a relay that begins with the fault errAway. known reports whether the client has a change.
func inRelay(t *testing.T, known func(int) bool, test func(r *relayed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &relayed{t: t, changes: make(chan int), cancel: cancel}
		r.fault.Store(&errAway)
		show := func(_ context.Context, change int) (int, error) {
			r.tries.Add(1)
			if fault := r.fault.Load(); fault != nil {
				return 0, services.PassOn(*fault)
			}
			return change, nil
		}
		r.events = relay(ctx, cancel, slog.New(slog.NewTextHandler(&r.log, nil)), r.changes, exceptKnown(known, show))
		test(r)
		cancel()
		synctest.Wait()
		if _, more := <-r.events; more {
			t.Error("an event comes after the end")
		}
	})
}

// expect waits for an event, for as long as the next try takes at most.
func (r *relayed) expect(want int) {
	r.t.Helper()
	const within = relayPause * 11 / 10
	select {
	case event := <-r.events:
		if event != want {
			r.t.Errorf("the event is %d: want %d", event, want)
		}
	case <-time.After(within):
		r.t.Errorf("no event within %v: want %d", within, want)
	}
}

// expectNothing checks that no event comes within a minute.
func (r *relayed) expectNothing() {
	r.t.Helper()
	select {
	case event, more := <-r.events:
		r.t.Errorf("there is an event: %d, %v", event, more)
	case <-time.After(time.Minute):
	}
}

// noneKnown is for a client that has no change.
func noneKnown(int) bool { return false }

// A change that cannot be shown for now is shown later, although no other change follows: its source counts it as delivered.
func TestAChangeThatCannotBeShownIsTriedAgain(t *testing.T) {
	inRelay(t, noneKnown, func(r *relayed) {
		r.changes <- 1
		r.expectNothing()
		if tries := r.tries.Load(); tries < 50 || tries > 80 {
			t.Errorf("%d tries in a minute", tries)
		}
		synctest.Wait()
		if lines := strings.Count(r.log.String(), "\n"); lines != 1 {
			t.Errorf("%d lines are logged in a minute", lines)
		}
		r.fault.Store(nil)
		r.expect(1)
		r.expectNothing() // it is shown once
	})
}

// A newer change takes the place of one that could not be shown. It does not lead to a try of its own, so changes that come fast do not
// read more often.
func TestANewerChangeReplacesOneThatCannotBeShown(t *testing.T) {
	inRelay(t, noneKnown, func(r *relayed) {
		for change := range 600 {
			r.changes <- change
			<-time.After(100 * time.Millisecond)
		}
		if tries := r.tries.Load(); tries < 50 || tries > 80 {
			t.Errorf("%d tries in a minute", tries)
		}
		r.fault.Store(nil)
		r.expect(599)
		r.expectNothing()
	})
}

// A relay that waits for its next try ends with its changes and with its subscription.
func TestARelayThatCannotShowAChangeEnds(t *testing.T) {
	for name, end := range map[string]func(r *relayed){
		"changes": func(r *relayed) { close(r.changes) }, "subscription": func(r *relayed) { r.cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			inRelay(t, noneKnown, func(r *relayed) {
				r.changes <- 1
				<-time.After(10 * time.Second)
				start := time.Now()
				end(r)
				if _, more := <-r.events; more || time.Since(start) != 0 {
					t.Errorf("more events: %v; the end came after %v", more, time.Since(start))
				}
			})
		})
	}
}

// A change that the client has is skipped until an event was shown. It is skipped even after a change that could not be shown,
// because the client did not get that one.
func TestAKnownChangeIsSkippedUntilAnEventIsShown(t *testing.T) {
	inRelay(t, func(change int) bool { return change == 1 }, func(r *relayed) {
		r.changes <- 1
		r.expectNothing()
		r.changes <- 2 // cannot be shown
		r.expectNothing()
		r.changes <- 1
		r.fault.Store(nil)
		r.expectNothing()
		r.changes <- 2
		r.expect(2)
		r.changes <- 1
		r.expect(1)
	})
}

// A change whose event panics is skipped, and the log has the stack. It is not tried again, because it would panic again.
func TestAPanicSkipsAnEvent(t *testing.T) {
	inRelay(t, noneKnown, func(r *relayed) {
		panicked := services.Panicked("while it is shown")
		r.fault.Store(&panicked)
		r.changes <- 1
		r.expectNothing()
		synctest.Wait()
		if tries := r.tries.Load(); tries != 1 || !strings.Contains(r.log.String(), "while it is shown") {
			t.Errorf("%d tries in a minute; the log is %s", tries, &r.log)
		}
		r.fault.Store(nil)
		r.changes <- 2
		r.expect(2)
	})
}
