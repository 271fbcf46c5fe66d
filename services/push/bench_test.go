package push

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/trace"
)

// newWatchedHub is a running hub with n users, each with one watcher. version is the version of all users' documents, which the
// benchmark raises; events counts the watchers' wake-ups, and bytes is the memory that each watcher takes.
func newWatchedHub(b *testing.B, n int) (h *Hub, version *atomic.Uint64, events *atomic.Int64, bytes float64) {
	version, events = new(atomic.Uint64), new(atomic.Int64)
	version.Store(1)
	config := Config{
		DocumentVersions: func(_ context.Context, users []services.UserID) ([]uint64, error) {
			list := make([]uint64, len(users))
			for i := range list {
				list[i] = version.Load()
			}
			return list, nil
		},
		WriteLeases:  func(context.Context, []services.UserID, time.Duration) error { return nil },
		RemoveLeases: func(context.Context, []services.UserID) error { return nil },
		Render: func(_ context.Context, users []services.UserID) ([]*services.Badges, []error) {
			badges := &services.Badges{Version: services.BadgesVersion(version.Load(), 0)}
			list := make([]*services.Badges, len(users))
			for i := range list {
				list[i] = badges
			}
			return list, make([]error, len(users))
		},
		Settings: Settings{MinSendInterval: time.Nanosecond, ReconcileInterval: time.Hour},
	}
	h = New(config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		_ = h.Run(ctx)
		close(done)
	}()
	b.Cleanup(func() {
		cancel()
		<-done
	})
	return h, version, events, openAndMeasureWatchers(b, ctx, h, n, events)
}

// openAndMeasureWatchers opens n channels and returns the bytes that each takes, with the entry in its consumer's list (16 bytes)
// and without the consumer itself.
func openAndMeasureWatchers(b *testing.B, ctx context.Context, h *Hub, n int, events *atomic.Int64) float64 {
	contexts := make([]context.Context, n)
	for i := range contexts {
		contexts[i] = WithConsumer(ctx, &consumer{wake: func() { events.Add(1) }})
	}
	before := heapBytes()
	for i := range contexts {
		if _, err := h.Watch(contexts[i], services.UserID(1+i), ""); err != nil {
			b.Fatal(err)
		}
	}
	for events.Load() < int64(n) {
		runtime.Gosched()
	}
	return float64(heapBytes()-before) / float64(n)
}

// heapBytes returns the bytes that the heap and the stacks take after a garbage collection.
func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// BenchmarkEvents sends hints about 10,000 watched users, and waits until all of them have the new state. The time is the total
// for all users.
func BenchmarkEvents(b *testing.B) {
	const users = 10_000
	h, version, events, bytes := newWatchedHub(b, users)
	for b.Loop() {
		n := version.Add(1)
		want := events.Load() + users
		for user := services.UserID(1); user <= users; user++ {
			h.Hint(user, n, trace.Cause{})
		}
		for events.Load() < want {
			runtime.Gosched()
		}
	}
	b.ReportMetric(float64(b.N)*users/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(bytes, "B/watcher")
}

// BenchmarkReconciliation reconciles 10,000 watched users without any change.
func BenchmarkReconciliation(b *testing.B) {
	h, _, _, _ := newWatchedHub(b, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		if err := h.reconcile(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHint measures one hint about a watched user, and one about a user who is not watched.
func BenchmarkHint(b *testing.B) {
	h, _, _, _ := newWatchedHub(b, 10_000)
	for b.Loop() {
		h.Hint(1, 1, trace.Cause{})
		h.Hint(20_000, 5, trace.Cause{})
	}
}
