package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
)

// manualClock is a clock that a test moves.
type manualClock struct {
	mu  sync.Mutex
	now time.Time
}

func newManualClock() *manualClock { return &manualClock{now: time.Unix(1_700_000_000, 0)} }

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// memoryLedger is a SpendingLedger in the memory of the test.
type memoryLedger struct {
	totals      map[string]int // by window and bucket
	calls       int            // of Spend
	unavailable bool           // Spend fails
}

func (m *memoryLedger) Spend(_ context.Context, window int64, buckets []string, amounts []int) ([]int, error) {
	m.calls++
	if m.unavailable {
		return nil, services.Errorf(services.Unavailable, "Redis does not answer")
	}
	totals := make([]int, len(buckets))
	for i, bucket := range buckets {
		key := fmt.Sprint(window, bucket)
		m.totals[key] += amounts[i]
		totals[i] = m.totals[key]
	}
	return totals, nil
}

func newMemoryLedger() *memoryLedger { return &memoryLedger{totals: map[string]int{}} }

// takeUntilRefused spends 1 of a subject's budget at a time until it is refused, at most atMost times, and returns how many times it
// was granted.
func takeUntilRefused(l *Limiter, budget Budget, subject string, atMost int) int {
	for granted := range atMost {
		if l.Take(budget, subject, 1) != nil {
			return granted
		}
	}
	return atMost
}

func TestARefusalHasTheTimeToWait(t *testing.T) {
	clock := newManualClock()
	l := New(Config{Limits: Limits{Follows: 60}, Clock: clock})
	if granted := takeUntilRefused(l, Follows, "alice", 100); granted != 60 {
		t.Fatalf("%d were granted at once: want 60", granted)
	}
	err := l.Take(Follows, "alice", 5)
	limited, ok := errors.AsType[*services.Error](err)
	if !ok || limited.Code != services.RateLimited || limited.RetryAfter != 5*time.Second {
		t.Fatalf("the 61st: %#v: want RATE_LIMITED, after 5 s", err)
	}
	if want := "FOLLOWS: up to 60 a minute are allowed, try again in 5 s"; limited.Message != want {
		t.Errorf("the message is %q: want %q", limited.Message, want)
	}
	clock.advance(limited.RetryAfter - time.Millisecond)
	if l.Take(Follows, "alice", 5) == nil {
		t.Error("granted a millisecond too early")
	}
	clock.advance(time.Millisecond)
	if err := l.Take(Follows, "alice", 5); err != nil {
		t.Errorf("refused after the time that was said: %v", err)
	}
	if got := l.Refused(); got != 3 {
		t.Errorf("%d refusals are counted: want 3", got)
	}
}

func TestTakeAllSpendsFromAllBudgetsOrNone(t *testing.T) {
	clock := newManualClock()
	l := New(Config{Limits: Limits{Writes: 600, Follows: 60, Conversations: 60}, Clock: clock})
	takeUntilRefused(l, Follows, "alice", 57)
	takeUntilRefused(l, Conversations, "alice", 58)
	ask := []Spending{{Writes, 20}, {Follows, 10}, {Conversations, 5}, {Reads, 7}} // READS are without limit
	var limited *services.Error
	for range 3 { // a refused request takes nothing from the next one
		err := l.TakeAll("alice", ask...)
		var ok bool
		if limited, ok = errors.AsType[*services.Error](err); !ok || limited.RetryAfter != 7*time.Second {
			t.Fatalf("10 of 3 FOLLOWS and 5 of 2 CONVERSATIONS: %#v: want RATE_LIMITED, after 7 s", err)
		}
	}
	if want := "FOLLOWS: up to 60 a minute are allowed, try again in 7 s"; limited.Message != want {
		t.Errorf("the message is %q: want %q", limited.Message, want)
	}
	for budget, want := range map[Budget]int{Writes: 600, Follows: 3, Conversations: 2} {
		fresh := New(Config{Limits: l.cfg.Limits, Clock: clock})
		takeUntilRefused(fresh, Follows, "alice", 57)
		takeUntilRefused(fresh, Conversations, "alice", 58)
		_ = fresh.TakeAll("alice", ask...) // refused, as above
		if got := takeUntilRefused(fresh, budget, "alice", 1000); got != want {
			t.Errorf("%d of %s are left after the refusal: want %d", got, budget, want)
		}
	}
	clock.advance(limited.RetryAfter)
	if err := l.TakeAll("alice", ask...); err != nil {
		t.Fatalf("refused after the time that was said: %v", err)
	}
	if got := takeUntilRefused(l, Writes, "alice", 1000); got != 580 {
		t.Errorf("%d of WRITES are left: want 580", got)
	}
}

func TestSubjectsAndBudgetsAreApart(t *testing.T) {
	l := New(Config{Limits: Limits{Follows: 3, Writes: 3}, Clock: newManualClock()})
	takeUntilRefused(l, Follows, "alice", 10)
	for _, other := range []struct {
		budget  Budget
		subject string
		want    int
	}{{Follows, "bob", 3}, {Writes, "alice", 3}, {Follows, "alice", 0}, {Reads, "alice", 10}} {
		if got := takeUntilRefused(l, other.budget, other.subject, 10); got != other.want {
			t.Errorf("%s of %s: %d were granted: want %d", other.budget, other.subject, got, other.want)
		}
	}
}

func TestLargeRequestEmptiesTheBudget(t *testing.T) {
	l := New(Config{Limits: Limits{Reads: 100}, Clock: newManualClock()})
	if err := l.Take(Reads, "alice", 1000); err != nil {
		t.Fatalf("a request beyond the budget: %v", err)
	}
	if l.Take(Reads, "alice", 1) == nil {
		t.Error("something was left")
	}
}

// No subject ever gets more than a full bucket and the refill since the start, at any times and for any amounts.
func TestNothingBeyondBurstAndRateIsGranted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 200).Draw(t, "limit")
		clock := newManualClock()
		l := New(Config{Limits: Limits{Writes: limit}, Clock: clock})
		start, granted := clock.Now(), 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "wait") {
				clock.advance(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond)
				l.RunOnce(t.Context())
			}
			amount := rapid.IntRange(1, limit).Draw(t, "amount")
			if l.Take(Writes, "alice", amount) == nil {
				granted += amount
			}
			most := float64(limit) + float64(limit)/60*clock.Now().Sub(start).Seconds()
			if float64(granted) > most+1e-6 {
				t.Fatalf("%d were granted of %f", granted, most)
			}
		}
	})
}

// Nodes that exchange their spending grant one allowance together, and beyond it only what each may grant between two exchanges.
func TestNodesShareOneAllowance(t *testing.T) {
	clock, ledger := newManualClock(), newMemoryLedger()
	var nodes []*Limiter
	for range 4 {
		nodes = append(nodes, New(Config{Limits: Limits{Writes: 600}, Ledger: ledger, Clock: clock}))
	}
	granted := 0
	for range 120 { // two minutes, at 40 a second on each node
		for _, node := range nodes {
			granted += takeUntilRefused(node, Writes, "mallory", 40)
		}
		for _, node := range nodes {
			node.RunOnce(t.Context())
		}
		clock.advance(time.Second)
	}
	// Alone, the four would grant 4 x 600 + 4 x 10 a second. Together they grant 600 + 10 a second, plus the grants of each before
	// it knows of the others, plus what each does not learn of after its last exchange of a window.
	if most := 600 + 120*10 + 4*40 + 12*4*40; granted > most {
		t.Errorf("%d were granted: want at most %d", granted, most)
	}
	if least := 600 + 119*10; granted < least {
		t.Errorf("%d were granted: want at least the allowance, %d", granted, least)
	}
	if alone := New(Config{Limits: Limits{Writes: 600}, Clock: clock}); takeUntilRefused(alone, Writes, "mallory", 1000) != 600 {
		t.Error("a node without others grants another allowance")
	}
}

func TestOnlyHeavyUseIsWrittenToRedis(t *testing.T) {
	clock, ledger := newManualClock(), newMemoryLedger()
	l := New(Config{Limits: Limits{Writes: 600}, Ledger: ledger, Clock: clock})
	takeUntilRefused(l, Writes, "alice", 20)
	l.RunOnce(t.Context())
	if ledger.calls != 0 {
		t.Errorf("%d calls for 20 of 600: want none", ledger.calls)
	}
	takeUntilRefused(l, Writes, "alice", 200)
	l.RunOnce(t.Context())
	if ledger.calls != 1 || len(ledger.totals) != 1 {
		t.Fatalf("%d calls, totals %v: want one of one bucket", ledger.calls, ledger.totals)
	}
	for key, total := range ledger.totals {
		if total != 220 || strings.Contains(key, "alice") {
			t.Errorf("%s has %d: want 220, and no user's key", key, total)
		}
	}
}

func TestWithoutRedisEachNodeLimitsAlone(t *testing.T) {
	clock, ledger := newManualClock(), newMemoryLedger()
	ledger.unavailable = true
	l := New(Config{Limits: Limits{Writes: 60}, Ledger: ledger, Clock: clock, Log: slog.New(slog.DiscardHandler)})
	granted := 0
	for range 60 {
		granted += takeUntilRefused(l, Writes, "alice", 60)
		l.RunOnce(t.Context())
		clock.advance(time.Second)
	}
	if granted < 60+59 || granted > 60+60 {
		t.Errorf("%d were granted in a minute: want 119", granted)
	}
}

func TestFullBucketsAreForgotten(t *testing.T) {
	clock := newManualClock()
	l := New(Config{Limits: Limits{Address: 60}, Clock: clock})
	for i := range 1000 {
		_ = l.Take(Address, fmt.Sprint(i), 2)
	}
	held := func() (count int) {
		for i := range l.shards {
			count += len(l.shards[i].buckets)
		}
		return count
	}
	clock.advance(time.Second)
	if l.RunOnce(t.Context()); held() != 1000 {
		t.Errorf("%d buckets are held after 1 s: want 1000", held())
	}
	clock.advance(time.Second)
	if l.RunOnce(t.Context()); held() != 0 {
		t.Errorf("%d buckets are held after 2 s: want none", held())
	}
}

func TestConcurrentTakesNeverExceedTheLimit(t *testing.T) {
	l := New(Config{Limits: Limits{Writes: 500}, Clock: newManualClock(), Ledger: newMemoryLedger()})
	var group sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for range 8 {
		group.Go(func() {
			mine := takeUntilRefused(l, Writes, "alice", 200)
			mu.Lock()
			granted += mine
			mu.Unlock()
		})
	}
	group.Go(func() { l.RunOnce(context.Background()) })
	group.Wait()
	if granted != 500 {
		t.Errorf("%d were granted: want 500", granted)
	}
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		items  []string
		reason string
		check  func(Limits) bool
	}{
		{nil, "", func(l Limits) bool { return l[Writes] == 600 && len(l) == len(budgets) }},
		{[]string{"off"}, "", func(l Limits) bool { return len(l) == 0 }},
		{[]string{"WRITES=5", "FOLLOWS=0"}, "", func(l Limits) bool { return l[Writes] == 5 && l[Follows] == 0 && l[Sockets] == 240 }},
		{[]string{"WRITES"}, `"WRITES": 0 to 1000000000 is allowed after the =`, nil},
		{[]string{"WRITES=-1"}, `"WRITES=-1": 0 to 1000000000 is allowed after the =`, nil},
		{[]string{"WRITES=1", "WRITES=2"}, "WRITES is named twice", nil},
		{[]string{"writes=1"}, `"writes=1" is not a budget`, nil},
		{[]string{"off", "WRITES=1"}, `"off" is not a budget`, nil},
	} {
		limits, reason := parse(test.items)
		if !strings.HasPrefix(reason, test.reason) || (reason == "") != (test.reason == "") {
			t.Errorf("%v: %q: want %q", test.items, reason, test.reason)
		}
		if test.check != nil && !test.check(limits) {
			t.Errorf("%v: %v", test.items, limits)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	l := New(Config{Limits: Limits{Reads: math.MaxInt32}})
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Take(Reads, "alice", 20); err != nil {
			b.Fatal(err)
		}
	}
}
