package node

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The heap may grow by maxGCPercent, and Go's memory limit is three quarters of the limit that the system sets, if it sets
// one. If GOGC is in the environment, the program does not change how much the heap may grow.
func TestMemoryIsTunedWithinTheLimit(t *testing.T) {
	defer debug.SetGCPercent(100)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for _, name := range []string{"GOMEMLIMIT", "AUTOMEMLIMIT"} { // both would override the limit
		t.Setenv(name, "") // so that the test's end restores it
		_ = os.Unsetenv(name)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, c := range []struct {
		name    string
		gogc    string
		limit   memlimit.Provider
		percent uint64
		most    int64
	}{
		{"no limit", "", func() (uint64, error) { return 0, memlimit.ErrNoLimit }, maxGCPercent, math.MaxInt64},
		{"no control group", "", func() (uint64, error) { return 0, errors.New("no control group") }, maxGCPercent, math.MaxInt64},
		{"a limit", "", memlimit.Limit(100 << 20), maxGCPercent, 75 << 20},
		{"GOGC is set", "50", memlimit.Limit(100 << 20), 100, 75 << 20},
	} {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
		TuneMemory(ctx, func(string) string { return c.gogc }, c.limit, slog.New(slog.DiscardHandler))
		if got := runtimeMetric("/gc/gogc:percent"); got != c.percent {
			t.Errorf("%s: the heap grows by %d %%, want %d %%", c.name, got, c.percent)
		}
		if got := debug.SetMemoryLimit(-1); got != c.most {
			t.Errorf("%s: the memory limit is %d, want %d", c.name, got, c.most)
		}
	}
}

// A heap with few live bytes may grow to many times its size before it is collected, a large one only to its double.
func TestGCPercentFallsAsTheHeapGrows(t *testing.T) {
	for live, want := range map[uint64]int{0: 1600, 3 << 20: 1600, 8 << 20: 800, 16 << 20: 400, 32 << 20: 200, 64 << 20: 100, 4 << 30: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d live bytes: %d %%, want %d %%", live, got, want)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(maxGCPercent))
	adapt := adaptGC()
	live := make([]byte, smallHeapGrowth)
	runtime.GC()
	adapt(t.Context())
	runtime.KeepAlive(live)
	if got := runtimeMetric("/gc/gogc:percent"); got != minGCPercent {
		t.Errorf("with %d live bytes the heap grows by %d %%, want %d %%", len(live), got, minGCPercent)
	}
}

// A rush is a second in which much memory is allocated. Memory is not given back to the system during a rush; all of it is given back
// once the rush is over, and only once. Each call of second stands for the passing of a second.
func TestIdleMemoryIsGivenBackAfterARush(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that garbage stays until it is given back
	debug.FreeOSMemory()
	frees := 0
	second := releaseIdleMemory(func() {
		frees++
		debug.FreeOSMemory()
	})
	expect := func(when string, want int) {
		t.Helper()
		second(t.Context())
		if frees != want {
			t.Fatalf("%s memory was given back %d times, want %d", when, frees, want)
		}
	}
	expect("at rest", 0)
	makeGarbage(8 << 20)
	expect("after a little work", 0)
	for range 10 {
		expect("some time later", 0) // the garbage is too little to be worth a collection
	}
	makeGarbage(40 << 20)
	expect("in the second of a rush", 0)
	idle := runtimeMetric("/memory/classes/heap/objects:bytes")
	expect("a second after it", 0)
	makeGarbage(60 << 20)
	expect("in the second of another rush", 0) // it restarts the count of quiet seconds
	expect("a second after that", 0)
	expect("two seconds after that", 1)
	if left := runtimeMetric("/memory/classes/heap/objects:bytes") + runtimeMetric("/memory/classes/heap/free:bytes"); left > idle-40<<20 {
		t.Errorf("%d bytes of the heap are left of %d, of which 48 MB were garbage", left, idle)
	}
	makeGarbage(40 << 20)
	for range 4 {
		expect("soon after it was given back", 1)
	}
	expect("5 seconds after it was given back", 2)
	for range 30 {
		expect("at rest", 2)
	}
}

// To give memory back to the system, the node collects garbage, which reads the whole live heap. So with a large heap it gives memory
// back only once the idle memory is a quarter of the live heap, and again only after a time that grows with the size of the live heap.
func TestALargeHeapIsNotGivenBackOften(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	live := make([]byte, 160<<20)
	debug.FreeOSMemory()
	frees := 0
	second := releaseIdleMemory(func() {
		frees++
		debug.FreeOSMemory()
	})
	makeGarbage(30 << 20)
	for range 5 {
		second(t.Context())
	}
	if frees != 0 {
		t.Errorf("30 MB beside 160 MB alive were given back")
	}
	for rush := range 2 {
		makeGarbage(50 << 20)
		second(t.Context())
		waited := 0
		for ; frees == rush && waited < 60; waited++ {
			second(t.Context())
		}
		// The live heap is 160 MB, or more if other tests have left data: a second for each 16 MB of it makes 10 s or more. The second
		// in which the rush happened counts too.
		if least := []int{2, int(runtimeMetric("/gc/heap/live:bytes")>>24) - 1}[rush]; frees != rush+1 || waited < least || waited > least+1 {
			t.Errorf("after rush %d memory was given back %d times, the last time after %d s; want one after %d s", rush+1, frees, waited, least)
		}
	}
	runtime.KeepAlive(live)
}

// makeGarbage allocates this many bytes and keeps none of them.
func makeGarbage(size int) {
	for range size >> 16 {
		lastGarbageBlock = make([]byte, 1<<16)
	}
	lastGarbageBlock = nil
}

// lastGarbageBlock holds the last block that makeGarbage made. As a global variable it keeps the compiler from removing the
// allocation.
var lastGarbageBlock []byte

// runtimeMetric reads a metric of Go's runtime, such as /gc/gogc:percent.
func runtimeMetric(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
