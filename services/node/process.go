package node

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"tidings/services"
)

// Spare is how many threads run Go code beyond one for each processor.
const Spare = 4

// SpareProcessors adds the spare threads, unless GOMAXPROCS is set. One for each processor is Go's default, so why more? SQLite
// computes inside this process, and Go takes a goroutine that computes off its thread only after 10 ms. When writes hold all
// threads, a badge query waits that long at each of its steps. With spare threads the kernel divides the processors, and it
// prefers a thread that has just woken up, as that of a query has. Beside a rush of likes on two processors the slowest
// hundredth of badge queries takes 7 to 18 ms with them, and 12 to 60 ms without (go run ./bench --only recipient, beside
// GOMAXPROCS=2).
func SpareProcessors(env func(string) string) {
	if env("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + Spare)
	}
}

// The heap may grow by 64 MB beyond what lives, but at least to its double and at most to seventeen times its size.
const (
	Growth     = 64 << 20 // bytes: how far a small heap may grow between two collections
	MinPercent = 100      // as Go does without us: the heap is collected when it has doubled
	MaxPercent = 1600

	// limitShare is Go's share of the control group's memory. SQLite's pages and a private Redis need the rest.
	limitShare = 0.75
)

// TuneMemory sets how often the heap is collected, until ctx ends. GOGC and GOMEMLIMIT of the environment take precedence.
func TuneMemory(ctx context.Context, env func(string) string, limit memlimit.Provider, log *slog.Logger) {
	// Near the limit the heap is collected as often as it takes to stay below it.
	if _, err := memlimit.Set(memlimit.WithRatio(limitShare), memlimit.WithProvider(limit)); err != nil {
		log.Debug("the memory limit of this process is unknown", "error", err)
	}
	if env("GOGC") == "" {
		debug.SetGCPercent(MaxPercent) // the heap is small at the start
		go func() { _ = services.Every(ctx, time.Second, AdaptGC()) }()
	}
}

// AdaptGC returns a function that sets the percentage for the present size of the live heap.
func AdaptGC() func(context.Context) {
	last := MaxPercent
	return func(context.Context) {
		// The live heap of the last collection, without garbage.
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		// Setting it stops the world for a moment, so it is set only when it changes.
		if percent := GcPercent(live[0].Value.Uint64()); percent != last {
			debug.SetGCPercent(percent)
			last = percent
		}
	}
}

// GcPercent is the growth, in percent, after which a heap of live bytes is collected. A node keeps a few MB alive and
// allocates a hundred times as much in a second under load. Go's default of 100 spends a quarter of a badge query's
// processor time on collecting so small a heap; a growth of many times its size spends a fiftieth. A large heap is collected
// rarely anyway: there the default holds, because growth by such a factor would be gigabytes.
func GcPercent(live uint64) int {
	return int(min(max(Growth*100/max(live, 1), MinPercent), MaxPercent))
}
