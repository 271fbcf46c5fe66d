package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"tidings/services/node"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m)) }

// A start that cannot succeed ends at once, with the exit code for the kind of the fault and a message that names the fault, the
// value and the remedy, but never a password.
func TestStartsThatCannotSucceed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	used := sqltest.SQLite(t)
	holder := world.StartServingProcess(t, "", "--database", used, "--redis", "embedded")

	unborn := filepath.Join(t.TempDir(), "unborn.db")
	for name, c := range map[string]struct {
		arguments []string
		code      int
		says      []string
	}{
		"a second process on one file": {[]string{"--database", used, "--redis", "embedded"}, 1,
			[]string{strings.TrimPrefix(used, "sqlite:"), fmt.Sprintf("in use by process %d", holder.Command.Process.Pid), "use PostgreSQL for several"}},
		"a Redis URL that is none":            {[]string{"--redis", "redis://:secret@127.0.0.1:port"}, 1, []string{"redis:// URL of Redis cannot be read"}},
		"a Redis scheme that is none":         {[]string{"--redis", "rediz://:secret@127.0.0.1:1"}, 2, []string{"--redis (REDIS_URL)", "rediz://"}},
		"a file for a folder":                 {[]string{"--data", file}, 1, []string{"--data " + file, "the folder cannot be made"}},
		"a file on the way":                   {[]string{"--database", "sqlite:" + file + "/tidings.db", "--redis", "embedded"}, 1, []string{file + "/tidings.db", "cannot be opened"}},
		"no database":                         {[]string{"--database", "sqlite:" + file, "--redis", "embedded"}, 1, []string{file, "is not a SQLite database"}},
		"no PostgreSQL there":                 {[]string{"--database", "postgres://tidings:secret@" + nobody.Addr().String() + "/tidings", "--redis", "embedded"}, 1, []string{nobody.Addr().String()}},
		"a key that is not there":             {[]string{"--jwt-public-key", file + "/key.pem", "--database", "sqlite:" + unborn, "--redis", "embedded"}, 1, []string{"--jwt-public-key (TIDINGS_JWT_PUBLIC_KEY)", file + "/key.pem"}},
		"keys that are not there":             {[]string{"--jwks", file + "/keys.json", "--database", "sqlite:" + unborn, "--redis", "embedded"}, 1, []string{"--jwks (TIDINGS_JWKS)", file + "/keys.json"}},
		"a TLS mode that is none":             {[]string{"--database", "postgres://tidings:secret@localhost/tidings?sslmode=maybe", "--redis", "embedded"}, 1, []string{"sslmode must be one of disable"}},
		"the port is taken":                   {[]string{"--listen", taken.Addr().String(), "--redis", "embedded"}, 1, []string{"--listen " + taken.Addr().String(), "in use"}},
		"the port for operators is taken":     {[]string{"--operations-listen", taken.Addr().String(), "--redis", "embedded"}, 1, []string{"--operations-listen " + taken.Addr().String(), "in use"}},
		"one address for both":                {[]string{"--listen", taken.Addr().String(), "--operations-listen", taken.Addr().String()}, 2, []string{"--operations-listen (TIDINGS_OPERATIONS_LISTEN)", "it must differ from the address of --listen"}},
		"operators everywhere in development": {[]string{"--operations-listen", ":0"}, 2, []string{"--operations-listen", `":0"`, "development mode", "--jwt-secret"}},
		"an address that is none":             {[]string{"--operations-listen", "localhost"}, 2, []string{"--operations-listen", "it must be HOST:PORT"}},
		"a flag that is none":                 {[]string{"--databse", "x"}, 2, []string{"unknown flag --databse", `did you mean "--database"?`, "tidings --help"}},
		"a value that is none":                {[]string{"--drain", "1h"}, 2, []string{"--drain (TIDINGS_DRAIN)", `"1h0m0s"`, "0s to 12s"}},
		"two faults":                          {[]string{"--drain", "x", "--workers", "0"}, 2, []string{"--drain", "--workers", `"0"`, "1 to 256"}},
		"a command that is none":              {[]string{"sevre"}, 2, []string{"unexpected argument sevre", `did you mean "serve"?`}},
		"everybody in development":            {[]string{"--listen", "0.0.0.0:0"}, 2, []string{"--listen", `"0.0.0.0:0"`, "development mode", "--jwt-secret"}},
		"a secret that is too short":          {[]string{"--jwt-secret", "hunter2"}, 2, []string{"--jwt-secret", "at least 32 bytes are needed, got 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			arguments := append([]string{"--listen", "127.0.0.1:0", "--data", t.TempDir(), "--log-level", "error"}, c.arguments...)
			p := world.LaunchProcess(t, "", arguments...)
			code, said := p.WaitExit(20*time.Second), p.Output.String()
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("it said %q, want %q in it", said, want)
				}
			}
			for _, never := range []string{"secret@", ":secret", "hunter2", "panic", "goroutine", "tidings: tidings:"} {
				if strings.Contains(said, never) {
					t.Errorf("it said %q, with %q in it", said, never)
				}
			}
		})
	}
	if _, err := os.Stat(unborn); !os.IsNotExist(err) {
		t.Errorf("a node without its key made a database: %v", err)
	}

	var data struct {
		Viewer struct{ User struct{ Key string } }
	}
	if err := world.Ask(holder.URL, "alice", `{viewer{user{key}}}`, nil, &data); err != nil || data.Viewer.User.Key != "alice" {
		t.Errorf("the first process on the file: %+v, %v", data, err)
	}
}

// SIGTERM ends an idle process with exit code 0 and frees the file and the port for the next process.
func TestCleanRestart(t *testing.T) {
	data := t.TempDir()
	address := "127.0.0.1:0"
	for range 2 {
		p := world.StartServingProcess(t, "", "--listen", address, "--data", data)
		address = strings.TrimPrefix(p.URL, "http://")
		p.Terminate()
		if code := p.WaitExit(15 * time.Second); code != 0 {
			t.Fatalf("exit code %d: %s", code, p.Output.String())
		}
	}
	leftovers, err := filepath.Glob(filepath.Join(data, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range leftovers {
		if name := filepath.Base(path); name != "tidings.db" && name != "tidings.db.lock" {
			t.Errorf("%s was left behind", path)
		}
	}
}

// A node sets GOMAXPROCS to node.SpareThreads more than the number of processors, unless the environment sets it.
func TestGOMAXPROCSIncludesSpareThreads(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	node.AddSpareThreads(func(string) string { return "3" })
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS is %d, the environment has set %d", got, before)
	}
	node.AddSpareThreads(func(string) string { return "" })
	if got := runtime.GOMAXPROCS(0); got != before+node.SpareThreads {
		t.Errorf("GOMAXPROCS is %d, want %d and %d more", got, before, node.SpareThreads)
	}
}

// The heap may grow by node.MaxGCPercent, and Go's memory limit is three quarters of the limit that the system sets, if it sets
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
		{"no limit", "", func() (uint64, error) { return 0, memlimit.ErrNoLimit }, node.MaxGCPercent, math.MaxInt64},
		{"no control group", "", func() (uint64, error) { return 0, errors.New("no control group") }, node.MaxGCPercent, math.MaxInt64},
		{"a limit", "", memlimit.Limit(100 << 20), node.MaxGCPercent, 75 << 20},
		{"GOGC is set", "50", memlimit.Limit(100 << 20), 100, 75 << 20},
	} {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
		node.TuneMemory(ctx, func(string) string { return c.gogc }, c.limit, slog.New(slog.DiscardHandler))
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
		if got := node.GCPercent(live); got != want {
			t.Errorf("%d live bytes: %d %%, want %d %%", live, got, want)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(node.MaxGCPercent))
	adapt := node.AdaptGC()
	live := make([]byte, node.SmallHeapGrowth)
	runtime.GC()
	adapt(t.Context())
	runtime.KeepAlive(live)
	if got := runtimeMetric("/gc/gogc:percent"); got != node.MinGCPercent {
		t.Errorf("with %d live bytes the heap grows by %d %%, want %d %%", len(live), got, node.MinGCPercent)
	}
}

// A rush is a second in which much memory is allocated. Memory is not given back to the system during a rush; all of it is given back
// once the rush is over, and only once. Each call of second stands for the passing of a second.
func TestIdleMemoryIsGivenBackAfterARush(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that garbage stays until it is given back
	debug.FreeOSMemory()
	frees := 0
	second := node.ReleaseIdleMemory(func() {
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
	second := node.ReleaseIdleMemory(func() {
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
