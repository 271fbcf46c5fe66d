package push

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/trace"
	"tidings/tests/eventually"
)

// TestVersionsRiseUnderConcurrentUse runs everything concurrently on the real clock: writers, hints of which a third is lost,
// watchers who come and go, and short failures of Redis. The versions on each channel rise. In the end, the watchers who stayed
// show the last state.
func TestVersionsRiseUnderConcurrentUse(t *testing.T) {
	const users, stayers, rounds = 20, 60, 400
	e := newFakeBackend()
	for user := services.UserID(1); user <= users; user++ {
		e.setDocument(user, 1, 0)
	}
	config := e.config()
	config.MinSendInterval, config.ReconcileInterval, config.KeepUnwatchedFor = time.Millisecond, 5*time.Millisecond, time.Millisecond
	h := New(config)
	ctx, cancel := context.WithCancel(t.Context())
	run := make(chan error, 1)
	go func() { run <- h.Run(ctx) }()

	var last sync.Map // watcher who stays -> the value they show
	var all, passing sync.WaitGroup
	for i := range stayers {
		all.Go(func() {
			states, err := h.Watch(ctx, services.UserID(1+i%users), "")
			if err != nil {
				t.Error(err)
				return
			}
			receiveUntilClosed(t, states, func(badges *services.Badges) { last.Store(i, badges.Total.Value) })
		})
	}
	for i := range 4 {
		passing.Go(func() { watchBriefly(t, ctx, h, users, rounds, uint64(i)) })
		passing.Go(func() { writeDocuments(e, h, users, rounds, i) })
	}
	passing.Wait()
	e.withLock(func(e *fakeBackend) { e.versionsErr, e.writeLeasesErr, e.renderErr = nil, nil, nil })
	for user := services.UserID(1); user <= users; user++ {
		e.setDocument(user, 1_000_000, 1_000_000)
	}
	eventually.Holds(t, "those who stayed show the last state", func() bool {
		right := 0
		last.Range(func(_, value any) bool {
			if value == 1_000_000 {
				right++
			}
			return true
		})
		return right == stayers
	})
	eventually.Holds(t, "only those who stayed are left", func() bool {
		stats := h.Stats()
		return stats.Watchers == stayers && stats.OnlineUsers == users
	})
	cancel()
	if err := <-run; err != nil {
		t.Error(err)
	}
	all.Wait()
}

// receiveUntilClosed receives states until the channel is closed, and checks that their versions rise.
func receiveUntilClosed(t *testing.T, states <-chan *services.Badges, show func(*services.Badges)) {
	version := ""
	for badges := range states {
		if badges.Version <= version {
			t.Errorf("got version %s after %s", badges.Version, version)
		}
		version = badges.Version
		show(badges)
	}
}

// watchBriefly watches one user after another for a short while, including some who can never be rendered.
func watchBriefly(t *testing.T, ctx context.Context, h *Hub, users, rounds int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	for range rounds {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond) // some watchers get no state
		states, err := h.Watch(ctx, services.UserID(1+random.IntN(users+5)), "")
		if err != nil {
			t.Error(err)
		} else if random.IntN(2) == 0 {
			cancel() // at once, so that it hits every step of the hub
		}
		seen := 0
		receiveUntilClosed(t, states, func(*services.Badges) {
			if seen++; seen > random.IntN(3) {
				cancel()
			}
		})
		cancel()
	}
}

// writeDocuments changes documents and hints, and sometimes breaks an engine for a moment.
func writeDocuments(e *fakeBackend, h *Hub, users, rounds, writer int) {
	random := rand.New(rand.NewPCG(uint64(writer), 3))
	for range rounds {
		user := services.UserID(1 + random.IntN(users))
		var n uint64
		e.withLock(func(e *fakeBackend) {
			n = services.DocumentHalf(e.docs[user].Version) + 1
			e.docs[user] = &services.Badges{Version: services.BadgesVersion(n, 0), Total: services.Count{Value: int(n)}}
			switch random.IntN(40) {
			case 0:
				e.versionsErr, e.writeLeasesErr = errBackendUnavailable, errBackendUnavailable
			case 1:
				e.renderErr = errBackendUnavailable
			case 2, 3, 4, 5:
				e.versionsErr, e.writeLeasesErr, e.renderErr = nil, nil, nil
			}
		})
		if random.IntN(3) > 0 {
			h.Hint(user, n, trace.Cause{})
		}
		if random.IntN(50) == 0 {
			h.ReconcileAll()
		}
		<-time.After(time.Duration(random.IntN(300)) * time.Microsecond)
	}
}
