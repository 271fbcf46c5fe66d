package push

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
)

// derivedStream is one call of SendDerivedStates, whose state is a number that the test sets.
type derivedStream struct {
	badges            chan *services.Badges // the first input of SendDerivedStates
	otherInputChanged chan struct{}         // a token says that the other input has changed
	states            chan int              // the output

	mu             sync.Mutex // guards the fields below
	nextState      int        // what the function look returns, with nextErr
	nextErr        error
	stateFuncCalls int  // how often SendDerivedStates has called look
	ended          bool // SendDerivedStates has returned
}

// setNextState sets what the function look of SendDerivedStates returns from now on.
func (d *derivedStream) setNextState(number int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nextState, d.nextErr = number, err
}

// startDerivedStream starts SendDerivedStates on new channels.
func startDerivedStream(ctx context.Context) *derivedStream {
	d := &derivedStream{badges: make(chan *services.Badges), otherInputChanged: make(chan struct{}), states: make(chan int)}
	look := func(context.Context, *services.Badges) (int, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stateFuncCalls++
		return d.nextState, d.nextErr
	}
	go func() {
		SendDerivedStates(ctx, d.states, d.badges, d.otherInputChanged, look, func(a, b int) bool { return a == b })
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ended = true
	}()
	return d
}

// wantState checks which state waits in d.states: -1 for none.
func (d *derivedStream) wantState(t *testing.T, what string, want int) {
	t.Helper()
	synctest.Wait()
	got := -1
	select {
	case got = <-d.states:
	default:
	}
	if got != want {
		t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

func TestSendDerivedStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := startDerivedStream(ctx)
		d.otherInputChanged <- struct{}{}
		d.wantState(t, "before the first badges", -1)
		d.badges <- &services.Badges{}
		d.wantState(t, "a state that is the zero value", 0)
		d.setNextState(1, nil)
		d.otherInputChanged <- struct{}{}
		d.wantState(t, "within the gap", -1)
		passTime(minDeriveInterval)
		d.wantState(t, "after it", 1)
		passTime(minDeriveInterval)
		d.badges <- &services.Badges{}
		d.wantState(t, "the same again", -1)
		for number := range 10 {
			d.setNextState(number, nil)
			passTime(minDeriveInterval)
			d.otherInputChanged <- struct{}{}
			synctest.Wait()
		}
		d.wantState(t, "to a slow consumer, the latest", 9)
		d.setNextState(20, errors.New("not now"))
		passTime(minDeriveInterval)
		d.otherInputChanged <- struct{}{}
		d.wantState(t, "what cannot be read", -1)
		d.setNextState(20, nil)
		passTime(minDeriveInterval)
		d.wantState(t, "and can be after a gap", 20)
		passTime(time.Minute)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.stateFuncCalls > 20 {
			t.Errorf("it was read %d times, though nothing happened for a minute", d.stateFuncCalls)
		}
	})
}

func TestSendDerivedStatesEnds(t *testing.T) {
	for what, end := range map[string]func(d *derivedStream, cancel func()){
		"with its context": func(_ *derivedStream, cancel func()) { cancel() },
		"with the badges":  func(d *derivedStream, _ func()) { close(d.badges) },
		"when there is nothing to see": func(d *derivedStream, _ func()) {
			d.setNextState(0, services.Errorf(services.NotFound, "gone"))
			d.otherInputChanged <- struct{}{}
		},
		"and so though nobody takes a state": func(d *derivedStream, cancel func()) {
			d.setNextState(1, nil)
			d.otherInputChanged <- struct{}{}
			passTime(minDeriveInterval)
			cancel()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d := startDerivedStream(ctx)
			d.badges <- &services.Badges{}
			d.wantState(t, "the first", 0)
			passTime(minDeriveInterval)
			end(d, cancel)
			synctest.Wait()
			d.mu.Lock()
			defer d.mu.Unlock()
			if !d.ended {
				t.Errorf("it does not end %s", what)
			}
		})
	}
}

// A panic of look ends its subscription and not the process.
func TestAPanicEndsSendDerivedStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.Default()
		slog.SetDefault(slog.New(slog.DiscardHandler))
		defer slog.SetDefault(log)
		badges := make(chan *services.Badges, 1)
		badges <- &services.Badges{}
		look := func(context.Context, *services.Badges) (int, error) { panic("while it looks") }
		SendDerivedStates(t.Context(), make(chan int), badges, nil, look, func(a, b int) bool { return a == b })
	})
}
