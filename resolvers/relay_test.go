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

// testRelay is a subscription whose changes go through the function relay, in a bubble of package synctest. Its changes cannot be shown
// while it has a fault.
type testRelay struct {
	t              *testing.T
	changes        chan int              // what the relay gets
	events         <-chan int            // what the relay sends
	errorOfEachTry atomic.Pointer[error] // the error of each try; nil: none
	tries          atomic.Int64          // how often show was called
	log            strings.Builder       // what the relay logs
	cancel         context.CancelFunc    // ends the subscription
}

// errNoAnswer is the error of each try to show a change when a test begins.
var errNoAnswer = errors.New("the database does not answer")

// runWithRelay runs a test with a relay that begins with the fault errNoAnswer. known reports whether the client has a change.
func runWithRelay(t *testing.T, known func(int) bool, test func(r *testRelay)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &testRelay{t: t, changes: make(chan int), cancel: cancel}
		r.errorOfEachTry.Store(&errNoAnswer)
		show := func(_ context.Context, change int) (int, error) {
			r.tries.Add(1)
			if fault := r.errorOfEachTry.Load(); fault != nil {
				return 0, services.Repanic(*fault)
			}
			return change, nil
		}
		r.events = relay(ctx, cancel, slog.New(slog.NewTextHandler(&r.log, nil)), r.changes, skipChangesClientHas(known, show))
		test(r)
		cancel()
		synctest.Wait()
		if _, more := <-r.events; more {
			t.Error("an event comes after the end")
		}
	})
}

// wantEvent checks that the next event is the wanted one. It waits for as long as the pause before the next try takes at most.
func (r *testRelay) wantEvent(want int) {
	r.t.Helper()
	const within = relayRetryPause * 11 / 10
	select {
	case event := <-r.events:
		if event != want {
			r.t.Errorf("the event is %d: want %d", event, want)
		}
	case <-time.After(within):
		r.t.Errorf("no event within %v: want %d", within, want)
	}
}

// wantNoEvent checks that no event comes within a minute.
func (r *testRelay) wantNoEvent() {
	r.t.Helper()
	select {
	case event, more := <-r.events:
		r.t.Errorf("there is an event: %d, %v", event, more)
	case <-time.After(time.Minute):
	}
}

// knowsNoChange is the argument known of runWithRelay for a client that has no change yet.
func knowsNoChange(int) bool { return false }

// A change that cannot be shown for now is shown later, although no other change follows: its source counts it as delivered.
func TestAChangeThatCannotBeShownIsTriedAgain(t *testing.T) {
	runWithRelay(t, knowsNoChange, func(r *testRelay) {
		r.changes <- 1
		r.wantNoEvent()
		if tries := r.tries.Load(); tries < 50 || tries > 80 {
			t.Errorf("%d tries in a minute", tries)
		}
		synctest.Wait()
		if lines := strings.Count(r.log.String(), "\n"); lines != 1 {
			t.Errorf("%d lines are logged in a minute", lines)
		}
		r.errorOfEachTry.Store(nil)
		r.wantEvent(1)
		r.wantNoEvent() // it is shown once
	})
}

// A newer change takes the place of one that could not be shown. It does not lead to a try of its own, so changes that come fast do
// not read more often.
func TestANewerChangeReplacesOneThatCannotBeShown(t *testing.T) {
	runWithRelay(t, knowsNoChange, func(r *testRelay) {
		for change := range 600 {
			r.changes <- change
			<-time.After(100 * time.Millisecond)
		}
		if tries := r.tries.Load(); tries < 50 || tries > 80 {
			t.Errorf("%d tries in a minute", tries)
		}
		r.errorOfEachTry.Store(nil)
		r.wantEvent(599)
		r.wantNoEvent()
	})
}

// A relay that waits for its next try ends with its changes and with its subscription.
func TestARelayThatCannotShowAChangeEnds(t *testing.T) {
	for name, end := range map[string]func(r *testRelay){
		"changes": func(r *testRelay) { close(r.changes) }, "subscription": func(r *testRelay) { r.cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			runWithRelay(t, knowsNoChange, func(r *testRelay) {
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
func TestAChangeThatTheClientHasIsSkipped(t *testing.T) {
	runWithRelay(t, func(change int) bool { return change == 1 }, func(r *testRelay) {
		r.changes <- 1
		r.wantNoEvent()
		r.changes <- 2 // cannot be shown
		r.wantNoEvent()
		r.changes <- 1
		r.errorOfEachTry.Store(nil)
		r.wantNoEvent()
		r.changes <- 2
		r.wantEvent(2)
		r.changes <- 1
		r.wantEvent(1)
	})
}

// A change whose event panics is skipped, and the log has the stack. It is not tried again, because it would panic again.
func TestAChangeWhoseEventPanicsIsSkipped(t *testing.T) {
	runWithRelay(t, knowsNoChange, func(r *testRelay) {
		panicked := services.NewPanicError("while it is shown")
		r.errorOfEachTry.Store(&panicked)
		r.changes <- 1
		r.wantNoEvent()
		synctest.Wait()
		if tries := r.tries.Load(); tries != 1 || !strings.Contains(r.log.String(), "while it is shown") {
			t.Errorf("%d tries in a minute; the log is %s", tries, &r.log)
		}
		r.errorOfEachTry.Store(nil)
		r.changes <- 2
		r.wantEvent(2)
	})
}
