package node

import (
	"context"
	"log/slog"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"tidings/services"
)

// The heap may grow by 64 MB beyond the live heap, but at least to its double and at most to seventeen times its size.
const (
	smallHeapGrowth = 64 << 20 // bytes: how far a small heap may grow between two collections
	minGCPercent    = 100      // Go's default: the heap is collected when it has doubled
	maxGCPercent    = 1600     // a heap grows to at most seventeen times its live size

	// memoryLimitShare is Go's share of the control group's memory. SQLite's pages and a private Redis need the rest.
	memoryLimitShare = 0.75
)

// TuneMemory sets how often the heap is collected, and gives idle memory back, until ctx ends. GOGC and GOMEMLIMIT of the
// environment take precedence: with GOGC neither happens.
func TuneMemory(ctx context.Context, env func(string) string, limit memlimit.Provider, log *slog.Logger) {
	// Near the limit the heap is collected as often as it takes to stay below the limit.
	if _, err := memlimit.Set(memlimit.WithRatio(memoryLimitShare), memlimit.WithProvider(limit)); err != nil {
		log.Debug("the memory limit of this process is unknown", "error", err)
	}
	if env("GOGC") == "" {
		debug.SetGCPercent(maxGCPercent) // the heap is small at the start
		release, adapt := releaseIdleMemory(debug.FreeOSMemory), adaptGC()
		go func() {
			_ = services.Every(ctx, time.Second, func(ctx context.Context) {
				release(ctx)
				adapt(ctx) // after release, whose collection finds what is live
			})
		}()
	}
}

// adaptGC returns a function that sets the percentage of the garbage collector to gcPercent of the present live heap.
func adaptGC() func(context.Context) {
	last := maxGCPercent
	return func(context.Context) {
		// The live heap of the last collection, without garbage.
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		// Setting it stops the world for a moment, so it is set only when it changes.
		if percent := gcPercent(live[0].Value.Uint64()); percent != last {
			debug.SetGCPercent(percent)
			last = percent
		}
	}
}

// gcPercent is the growth, in percent, after which a heap of live bytes is collected. A node keeps a few MB alive and
// allocates a hundred times as much in a second under load. Go's default of 100 spends a quarter of a badge query's
// processor time on collecting so small a heap; a growth of many times its size spends a fiftieth. A large heap is collected
// rarely anyway: there the default holds, because growth by such a factor would be gigabytes.
func gcPercent(live uint64) int {
	return int(min(max(smallHeapGrowth*100/max(live, 1), minGCPercent), maxGCPercent))
}

// The rules of releaseIdleMemory.
const (
	minIdleBytes              = 16 << 20 // less idle memory is not worth a collection
	maxLiveToIdleRatio        = 4        // idle memory of less than a quarter of the live heap is not worth a collection
	minSecondsUntilReuse      = 2        // memory that will be used again sooner is not idle
	idleSecondsBeforeRelease  = 2        // seconds in a row in which worthGivingBack must hold
	minSecondsBetweenReleases = 5        // seconds between two releases, at least
	maxGCMarkedBytesPerSecond = 16 << 20 // live bytes that releases may walk a second on average: a large heap is released more rarely
)

// releaseIdleMemory returns a function that is called each second. When a rush is over, it calls free, which collects the heap and
// gives its free memory back to the system. Opening sockets leaves about as much garbage as the sockets take, and an idle node would
// keep this garbage until it has allocated as much again.
func releaseIdleMemory(free func()) func(context.Context) {
	last, quiet, rest := readHeap(), 0, 0
	return func(context.Context) {
		now := readHeap()
		rate := now.allocated - last.allocated
		last = now
		rest--
		if quiet++; !worthGivingBack(now, rate) {
			quiet = 0
		}
		if quiet < idleSecondsBeforeRelease || rest > 0 {
			return
		}
		free()
		last = readHeap() // what free itself allocated does not count
		quiet, rest = 0, max(minSecondsBetweenReleases, int(last.live/maxGCMarkedBytesPerSecond))
	}
}

// heapUse is what the runtime knows of the heap, in bytes.
type heapUse struct {
	live      uint64 // what the last collection has found alive
	idle      uint64 // memory allocated since that collection, all taken for garbage, and free memory that was not given back yet
	allocated uint64 // all that was allocated since the process began, freed memory included
}

// readHeap reads the present heapUse from the metrics of the runtime.
func readHeap() heapUse {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	live, objects, unused := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()
	return heapUse{live: live, idle: max(objects, live) - live + unused, allocated: samples[3].Value.Uint64()}
}

// worthGivingBack reports whether the idle memory of the heap is much, and would stay idle at the present rate of allocation, in
// bytes a second.
func worthGivingBack(use heapUse, rate uint64) bool {
	return use.idle >= max(minIdleBytes, use.live/maxLiveToIdleRatio, minSecondsUntilReuse*rate)
}
