package main

import (
	"context"
	"io/fs"
	"math"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/services"
)

// spare is by how much GOMAXPROCS exceeds the processors there are.
const spare = 4

// spareProcessors lets more goroutines run than there are processors, unless GOMAXPROCS says how many. A goroutine that
// computes, as SQLite does inside of this process, is interrupted by Go after 10 ms, and whoever asks for his badges
// meanwhile waits for that at each step. Threads are divided by the kernel, which lets those first who have just woken up:
// beside a rush of likes a badge query takes 2 to 3 times less (go run ./bench --only recipient).
func spareProcessors(env func(string) string) {
	if env("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spare)
	}
}

// ballastBytes is by how much the heap may grow between two collections while less than that is alive.
const ballastBytes = 64 << 20

// ballast is never touched: it is address space, not memory, and the collector counts it as alive.
var ballast []byte

// collectSeldom keeps a small heap from being collected all the time, unless GOGC or GOMEMLIMIT say when it is. A few MB of
// a node are alive, and under load it makes a hundred times as much in a second: collected whenever that has doubled, as is
// Go's habit, a badge query takes half as much processor time again (go run ./bench --only badge, beside GOGC=100). The
// price is resident memory, about ballastBytes: who has room for so little that it might end him there does without.
func collectSeldom(env func(string) string, room uint64) {
	if env("GOGC") == "" && env("GOMEMLIMIT") == "" && room >= 8*ballastBytes {
		ballast = make([]byte, ballastBytes)
	}
}

// memoryRoom is how much memory Linux gives this process: the least limit of its control group, of either version, and of those
// above it; without any, as elsewhere, the greatest number. In a container the path is the host's and the limit at the root.
func memoryRoom(files fs.FS) (least uint64) {
	least = math.MaxUint64
	groups, _ := fs.ReadFile(files, "proc/self/cgroup") // not there: the root is looked at
	for _, line := range append(strings.Split(string(groups), "\n"), "0::/", "0:memory:/") {
		parts := strings.SplitN(line, ":", 3) // number, controllers, path
		if len(parts) < 3 {
			continue
		}
		folder, name := "sys/fs/cgroup", "memory.max"
		if slices.Contains(strings.Split(parts[1], ","), "memory") {
			folder, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			text, _ := fs.ReadFile(files, path.Join(folder, at, name))
			if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
				least = min(least, limit)
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// watchBallast throws the ballast off once half as much besides it is alive. It is not taken up again: the address space might be
// memory by then.
func watchBallast(ctx context.Context) error {
	return services.AtEach(ctx, time.Second, func(context.Context) {
		if ballast != nil && aliveBytes() > ballastBytes+ballastBytes/2 {
			ballast = nil
			debug.FreeOSMemory() // what was garbage for longer than it need be
		}
	})
}

// aliveBytes is what the last collection found alive, ballast and all.
func aliveBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
