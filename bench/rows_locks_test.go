package main

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"tidings/services/rdb"
	tidingsredis "tidings/services/redis"
)

// startMiniredis starts a Redis in this process.
func startMiniredis(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	engine := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: engine.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	return engine, client
}

func TestEveryIncrementStrategyCountsEveryMessage(t *testing.T) {
	engine, client := startMiniredis(t)
	ours, err := rdb.Open(t.Context(), tidingsredis.Options{URL: "redis://" + engine.Addr(), ReadTimeout: 10 * time.Second}, rdb.DocumentShape{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	script, err := scriptStrategy(t.Context(), ours, client)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*incrementStrategy{script, lockStrategy(client, maxLockTries), watchStrategy(client, maxLockTries)} {
		result, err := w.runClients(t.Context(), 200*time.Millisecond)
		if err != nil {
			t.Fatalf("%s: %v", w.label, err)
		}
		sum, err := w.readSum(t.Context())
		if err != nil || sum == 0 || int64(sum) != w.addedCount.Load() || w.givenUpCount.Load() > 0 {
			t.Errorf("%s: the sum is %d after %d messages, %d given up, %v", w.label, sum, w.addedCount.Load(), w.givenUpCount.Load(), err)
		}
		if !(result.ratePerSecond > 0) || result.latencyP99 < result.latencyP50 {
			t.Errorf("%s: %+v", w.label, result)
		}
	}
	if script.retryCount.Load() != 0 {
		t.Errorf("the script was tried again %d times", script.retryCount.Load())
	}
}

func TestALockThatIsNeverReleasedIsGivenUp(t *testing.T) {
	engine, client := startMiniredis(t)
	w := lockStrategy(client, 3)
	if err := engine.Set("{u1}:lock", "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.runClients(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if failed := w.givenUpCount.Load(); failed == 0 || w.addedCount.Load() != 0 || w.retryCount.Load() != 3*failed {
		t.Errorf("%d given up, %d added, %d retries", w.givenUpCount.Load(), w.addedCount.Load(), w.retryCount.Load())
	}
	engine.Del("{u1}:lock")
	if _, err := w.runClients(t.Context(), 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if engine.Exists("{u1}:lock") || w.addedCount.Load() == 0 {
		t.Errorf("%d added; the lock is there: %v", w.addedCount.Load(), engine.Exists("{u1}:lock"))
	}
}

func TestReportLocks(t *testing.T) {
	b := &bench{report: &report{}}
	ways := []*incrementStrategy{{label: scriptLabel, results: series{{ratePerSecond: 300}}}, {label: lockLabel, results: series{{ratePerSecond: 100}}}, {label: watchLabel, results: series{{ratePerSecond: 600}}}}
	ways[1].addedCount.Store(10)
	ways[1].retryCount.Store(25)
	ways[1].givenUpCount.Store(1200)
	b.reportIncrementStrategies(ways)
	first, second := b.report.resultLines[0], b.report.resultLines[1]
	if first.value != 3 || first.referenceFigure != "100/s, 2.50 retries each, 1,200 given up" || first.ourFigure != "300/s" {
		t.Errorf("%+v", first)
	}
	if second.value != 0.5 || second.goal.verdict(second.value) != "no" || len(b.report.detailLines) != 3 {
		t.Errorf("%+v, %d details", second, len(b.report.detailLines))
	}
}
