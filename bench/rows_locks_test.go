package main

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"tidings/services/rdb"
	tidingsredis "tidings/services/redis"
)

// hotRedis starts a Redis in this process.
func hotRedis(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	engine := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: engine.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return engine, client
}

func TestEveryWayCountsEveryMessage(t *testing.T) {
	engine, client := hotRedis(t)
	ours, err := rdb.Open(t.Context(), tidingsredis.Options{URL: "redis://" + engine.Addr(), ReadTimeout: 10 * time.Second}, rdb.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	script, err := scriptWay(t.Context(), ours, client)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*way{script, lockWay(client, lockTries), watchWay(client, lockTries)} {
		result, err := w.run(t.Context(), 200*time.Millisecond)
		if err != nil {
			t.Fatalf("%s: %v", w.who, err)
		}
		sum, err := w.sum(t.Context())
		if err != nil || sum == 0 || int64(sum) != w.added.Load() || w.failed.Load() > 0 {
			t.Errorf("%s: the sum is %d after %d messages, %d given up, %v", w.who, sum, w.added.Load(), w.failed.Load(), err)
		}
		if !(result.rate > 0) || result.p99 < result.p50 {
			t.Errorf("%s: %+v", w.who, result)
		}
	}
	if script.retries.Load() != 0 {
		t.Errorf("the script was tried again %d times", script.retries.Load())
	}
}

func TestALockThatIsNeverReleasedIsGivenUp(t *testing.T) {
	engine, client := hotRedis(t)
	w := lockWay(client, 3)
	if err := engine.Set("{u1}:lock", "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if failed := w.failed.Load(); failed == 0 || w.added.Load() != 0 || w.retries.Load() != 3*failed {
		t.Errorf("%d given up, %d added, %d retries", w.failed.Load(), w.added.Load(), w.retries.Load())
	}
	engine.Del("{u1}:lock")
	if _, err := w.run(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if engine.Exists("{u1}:lock") || w.added.Load() == 0 {
		t.Errorf("%d added; the lock is there: %v", w.added.Load(), engine.Exists("{u1}:lock"))
	}
}

func TestReportLocks(t *testing.T) {
	b := &bench{report: &report{}}
	ways := []*way{{who: whoScript, values: series{{rate: 300}}}, {who: whoLock, values: series{{rate: 100}}}, {who: whoWatch, values: series{{rate: 600}}}}
	ways[1].added.Store(10)
	ways[1].retries.Store(25)
	ways[1].failed.Store(1200)
	b.reportLocks(ways)
	first, second := b.report.lines[0], b.report.lines[1]
	if first.value != 3 || first.theirs != "100/s, 2.50 retries each, 1,200 given up" || first.ours != "300/s" {
		t.Errorf("%+v", first)
	}
	if second.value != 0.5 || second.goal.verdict(second.value) != "no" || len(b.report.details) != 3 {
		t.Errorf("%+v, %d details", second, len(b.report.details))
	}
}
