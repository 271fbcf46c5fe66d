package rdb

import (
	"context"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/clienttest"
	"tidings/services/redis/redistest"
	"tidings/tests/histories"
)

// patience is how long a history waits for an answer. It is long because a history tests order, not time.
const patience = clienttest.Patience

// history runs one world with people of its own. The same number gives the same history.
func history(ctx context.Context, client *Projections, number int, plant func(*world)) error {
	w := newWorld(ctx, client, uint64(number), services.UserID(1+number*people))
	if plant != nil {
		plant(w)
	}
	return w.run(30 + number%3*30)
}

// few is how many histories run with each commit on every engine, beside those that are known to find a bug.
const few = 10

// chosen are the first few histories, all up to full if the full set is asked for, and those that once found a bug, because
// they are worth repeating.
func chosen(t *testing.T, full int, bugs map[string]injectedBug) map[int]bool {
	t.Helper()
	all := map[int]bool{}
	for i := range histories.Number(t, max(few, full/10), full) {
		all[i] = true
	}
	for _, bug := range bugs {
		all[bug.known] = true
	}
	return all
}

func TestTheInboxEqualsTheFactsAfterEveryHistory(t *testing.T) {
	test := func(t *testing.T, url string, full int) {
		client := connect(t, redis.Options{URL: url, ReadTimeout: patience})
		for i := range chosen(t, full, injectedBugs) {
			if err := history(t.Context(), client, i, nil); err != nil {
				t.Fatalf("history %d: %v", i, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t), 600) })
	t.Run("embedded", func(t *testing.T) { test(t, "embedded", 100) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t), 20) })
}

// replacement is an injected bug in a script.
type replacement struct {
	in       **redis.Script
	old, new string
}

const stampCheck = "if tonumber(ARGV[1]) <= d.rm then return { 3 } end\n"

// An injectedBug is in scripts, or in the work that calls them.
type injectedBug struct {
	scripts []replacement
	world   func(*world)
	talks   func(*talks)
	known   int // a history that finds it; the test looks for another if this one no longer does
}

// injectedBugs are the bugs that the histories must find, each by itself: the rules of MODEL, one left out at a time.
var injectedBugs = map[string]injectedBug{
	"an add as old as it likes":    {scripts: []replacement{{&inboxAdd, stampCheck, ""}}, known: 212},
	"a merge as old as it likes":   {scripts: []replacement{{&inboxMerge, stampCheck, ""}}, known: 16},
	"a rebuild as old as it likes": {scripts: []replacement{{&rebuildMerge, stampCheck, ""}}, known: 175},
	"an unfollow without a fence":  {scripts: []replacement{{&inboxDrop, "fence(KEYS[1], d)\n", ""}}, known: 263},
	"a deletion without a fence":   {scripts: []replacement{{&inboxDelete, "fence(KEYS[1], d)\n", ""}}, known: 16},
	"a follow without a fence":     {scripts: []replacement{{&inboxMerge, "if ARGV[2] == '1' then fence(KEYS[1], d) end\n", ""}}, known: 2901},
	"an edge not read again":       {world: func(w *world) { w.rereads = false }, known: 929},
	"deletions before the follow":  {world: func(w *world) { w.sweeps = false }, known: 443},
	"a rebuild that replaces":      {scripts: []replacement{{&rebuildMerge, "fill(KEYS[2], KEYS[6], d, 10)", "redis.call('DEL', KEYS[2]) redis.call('ZADD', KEYS[2], 0, '!' .. d.floor)\nfill(KEYS[2], KEYS[6], d, 10)"}}, known: 442},
	"a document born without a stamp": {scripts: []replacement{
		{&rebuildBegin, "rm, n = math.max(time, rm + 1),", "rm, n = 0,"}, {&rebuildBegin, "rm = math.max(time, rm + 1)", "rm = 0"}}, known: 638},
	"an inbox born without a stamp":  {scripts: []replacement{{&rebuildBegin, "rm = math.max(time, rm + 1)", ""}}, known: 638},
	"an old inbox taken for good":    {scripts: []replacement{{&rebuildBegin, "DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])", "DEL', KEYS[1], KEYS[3], KEYS[4])"}}, known: 86},
	"a lost inbox that nobody marks": {scripts: []replacement{{&rebuildBegin, "HSET', KEYS[1], 'st', '0', 'rm', string.format('%.0f', rm), 'fq'", "HSET', KEYS[1], 'rm', string.format('%.0f', rm), 'fq'"}}, known: 28},
	"a post pushed beside its twin":  {scripts: []replacement{{&inboxAdd, "if not counts or id <= d.fq then", "if false then"}}, known: 206},
	"a post merged beside its twin":  {scripts: []replacement{{&inboxMerge, "redis.call('ZREM', i, entry:sub(1, 18)", "local _ = (entry:sub(1, 18)"}}, known: 34},
	"a rebuild that leaves twins":    {scripts: []replacement{{&rebuildMerge, "if #twins > 0 then", "if false then"}}, known: 20},
	"a twin below the newest listed": {scripts: []replacement{{&inboxMerge, "if not counts and id > d.fq then d.fq = id end", ""}}},
	"a count that counts":            {scripts: []replacement{{&inboxAdd, "and counts and id > mark(d) then", "and counts then"}}, known: 107},
	"a count of what is only listed": {scripts: []replacement{{&rebuildMerge, "count = count - 1", "count = count"}}},
	"a mark that moves back":         {scripts: []replacement{{&feedSeen, "if ARGV[1] <= d.T then return { 2 } end", ""}}, known: 55},
	"a mark that a rebuild resets":   {scripts: []replacement{{&rebuildMerge, "if ARGV[2] > d.T then d.T = ARGV[2] end", "d.T = ARGV[2]"}}, known: 55},
	"a version that stands still":    {scripts: []replacement{{&inboxDelete, "d.n = math.max(now(), d.n + 1)", ""}}, known: 11},
}

// plant runs a test for each bug, on an empty Redis: first the history that is known to find it, then the others up to most. A
// history that runs with each commit must find the bug.
func plant(t *testing.T, bugs map[string]injectedBug, most int, run func(client *Projections, number int, bug injectedBug) error) {
	client := connect(t, redis.Options{URL: redistest.Redis(t), ReadTimeout: patience})
	for name, bug := range bugs {
		t.Run(name, func(t *testing.T) {
			for _, change := range bug.scripts {
				good := *change.in
				if strings.Count(good.Source, change.old) != 1 {
					t.Fatalf("the script %s does not have %q once", good.Name, change.old)
				}
				*change.in = redis.NewScript(good.Name, strings.Replace(good.Source, change.old, change.new, 1))
				defer func() { *change.in = good }()
			}
			if err := client.Commands().FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			number := bug.known
			err := run(client, number, bug)
			for next := 0; err == nil && next < most; next++ {
				if number = next; number != bug.known { // the known history's people already exist
					err = run(client, number, bug)
				}
			}
			if err == nil || services.IsUnavailable(err) {
				t.Fatalf("not found up to %d: %v", number, err)
			}
			first, _, _ := strings.Cut(err.Error(), "\n")
			t.Logf("%s: found by %d: %s", name, number, first)
			if number != bug.known && number >= few {
				t.Errorf("history %d finds it and is not tried with each commit: make it known", number)
			}
		})
	}
}

func TestTheHistoriesFindEveryInjectedBug(t *testing.T) {
	plant(t, injectedBugs, 3000, func(client *Projections, number int, bug injectedBug) error {
		return history(t.Context(), client, number, bug.world)
	})
}

func TestLongFeedsFindEveryInjectedBug(t *testing.T) {
	plant(t, trimmingBugs, 300, func(client *Projections, number int, bug injectedBug) error {
		return longHistory(t, client, number, bug.world)
	})
}
