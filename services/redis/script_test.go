package redis

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
	"tidings/services/redis/redistest"
)

func TestRepliesAreInTheOrderOfTheirCalls(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		c := connect(t, Options{URL: url})
		calls := make([]ScriptCall, 1203)
		for i := range calls {
			calls[i] = ScriptCall{Keys: []string{fmt.Sprintf("{u%d}", i%7)}, Args: []any{i}}
		}
		replies, err := c.Run(t.Context(), setScript, calls)
		if err != nil || len(replies) != len(calls) {
			t.Fatalf("%d replies, %v", len(replies), err)
		}
		for i, r := range replies {
			if r.Err != nil || r.Value != fmt.Sprint(i) {
				t.Fatalf("reply %d = %v, %v", i, r.Value, r.Err)
			}
		}
	})
}

func TestRunningNoCallsTakesNoRoundTrip(t *testing.T) {
	c := connect(t, Options{URL: "embedded"})
	ctx, trips := WithRoundTrips(t.Context())
	replies, err := c.Run(ctx, setScript, nil)
	if len(replies) != 0 || err != nil || trips.Count() != 0 {
		t.Errorf("%v, %v, %d round trips", replies, err, trips.Count())
	}
}

func TestACallsOwnErrorStandsInItsReply(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		c := connect(t, Options{URL: url})
		if err := c.Commands().LPush(t.Context(), "{u1}:set", "not a set").Err(); err != nil {
			t.Fatal(err)
		}
		replies, err := c.Run(t.Context(), addMemberScript, addMemberCalls(4, 2)) // calls 1 and 3 meet the list
		if err != nil {
			t.Fatalf("the error is for a Redis that is away: %v", err)
		}
		for i, r := range replies {
			if wrong := i%2 == 1; wrong != (r.Err != nil) {
				t.Errorf("reply %d = %v, %v", i, r.Value, r.Err)
			} else if wrong && (services.IsUnavailable(r.Err) || !strings.Contains(r.Err.Error(), "WRONGTYPE")) {
				t.Errorf("reply %d: error %v, want WRONGTYPE as it is", i, r.Err)
			}
		}
		replies, err = c.Run(t.Context(), brokenScript, []ScriptCall{{Keys: []string{"luck"}}})
		if err != nil || replies[0].Err == nil || !strings.Contains(replies[0].Err.Error(), "no luck") {
			t.Errorf("a script's own error: %v, %v", replies, err)
		}
		replies, err = c.Run(t.Context(), nothingScript, []ScriptCall{{Keys: []string{"k"}}})
		if err != nil || replies[0].Err != nil || replies[0].Value != nil {
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
				if err := c.EachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error { return master.ScriptFlush(ctx).Err() }); err != nil {
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
			calls := addMemberCalls(300, tags)
			for i := range calls {
				calls[i].Args = []any{fmt.Sprintf("%d:%d", batch, i)}
			}
			replies, err := c.Run(t.Context(), addMemberScript, calls)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range replies {
				if r.Err != nil {
					t.Fatalf("batch %d, call %d: %v", batch, i, r.Err)
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
	t.Run("single", func(t *testing.T) { test(t, redistest.Redis(t)) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t)) })
}

func TestAMasterThatKnowsNoScriptIsGivenAllOfThem(t *testing.T) {
	server := redistest.NewServer(t)
	c := connect(t, Options{URL: server.URL()})
	server.Flush()
	if replies, err := c.Run(t.Context(), addMemberScript, addMemberCalls(3, 1)); err != nil || replies[2].Value != int64(1) {
		t.Fatalf("%v, %v", replies, err)
	}
	c.backgroundWork.Wait()
	there, err := c.Commands().ScriptExists(t.Context(), registeredScripts[0].sha1, registeredScripts[len(registeredScripts)-1].sha1).Result()
	if err != nil || !there[0] || !there[1] {
		t.Errorf("the package's scripts are there: %v, %v", there, err)
	}
}

func TestTheFirstAnswerOfAnAppliedCallIsKept(t *testing.T) {
	// One master of three has lost its scripts: the whole round trip is repeated on all, and the calls that were applied the
	// first time must still report a change.
	url, servers := redistest.ClusterServers(t)
	c := connect(t, Options{URL: url})
	if _, err := c.Run(t.Context(), addMemberScript, addMemberCalls(30, 30)); err != nil {
		t.Fatal(err)
	}
	servers[1].Do("SCRIPT", "FLUSH")
	calls := addMemberCalls(30, 30)
	for i := range calls {
		calls[i].Args = []any{"new"}
	}
	replies, err := c.Run(t.Context(), addMemberScript, calls)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range replies {
		if r.Err != nil || r.Value != int64(1) {
			t.Errorf("call %d: %v, %v, want 1 new member", i, r.Value, r.Err)
		}
	}
}

func TestAMissingKeyIsNoErrorOfAPipeline(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		c := connect(t, Options{URL: url})
		commands, err := c.Pipeline(t.Context(), func(p redis.Pipeliner) {
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
	c := connect(t, Options{URL: redistest.Redis(t)})
	commands, err := c.Pipeline(t.Context(), func(p redis.Pipeliner) {
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
	url, servers := redistest.ClusterServers(t)
	// With this setting the other masters serve their slots although a third of the slots is gone.
	for _, s := range servers {
		s.Do("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	c := connect(t, Options{URL: url})
	if _, err := c.Run(t.Context(), addMemberScript, addMemberCalls(60, 60)); err != nil {
		t.Fatal(err)
	}
	servers[2].Kill()
	replies, err := c.Run(t.Context(), addMemberScript, addMemberCalls(60, 60))
	if err != nil {
		t.Fatalf("two of three masters answered: %v", err)
	}
	answered, failed := 0, 0
	for i, r := range replies {
		switch {
		case r.Err == nil:
			answered++
		case services.IsUnavailable(r.Err):
			failed++
		default:
			t.Errorf("call %d: %v", i, r.Err)
		}
	}
	if answered == 0 || failed == 0 {
		t.Errorf("%d answered, %d UNAVAILABLE: want some of each", answered, failed)
	}
}

// A Client loads the scripts in the background when a master has lost them. To replace a script meanwhile is no data race.
func TestReplaceAScriptWhileAllAreLoaded(t *testing.T) {
	server := redistest.NewServer(t)
	c := connect(t, Options{URL: server.URL()})
	good := *secondScript
	for range 20 {
		server.Flush()
		if _, err := c.Run(t.Context(), addMemberScript, addMemberCalls(1, 1)); err != nil { // finds that nothing is loaded
			t.Fatal(err)
		}
		restore := secondScript.Replace("return 22")
		replies, err := c.Run(t.Context(), secondScript, []ScriptCall{{Keys: []string{"key"}}})
		restore()
		if err != nil || replies[0].Value != int64(22) {
			t.Fatalf("the other text: %v, %v", replies, err)
		}
		c.backgroundWork.Wait()
	}
	if *secondScript != good {
		t.Errorf("%+v is not %+v again", *secondScript, good)
	}
}

func TestEveryRegisteredScriptIsLoaded(t *testing.T) {
	c := connect(t, Options{URL: "embedded"})
	sums := map[string]string{} // by the script's name
	for _, script := range Scripts() {
		sums[script.Name] = script.sha1
	}
	known, err := c.Commands().ScriptExists(t.Context(), slices.Collect(maps.Values(sums))...).Result()
	if err != nil || len(known) != len(registeredScripts) || slices.Contains(known, false) {
		t.Errorf("%d scripts are loaded; of %v Redis knows %v, %v", len(registeredScripts), sums, known, err)
	}
	if sums["test_first"] != firstScript.sha1 || sums["test_second"] != secondScript.sha1 {
		t.Errorf("not the registered scripts: %v", sums)
	}
}

func TestARegisteredScriptJoinsItsParts(t *testing.T) {
	if secondScript.Source != "return 2" || firstScript.sha1 == secondScript.sha1 || len(secondScript.sha1) != 40 {
		t.Errorf("%+v and %+v", firstScript, secondScript)
	}
}

func TestAScriptThatIsRegisteredTwicePanics(t *testing.T) {
	before := len(registeredScripts)
	defer func() {
		if what := fmt.Sprint(recover()); !strings.Contains(what, "test_first") || len(registeredScripts) != before {
			t.Errorf("panic %q does not name the script, or %d scripts became %d", what, before, len(registeredScripts))
		}
	}()
	registerScript("test_first", "return 3")
}
