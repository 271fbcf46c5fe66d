package redis

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/services/redis/redistest"
	"tidings/tests/eventually"
)

// parentProcessFolderEnv is an environment variable with a data folder. With it the test binary only opens a private server there, so
// that a test can kill this parent of the server.
const parentProcessFolderEnv = "REDIS_TEST_PARENT_FOLDER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(parentProcessFolderEnv); folder != "" {
		runAsParentProcess(folder)
	}
	// After many failed dials go-redis retries each second, and notices only then that its pool is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// runAsParentProcess opens a private server, prints its process id and waits to be killed.
func runAsParentProcess(folder string) {
	c, err := Open(context.Background(), Options{URL: "private", DataDir: folder})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(privateServerProcess(c).Pid)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// privateServerProcess is the running redis-server of a Client.
func privateServerProcess(c *Client) *os.Process {
	server := c.localServer.(*privateServer)
	server.mu.Lock()
	defer server.mu.Unlock()
	return server.process
}

// connect opens a Client for a test and closes it with the test.
func connect(t *testing.T, options Options) *Client {
	t.Helper()
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.DataDir == "" {
		options.DataDir = t.TempDir()
	}
	var c *Client
	// A busy machine may miss a short ReadTimeout.
	eventually.Succeeds(t, 20*time.Second, "open "+options.URL, func() (err error) {
		c, err = Open(t.Context(), options)
		return err
	})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// eachRedisMode runs a test for every mode that Open knows.
func eachRedisMode(t *testing.T, run func(t *testing.T, mode, url string)) {
	t.Run("private", func(t *testing.T) { run(t, "private", "private") })
	t.Run("embedded", func(t *testing.T) { run(t, "embedded", "embedded") })
	t.Run("single", func(t *testing.T) { run(t, "single", redistest.Redis(t)) })
	t.Run("sentinel", func(t *testing.T) { run(t, "sentinel", redistest.Sentinel(t)) })
	t.Run("cluster", func(t *testing.T) { run(t, "cluster", redistest.Cluster(t)) })
}

// These scripts of the tests are registered, as those of an importing package are.
var (
	firstScript  = registerScript("test_first", "return 1")
	secondScript = registerScript("test_second", "return ", "2")
)

// init registers settings as an importing package does.
func init() {
	RegisterListpacks("full lists take four times the memory",
		ListpackSetting{Name: "zset-max-listpack-entries", OldName: "zset-max-ziplist-entries", MinValue: 512},
		ListpackSetting{Name: "hash-max-listpack-value", OldName: "hash-max-ziplist-value", MinValue: 1200})
}

// These scripts of the tests are not registered. Each may be repeated, as all scripts may.
var (
	// setScript writes a value and returns it.
	setScript = NewScript("set", "redis.call('SET', KEYS[1], ARGV[1]) return ARGV[1]")
	// addMemberScript adds a member to a set and returns whether it was new.
	addMemberScript = NewScript("member", "return redis.call('SADD', KEYS[1], ARGV[1])")
	// nothingScript returns nothing.
	nothingScript = NewScript("nothing", "return false")
	// brokenScript fails.
	brokenScript = NewScript("broken", "return redis.error_reply('ERR no ' .. KEYS[1])")
)

// addMemberCalls are calls of addMemberScript: n of them, over as many keys as there are tags.
func addMemberCalls(n, tags int) []ScriptCall {
	calls := make([]ScriptCall, n)
	for i := range calls {
		calls[i] = ScriptCall{Keys: []string{fmt.Sprintf("{u%d}:set", i%tags)}, Args: []any{i}}
	}
	return calls
}

// countMembers counts the members that the calls of addMemberCalls have added to their sets so far.
func countMembers(t *testing.T, c *Client, tags int) int {
	t.Helper()
	total := 0
	for i := range tags {
		n, err := c.Commands().SCard(t.Context(), fmt.Sprintf("{u%d}:set", i)).Result()
		if err != nil {
			t.Fatal(err)
		}
		total += int(n)
	}
	return total
}
