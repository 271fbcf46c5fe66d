package rdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"tidings/services"
	"tidings/services/rdb/rdbtest"
)

func TestRepliesStandInTheOrderOfTheirCalls(t *testing.T) {
	rdbtest.Each(t, func(t *testing.T, url string) {
		c := connect(t, Options{URL: url})
		calls := make([]call, 1203)
		for i := range calls {
			calls[i] = call{keys: []string{fmt.Sprintf("{u%d}", i%7)}, args: []any{i}}
		}
		replies, err := c.runScript(t.Context(), setScript, calls)
		if err != nil || len(replies) != len(calls) {
			t.Fatalf("%d replies, %v", len(replies), err)
		}
		for i, r := range replies {
			if r.err != nil || r.value != fmt.Sprint(i) {
				t.Fatalf("reply %d = %v, %v", i, r.value, r.err)
			}
		}
	})
}

func TestNoCallsAreNoRoundTrip(t *testing.T) {
	c := connect(t, Options{URL: "embedded"})
	ctx, trips := WithRoundTrips(t.Context())
	replies, err := c.runScript(ctx, setScript, nil)
	if len(replies) != 0 || err != nil || trips.Count() != 0 {
		t.Errorf("%v, %v, %d round trips", replies, err, trips.Count())
	}
}

func TestACallsOwnErrorStandsInItsReply(t *testing.T) {
	rdbtest.Each(t, func(t *testing.T, url string) {
		c := connect(t, Options{URL: url})
		if err := c.rds().LPush(t.Context(), "{u1}:set", "not a set").Err(); err != nil {
			t.Fatal(err)
		}
		replies, err := c.runScript(t.Context(), memberScript, members(4, 2)) // 1 and 3 meet the list
		if err != nil {
			t.Fatalf("the error is for a Redis that is away: %v", err)
		}
		for i, r := range replies {
			if wrong := i%2 == 1; wrong != (r.err != nil) {
				t.Errorf("reply %d = %v, %v", i, r.value, r.err)
			} else if wrong && (services.IsUnavailable(r.err) || !strings.Contains(r.err.Error(), "WRONGTYPE")) {
				t.Errorf("reply %d: error %v, want WRONGTYPE as it is", i, r.err)
			}
		}
		replies, err = c.runScript(t.Context(), brokenScript, []call{{keys: []string{"luck"}}})
		if err != nil || replies[0].err == nil || !strings.Contains(replies[0].err.Error(), "no luck") {
			t.Errorf("a script's own error: %v, %v", replies, err)
		}
		replies, err = c.runScript(t.Context(), nothingScript, []call{{keys: []string{"k"}}})
		if err != nil || replies[0].err != nil || replies[0].value != nil {
			t.Errorf("nothing: %v, %v, want no value and no error", replies, err)
		}
	})
}

func TestScriptsFlushedWhilePipelinesRun(t *testing.T) {
	const batches, tags = 30, 8
	test := func(t *testing.T, url string) {
		c := connect(t, Options{URL: url})
		stop, flushed := make(chan struct{}), make(chan int)
		var started sync.Once
		running := make(chan struct{})
		go func() {
			n := 0
			defer func() { flushed <- n }()
			for {
				if err := c.eachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error { return master.ScriptFlush(ctx).Err() }); err != nil {
					t.Errorf("SCRIPT FLUSH: %v", err)
					return
				}
				n++
				started.Do(func() { close(running) })
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		<-running
		for batch := range batches {
			calls := members(300, tags)
			for i := range calls {
				calls[i].args = []any{fmt.Sprintf("%d:%d", batch, i)}
			}
			replies, err := c.runScript(t.Context(), memberScript, calls)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range replies {
				if r.err != nil {
					t.Fatalf("batch %d, call %d: %v", batch, i, r.err)
				}
			}
		}
		close(stop)
		if n := <-flushed; n < 2 {
			t.Fatalf("%d flushes: nothing was in the way", n)
		}
		if n := countMembers(t, c, tags); n != batches*300 {
			t.Errorf("%d calls had an effect, want each of %d", n, batches*300)
		}
	}
	t.Run("single", func(t *testing.T) { test(t, rdbtest.Redis(t)) })
	t.Run("cluster", func(t *testing.T) { test(t, rdbtest.Cluster(t)) })
}

func TestAMasterThatKnowsNoScriptIsGivenAllOfThem(t *testing.T) {
	server := rdbtest.NewServer(t)
	c := connect(t, Options{URL: server.URL()})
	server.Flush()
	if replies, err := c.runScript(t.Context(), memberScript, members(3, 1)); err != nil || replies[2].value != int64(1) {
		t.Fatalf("%v, %v", replies, err)
	}
	c.work.Wait()
	there, err := c.rds().ScriptExists(t.Context(), loaded[0].sha1, loaded[len(loaded)-1].sha1).Result()
	if err != nil || !there[0] || !there[1] {
		t.Errorf("the package's scripts are there: %v, %v", there, err)
	}
}

func TestTheFirstAnswerOfAnAppliedCallIsKept(t *testing.T) {
	// One master of three has lost its scripts: the whole round trip is repeated on all, and those calls that had
	// been applied before must still say that they changed something.
	url, servers := rdbtest.ClusterServers(t)
	c := connect(t, Options{URL: url})
	if _, err := c.runScript(t.Context(), memberScript, members(30, 30)); err != nil {
		t.Fatal(err)
	}
	servers[1].Do("SCRIPT", "FLUSH")
	calls := members(30, 30)
	for i := range calls {
		calls[i].args = []any{"new"}
	}
	replies, err := c.runScript(t.Context(), memberScript, calls)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range replies {
		if r.err != nil || r.value != int64(1) {
			t.Errorf("call %d: %v, %v, want 1 new member", i, r.value, r.err)
		}
	}
}

func TestAMissingKeyIsNoErrorOfAPipeline(t *testing.T) {
	rdbtest.Each(t, func(t *testing.T, url string) {
		c := connect(t, Options{URL: url})
		commands, err := c.pipeline(t.Context(), func(p redis.Pipeliner) {
			p.Get(t.Context(), "{a}missing")
			p.Set(t.Context(), "{b}", "there", 0)
			p.Get(t.Context(), "{b}")
		})
		if err != nil || len(commands) != 3 {
			t.Fatalf("%v, %v", commands, err)
		}
		if err := commands[0].Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("the missing key: %v, want redis.Nil", err)
		}
		if value, err := commands[2].(*redis.StringCmd).Result(); value != "there" || err != nil {
			t.Errorf("the key that is there: %q, %v", value, err)
		}
	})
}

func TestAPipelineReportsTheFirstErrorAndKeepsTheRest(t *testing.T) {
	c := connect(t, Options{URL: rdbtest.Redis(t)})
	commands, err := c.pipeline(t.Context(), func(p redis.Pipeliner) {
		p.Get(t.Context(), "missing")
		p.Set(t.Context(), "text", "a", 0)
		p.HGet(t.Context(), "text", "field")
		p.Get(t.Context(), "text")
	})
	if err == nil || services.IsUnavailable(err) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("error %v, want WRONGTYPE as it is", err)
	}
	if value, err := commands[3].(*redis.StringCmd).Result(); value != "a" || err != nil {
		t.Errorf("the command after the failed one: %q, %v", value, err)
	}
}

func TestOneDeadMasterFailsItsOwnCallsOnly(t *testing.T) {
	url, servers := rdbtest.ClusterServers(t)
	// The others answer reads of their slots although a third of the slots is away.
	for _, s := range servers {
		s.Do("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	c := connect(t, Options{URL: url})
	if _, err := c.runScript(t.Context(), memberScript, members(60, 60)); err != nil {
		t.Fatal(err)
	}
	servers[2].Kill()
	replies, err := c.runScript(t.Context(), memberScript, members(60, 60))
	if err != nil {
		t.Fatalf("two of three masters answered: %v", err)
	}
	answered, failed := 0, 0
	for i, r := range replies {
		switch {
		case r.err == nil:
			answered++
		case services.IsUnavailable(r.err):
			failed++
		default:
			t.Errorf("call %d: %v", i, r.err)
		}
	}
	if answered == 0 || failed == 0 {
		t.Errorf("%d answered, %d UNAVAILABLE: want some of each", answered, failed)
	}
}

func TestAMissingScriptFilePanics(t *testing.T) {
	defer func() {
		if what := fmt.Sprint(recover()); !strings.Contains(what, "no_such_script") {
			t.Errorf("panic %q does not name the script", what)
		}
	}()
	loadScript("no_such_script")
}

func TestAScriptOfAFileBeginsWithTheHelpers(t *testing.T) {
	for _, s := range loaded {
		if !strings.HasPrefix(s.source, luaFile("lib")) || !strings.HasSuffix(s.source, luaFile(s.name)) || len(s.sha1) != 40 {
			t.Errorf("script %s (%s) is not lib.lua and its own file", s.name, s.sha1)
		}
	}
}

func TestScriptNamesAreOfWhatRedisKnows(t *testing.T) {
	c := connect(t, Options{URL: "embedded"})
	names := ScriptNames()
	sums := slices.Sorted(maps.Keys(names))
	known, err := c.rds().ScriptExists(t.Context(), sums...).Result()
	if err != nil || len(known) != len(loaded) || slices.Contains(known, false) {
		t.Errorf("%d scripts are loaded; of the names %v Redis knows %v, %v", len(loaded), names, known, err)
	}
	if !slices.Contains(slices.Collect(maps.Values(names)), "registers_put") {
		t.Errorf("no registers_put in %v", names)
	}
}
