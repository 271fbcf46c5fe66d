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

// errBackendUnavailable is what a test's functions of Config return while an engine does not answer.
var errBackendUnavailable = services.Errorf(services.Unavailable, "the engine does not answer")

// fakeBackend stands in for Redis and the renderer: a document per user, and a record of the calls with their times.
type fakeBackend struct {
	mu   sync.Mutex                           // guards the fields below
	docs map[services.UserID]*services.Badges // each user's document: the badges that Render returns
	// leasedUsers has the users whose leases are written and not removed.
	leasedUsers       map[services.UserID]bool
	madeAt            time.Time                              // when the backend was made
	writeLeasesCalls  []recordedCall                         // the calls of WriteLeases
	removeLeasesCalls []recordedCall                         // the calls of RemoveLeases
	versionsCalls     []recordedCall                         // the calls of DocumentVersions
	renderCalls       []recordedCall                         // the calls of Render
	versionsErr       error                                  // what DocumentVersions fails with; nil: it works
	writeLeasesErr    error                                  // what WriteLeases fails with; nil: it works
	renderErr         error                                  // the error of each user in Render
	beforeCall        func(ctx context.Context, call string) // called without the lock, before the call takes effect
}

// recordedCall is one call of a function of fakeBackend.
type recordedCall struct {
	userCount        int           // how many users it was about
	sinceBackendMade time.Duration // since the backend was made
}

func newFakeBackend() *fakeBackend {
	return &fakeBackend{docs: map[services.UserID]*services.Badges{}, leasedUsers: map[services.UserID]bool{}, madeAt: time.Now()}
}

// setDocument writes a user's document: the document half of its version is n, and value is its total, which identifies it.
func (e *fakeBackend) setDocument(user services.UserID, n uint64, value int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.docs[user] = &services.Badges{Version: services.BadgesVersion(n, 0), Total: services.NewCount(value, services.Exact, time.Time{})}
}

// setSharedVersion sets the shared half of every document's version, as a change of shared data does.
func (e *fakeBackend) setSharedVersion(stamp uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for user, document := range e.docs {
		changed := *document
		changed.Version = services.BadgesVersion(services.DocumentHalf(document.Version), stamp)
		e.docs[user] = &changed
	}
}

// withLock calls do under the lock.
func (e *fakeBackend) withLock(do func(e *fakeBackend)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do(e)
}

// copyCalls returns a copy of one of the lists of recorded calls, such as &e.renderCalls.
func (e *fakeBackend) copyCalls(list *[]recordedCall) []recordedCall {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(*list)
}

// beginCall begins a call of one of Config's functions: it runs beforeCall, and then takes the lock, which the caller releases.
func (e *fakeBackend) beginCall(ctx context.Context, call string) {
	e.mu.Lock()
	hold := e.beforeCall
	e.mu.Unlock()
	if hold != nil {
		hold(ctx, call)
	}
	e.mu.Lock()
}

// recordCall appends a call to one of the lists of recorded calls. The lock is held.
func (e *fakeBackend) recordCall(list *[]recordedCall, users []services.UserID) {
	*list = append(*list, recordedCall{len(users), time.Since(e.madeAt)})
}

// config makes a Config with the backend's functions.
func (e *fakeBackend) config() Config {
	return Config{
		DocumentVersions: func(ctx context.Context, users []services.UserID) ([]uint64, error) {
			e.beginCall(ctx, "DocumentVersions")
			defer e.mu.Unlock()
			e.recordCall(&e.versionsCalls, users)
			if err := errors.Join(e.versionsErr, ctx.Err()); err != nil {
				return nil, err
			}
			list := make([]uint64, len(users))
			for i, user := range users {
				if doc := e.docs[user]; doc != nil {
					list[i] = services.DocumentHalf(doc.Version)
				}
			}
			return list, nil
		},
		WriteLeases: func(ctx context.Context, users []services.UserID, _ time.Duration) error {
			e.beginCall(ctx, "WriteLeases")
			defer e.mu.Unlock()
			e.recordCall(&e.writeLeasesCalls, users)
			if err := errors.Join(e.writeLeasesErr, ctx.Err()); err != nil {
				return err
			}
			for _, user := range users {
				e.leasedUsers[user] = true
			}
			return nil
		},
		RemoveLeases: func(ctx context.Context, users []services.UserID) error {
			e.beginCall(ctx, "RemoveLeases")
			defer e.mu.Unlock()
			e.recordCall(&e.removeLeasesCalls, users)
			for _, user := range users {
				delete(e.leasedUsers, user)
			}
			return ctx.Err()
		},
		Render: func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error) {
			e.beginCall(ctx, "Render")
			defer e.mu.Unlock()
			e.recordCall(&e.renderCalls, users)
			list, errs := make([]*services.Badges, len(users)), make([]error, len(users))
			for i, user := range users {
				list[i], errs[i] = e.docs[user], e.renderErr
			}
			return list, errs
		},
	}
}

// setBeforeCall sets a function to run before each call; nil removes it.
func (e *fakeBackend) setBeforeCall(hold func(ctx context.Context, call string)) {
	e.withLock(func(e *fakeBackend) { e.beforeCall = hold })
}

// withHub runs a hub during a test and then ends it. It is called in a bubble of synctest, whose time passes only when all
// goroutines wait.
func withHub(t *testing.T, e *fakeBackend, config Config, test func(h *Hub)) {
	t.Helper()
	e.madeAt = time.Now()
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

// passTime advances the time of the test's synctest bubble, and waits until the effects are over.
func passTime(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// mustWatch opens a watch of a user for the rest of the test, and returns its channel.
func mustWatch(t *testing.T, h *Hub, user services.UserID, since string) <-chan *services.Badges {
	t.Helper()
	states, err := h.Watch(t.Context(), user, since)
	if err != nil {
		t.Fatalf("Watch(%d, %q): %v", user, since, err)
	}
	return states
}

// takeTotal takes the state out of a channel and returns its total, -1 if the channel is empty, or -2 if it is closed.
func takeTotal(states <-chan *services.Badges) int {
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

// wantTotal checks what takeTotal returns: the total of the state in the channel, -1 for none, -2 for a closed channel.
func wantTotal(t *testing.T, states <-chan *services.Badges, want int, when string) {
	t.Helper()
	if got := takeTotal(states); got != want {
		t.Errorf("%s: got %d, want %d (-1 empty, -2 closed)", when, got, want)
	}
}
