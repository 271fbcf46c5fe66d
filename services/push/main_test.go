package push

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tidings/services"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = services.Errorf(services.Unavailable, "the engine does not answer")

// engines stand in for Redis and the renderer: a document per user, and a record of the calls with their times.
type engines struct {
	mu   sync.Mutex
	docs map[services.UserID]*services.Badges
	// leased has the users who have entered and not left.
	leased      map[services.UserID]bool
	born        time.Time      // when the engines were made
	enters      []recordedCall // the calls of Enter
	leaves      []recordedCall // the calls of Leave
	versions    []recordedCall // the calls of Versions
	renders     []recordedCall // the calls of Render
	versionsErr error
	enterErr    error
	renderErr   error
	hold        func(ctx context.Context, call string) // called without the lock, before the call takes effect
}

// recordedCall is one recorded call.
type recordedCall struct {
	count int           // how many users it was about
	at    time.Duration // since the engines were made
}

func newEngines() *engines {
	return &engines{docs: map[services.UserID]*services.Badges{}, leased: map[services.UserID]bool{}, born: time.Now()}
}

// set writes a user's document: the user's half n, and a value to identify it.
func (e *engines) set(user services.UserID, n uint64, value int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.docs[user] = &services.Badges{Version: services.Version(n, 0), Total: services.NewCount(value, services.Exact, time.Time{})}
}

// share sets the shared half of every document's version, as a change of shared data does.
func (e *engines) share(stamp uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for user, document := range e.docs {
		changed := *document
		changed.Version = services.Version(services.OwnHalf(document.Version), stamp)
		e.docs[user] = &changed
	}
}

// withLock calls do under the lock.
func (e *engines) withLock(do func(e *engines)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do(e)
}

// calls returns the recorded calls.
func (e *engines) calls(list *[]recordedCall) []recordedCall {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(*list)
}

// begin begins a call of one of Config's functions: it runs hold, and then takes the lock, which the caller releases.
func (e *engines) begin(ctx context.Context, call string) {
	e.mu.Lock()
	hold := e.hold
	e.mu.Unlock()
	if hold != nil {
		hold(ctx, call)
	}
	e.mu.Lock()
}

// note records a call.
func (e *engines) note(list *[]recordedCall, users []services.UserID) {
	*list = append(*list, recordedCall{len(users), time.Since(e.born)})
}

// config makes a Config whose functions are these engines.
func (e *engines) config() Config {
	return Config{
		Versions: func(ctx context.Context, users []services.UserID) ([]uint64, error) {
			e.begin(ctx, "versions")
			defer e.mu.Unlock()
			e.note(&e.versions, users)
			if err := errors.Join(e.versionsErr, ctx.Err()); err != nil {
				return nil, err
			}
			list := make([]uint64, len(users))
			for i, user := range users {
				if doc := e.docs[user]; doc != nil {
					list[i] = services.OwnHalf(doc.Version)
				}
			}
			return list, nil
		},
		Enter: func(ctx context.Context, users []services.UserID, _ time.Duration) error {
			e.begin(ctx, "enter")
			defer e.mu.Unlock()
			e.note(&e.enters, users)
			if err := errors.Join(e.enterErr, ctx.Err()); err != nil {
				return err
			}
			for _, user := range users {
				e.leased[user] = true
			}
			return nil
		},
		Leave: func(ctx context.Context, users []services.UserID) error {
			e.begin(ctx, "leave")
			defer e.mu.Unlock()
			e.note(&e.leaves, users)
			for _, user := range users {
				delete(e.leased, user)
			}
			return ctx.Err()
		},
		Render: func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error) {
			e.begin(ctx, "render")
			defer e.mu.Unlock()
			e.note(&e.renders, users)
			list, errs := make([]*services.Badges, len(users)), make([]error, len(users))
			for i, user := range users {
				list[i], errs[i] = e.docs[user], e.renderErr
			}
			return list, errs
		},
	}
}

// holdUp sets a function to run before each call; nil removes it.
func (e *engines) holdUp(hold func(ctx context.Context, call string)) {
	e.withLock(func(e *engines) { e.hold = hold })
}

// withHub runs a hub during a test and then ends it. It is called in a bubble of synctest, whose time passes only when all
// goroutines wait.
func withHub(t *testing.T, e *engines, config Config, test func(h *Hub)) {
	t.Helper()
	e.born = time.Now()
	h := New(config)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	synctest.Wait()
	test(h)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run ended with %v", err)
	}
}

// pass advances time and waits for all effects.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func mustWatch(t *testing.T, h *Hub, user services.UserID, since string) <-chan *services.Badges {
	t.Helper()
	states, err := h.Watch(t.Context(), user, since)
	if err != nil {
		t.Fatalf("Watch(%d, %q): %v", user, since, err)
	}
	return states
}

// take takes the value out of a channel. It returns -1 if the channel is empty, -2 if it is closed.
func take(states <-chan *services.Badges) int {
	select {
	case badges, open := <-states:
		if !open {
			return -2
		}
		return badges.Total.Value
	default:
		return -1
	}
}

func wantTaken(t *testing.T, states <-chan *services.Badges, want int, when string) {
	t.Helper()
	if got := take(states); got != want {
		t.Errorf("%s: got %d, want %d (-1 empty, -2 closed)", when, got, want)
	}
}
