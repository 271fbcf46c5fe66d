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

// derivation is one Derive whose state is a number that the test sets.
type derivation struct {
	badges chan *services.Badges
	moved  chan struct{}
	out    chan int

	mu     sync.Mutex
	number int
	err    error
	looks  int  // how often Derive has called look
	ended  bool // Derive has returned
}

// setResult sets the result of look from now on.
func (d *derivation) setResult(number int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number, d.err = number, err
}

// derive starts a Derive on new channels.
func derive(ctx context.Context) *derivation {
	d := &derivation{badges: make(chan *services.Badges), moved: make(chan struct{}), out: make(chan int)}
	look := func(context.Context, *services.Badges) (int, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.looks++
		return d.number, d.err
	}
	go func() {
		Derive(ctx, d.out, d.badges, d.moved, look, func(a, b int) bool { return a == b })
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ended = true
	}()
	return d
}

// wantInChannel checks the value in the channel: -1 for none.
func (d *derivation) wantInChannel(t *testing.T, what string, want int) {
	t.Helper()
	synctest.Wait()
	got := -1
	select {
	case got = <-d.out:
	default:
	}
	if got != want {
		t.Errorf("%s: got %d, want %d", what, got, want)
	}
}

func TestDerive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := derive(ctx)
		d.moved <- struct{}{}
		d.wantInChannel(t, "before the first badges", -1)
		d.badges <- &services.Badges{}
		d.wantInChannel(t, "a state that is the zero value", 0)
		d.setResult(1, nil)
		d.moved <- struct{}{}
		d.wantInChannel(t, "within the gap", -1)
		pass(deriveGap)
		d.wantInChannel(t, "after it", 1)
		pass(deriveGap)
		d.badges <- &services.Badges{}
		d.wantInChannel(t, "the same again", -1)
		for number := range 10 {
			d.setResult(number, nil)
			pass(deriveGap)
			d.moved <- struct{}{}
			synctest.Wait()
		}
		d.wantInChannel(t, "to a slow consumer, the latest", 9)
		d.setResult(20, errors.New("not now"))
		pass(deriveGap)
		d.moved <- struct{}{}
		d.wantInChannel(t, "what cannot be read", -1)
		d.setResult(20, nil)
		pass(deriveGap)
		d.wantInChannel(t, "and can be after a gap", 20)
		pass(time.Minute)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.looks > 20 {
			t.Errorf("it was read %d times, though nothing happened for a minute", d.looks)
		}
	})
}

func TestDeriveEnds(t *testing.T) {
	for what, end := range map[string]func(d *derivation, cancel func()){
		"with its context": func(_ *derivation, cancel func()) { cancel() },
		"with the badges":  func(d *derivation, _ func()) { close(d.badges) },
		"when there is nothing to see": func(d *derivation, _ func()) {
			d.setResult(0, services.Errorf(services.NotFound, "gone"))
			d.moved <- struct{}{}
		},
		"and so though nobody takes a state": func(d *derivation, cancel func()) {
			d.setResult(1, nil)
			d.moved <- struct{}{}
			pass(deriveGap)
			cancel()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d := derive(ctx)
			d.badges <- &services.Badges{}
			d.wantInChannel(t, "the first", 0)
			pass(deriveGap)
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
func TestAPanicEndsDerive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.Default()
		slog.SetDefault(slog.New(slog.DiscardHandler))
		defer slog.SetDefault(log)
		badges := make(chan *services.Badges, 1)
		badges <- &services.Badges{}
		look := func(context.Context, *services.Badges) (int, error) { panic("while it looks") }
		Derive(t.Context(), make(chan int), badges, nil, look, func(a, b int) bool { return a == b })
	})
}
