package feedhistory

import (
	"context"
	"testing"

	"tidings/services/rdb"
	"tidings/services/rdb/rdbtest"
	"tidings/services/redis"
	"tidings/services/redis/clienttest"
	"tidings/services/redis/redistest"
)

// runInboxHistory runs the history with the number and injects the bug. In it no author is pulled and no user has a board.
func runInboxHistory(ctx context.Context, client *rdb.Projections, number int, bug clienttest.Bug[*World]) error {
	return Run(ctx, client, number, 1, bug.Inject)
}

// openProjections opens the projections of a test.
func openProjections(t *testing.T, url string) *rdb.Projections {
	return rdbtest.Open(t, redis.Options{URL: url, ReadTimeout: clienttest.LongReadTimeout}, rdb.DocumentShape{})
}

// noBug injects no bug.
var noBug clienttest.Bug[*World]

func TestTheInboxEqualsTheFactsAfterEveryHistory(t *testing.T) {
	test := func(t *testing.T, url string, full int) {
		client := openProjections(t, url)
		for i := range clienttest.HistoryNumbers(t, full, inboxBugs) {
			if err := runInboxHistory(t.Context(), client, i, noBug); err != nil {
				t.Fatalf("history %d: %v", i, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t), 600) })
	t.Run("embedded", func(t *testing.T) { test(t, "embedded", 100) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t), 20) })
}

// Bugs are injected into these scripts.
var (
	feedSeen     = clienttest.Script("feed_seen")     // moves the seen position forward
	inboxAdd     = clienttest.Script("inbox_add")     // pushes a post into an inbox
	inboxDelete  = clienttest.Script("inbox_delete")  // removes a deleted post from an inbox
	inboxDrop    = clienttest.Script("inbox_drop")    // removes an author from a reader's projection
	inboxMerge   = clienttest.Script("inbox_merge")   // merges an author's posts, read from SQL, into an inbox
	namedMerge   = clienttest.Script("named_merge")   // names an author in a document
	rebuildBegin = clienttest.Script("rebuild_begin") // makes what is missing, before the facts are read
	rebuildMerge = clienttest.Script("rebuild_merge") // merges the facts, and ends the rebuild
)

// stampCheck is the line of the scripts that refuses facts from before the last removal.
const stampCheck = "if tonumber(ARGV[1]) <= d.rm then return { 3 } end\n"

// inboxBugs are the bugs that the histories must find, each by itself: each omits one rule of the protocol.
var inboxBugs = map[string]clienttest.Bug[*World]{
	"an add as old as it likes":       {Scripts: clienttest.ReplaceInScript(inboxAdd, stampCheck, ""), Known: 212},
	"a merge as old as it likes":      {Scripts: clienttest.ReplaceInScript(inboxMerge, stampCheck, ""), Known: 16},
	"a rebuild as old as it likes":    {Scripts: clienttest.ReplaceInScript(rebuildMerge, stampCheck, ""), Known: 175},
	"an unfollow without a fence":     {Scripts: clienttest.ReplaceInScript(inboxDrop, "fence(KEYS[1], d)\n", ""), Known: 263},
	"a deletion without a fence":      {Scripts: clienttest.ReplaceInScript(inboxDelete, "fence(KEYS[1], d)\n", ""), Known: 16},
	"a follow without a fence":        {Scripts: clienttest.ReplaceInScript(inboxMerge, "if ARGV[2] ~= '0' then fence(KEYS[1], d) end\n", ""), Known: 2901},
	"an edge not read again":          {Work: func(w *World) { w.RemovalRereadsFollow = false }, Known: 929},
	"deletions before the follow":     {Work: func(w *World) { w.followRemovesDeletedPosts = false }, Known: 443},
	"a rebuild that replaces":         {Scripts: clienttest.ReplaceInScript(rebuildMerge, "fill(KEYS[2], KEYS[5], d, 11)", "redis.call('DEL', KEYS[2]) redis.call('ZADD', KEYS[2], 0, '!' .. d.floor)\nfill(KEYS[2], KEYS[5], d, 11)"), Known: 442},
	"a document born without a stamp": {Scripts: clienttest.ReplaceInScript(rebuildBegin, "rm, n = math.max(time, rm + 1),", "rm, n = 0,").AndReplaceInScript(rebuildBegin, "rm = math.max(time, rm + 1)", "rm = 0"), Known: 638},
	"an inbox born without a stamp":   {Scripts: clienttest.ReplaceInScript(rebuildBegin, "rm = math.max(time, rm + 1)", ""), Known: 638},
	"an old inbox taken for good":     {Scripts: clienttest.ReplaceInScript(rebuildBegin, "redis.call('DEL', unpack(KEYS))", "redis.call('DEL', KEYS[1], unpack(KEYS, 3))"), Known: 86},
	"a lost inbox that nobody marks":  {Scripts: clienttest.ReplaceInScript(rebuildBegin, "HSET', KEYS[1], 'st', '0', 'rm', string.format('%.0f', rm), 'fq'", "HSET', KEYS[1], 'rm', string.format('%.0f', rm), 'fq'"), Known: 28},
	"a post pushed beside its twin":   {Scripts: clienttest.ReplaceInScript(inboxAdd, "if not counts or id <= d.fq then", "if false then"), Known: 206},
	"a post merged beside its twin":   {Scripts: clienttest.ReplaceInScript(inboxMerge, "redis.call('ZREM', i, entry:sub(1, 18)", "local _ = (entry:sub(1, 18)"), Known: 34},
	"a rebuild that leaves twins":     {Scripts: clienttest.ReplaceInScript(rebuildMerge, "if #twins > 0 then", "if false then"), Known: 20},
	"a twin below the newest listed":  {Scripts: clienttest.ReplaceInScript(inboxMerge, "if not counts and id > d.fq then d.fq = id end", "")},
	"a count that counts":             {Scripts: clienttest.ReplaceInScript(inboxAdd, "and counts and id > mark(d) then", "and counts then"), Known: 107},
	"a count of what is only listed":  {Scripts: clienttest.ReplaceInScript(rebuildMerge, "count = count - 1", "count = count")},
	"a mark that moves back":          {Scripts: clienttest.ReplaceInScript(feedSeen, "if ARGV[1] <= d.T then return { 2 } end", ""), Known: 55},
	"a mark that a rebuild resets":    {Scripts: clienttest.ReplaceInScript(rebuildMerge, "if ARGV[2] > d.T then d.T = ARGV[2] end", "d.T = ARGV[2]"), Known: 55},
	"a version that stands still":     {Scripts: clienttest.ReplaceInScript(inboxDelete, "d.n = math.max(now(), d.n + 1)", ""), Known: 11},
}

func TestTheHistoriesFindEveryInjectedBug(t *testing.T) {
	client := openProjections(t, redistest.Redis(t))
	clienttest.FindBugs(t, client.Client, inboxBugs, 3000, func(number int, bug clienttest.Bug[*World]) error {
		return runInboxHistory(t.Context(), client, number, bug)
	})
}

func TestLongFeedsFindEveryInjectedBug(t *testing.T) {
	client := openProjections(t, redistest.Redis(t))
	clienttest.FindBugs(t, client.Client, trimmingBugs, 300, func(number int, bug clienttest.Bug[*World]) error {
		return runLongFeed(t, client, number, bug)
	})
}
