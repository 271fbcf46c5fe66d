// Package clienttest gives tests Clients of the engine, on the servers of redistest, and checks the scripts that a package
// embeds.
package clienttest

import (
	"io"
	"io/fs"
	"log/slog"
	"path"
	"strings"
	"testing"
	"time"

	"tidings/services/redis"
	"tidings/services/redis/redistest"
	"tidings/tests/eventually"
)

// LongReadTimeout is a read timeout that is long enough even on a machine under heavy load.
const LongReadTimeout = 10 * time.Second

// OpenBy opens a Client, or a value built on one, that the test's end closes. It retries for up to LongReadTimeout: a busy machine
// may miss a short ReadTimeout.
func OpenBy[C io.Closer](tb testing.TB, options redis.Options, open func(redis.Options) (C, error)) (c C) {
	tb.Helper()
	options = withDefaults(tb, options)
	eventually.Succeeds(tb, LongReadTimeout, "open "+options.URL, func() (err error) {
		c, err = open(options)
		return err
	})
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return c
}

// withDefaults completes the options of a test: a log that is discarded, and a data folder that goes with the test.
func withDefaults(tb testing.TB, options redis.Options) redis.Options {
	tb.Helper()
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.DataDir == "" {
		options.DataDir = tb.TempDir()
	}
	return options
}

// Open opens a Client that the test's end closes.
func Open(tb testing.TB, options redis.Options) *redis.Client {
	tb.Helper()
	return OpenBy(tb, options, func(options redis.Options) (*redis.Client, error) { return redis.Open(tb.Context(), options) })
}

// EachRedis runs a test with an empty Redis of each kind: embedded, one server, and a cluster.
func EachRedis(t *testing.T, run func(t *testing.T, c *redis.Client)) {
	t.Helper()
	redistest.EachRedis(t, func(t *testing.T, url string) { run(t, Open(t, redis.Options{URL: url, ReadTimeout: LongReadTimeout})) })
}

// EveryScriptIsLoaded fails the test if a script of files is not loaded, if its source is not the engine's library followed by
// whole parts and the script itself, or if a part is in no script. Parts are the files whose name begins with "lib"; before them may
// stand the engine's part for capped lists.
func EveryScriptIsLoaded(t *testing.T, files fs.FS) {
	t.Helper()
	paths, err := fs.Glob(files, "lua/*.lua")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no scripts: %v", err)
	}
	sources, parts, used := map[string]string{}, map[string]string{}, map[string]bool{}
	for _, script := range redis.Scripts() {
		sources[script.Name] = script.Source
	}
	texts := map[string]string{}
	for _, file := range paths {
		text, err := fs.ReadFile(files, file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(path.Base(file), ".lua")
		if strings.HasPrefix(name, "lib") {
			parts[name] = string(text) + "\n"
		} else {
			texts[name] = string(text) + "\n"
		}
	}
	libraries, cappedList := map[string]bool{}, redis.ScriptFiles{FS: files}.FileText(redis.CappedListPart)
	// A source is the engine's library, parts and the script. So without the script and the parts all sources leave the same text.
	for name, text := range texts {
		rest, whole := strings.CutSuffix(sources[name], text)
		if !whole {
			t.Errorf("the script %s is not loaded", name)
			continue
		}
		for found := true; found; {
			found = false
			for part, text := range parts {
				if before, cut := strings.CutSuffix(rest, text); cut {
					rest, found, used[part] = before, true, true
				}
			}
		}
		libraries[strings.TrimSuffix(rest, cappedList)] = true
	}
	if len(libraries) != 1 {
		t.Errorf("there are %d texts before parts and scripts, want the engine's library alone", len(libraries))
	}
	for part := range parts {
		if !used[part] {
			t.Errorf("no script has the part %s", part)
		}
	}
}
