package feedhistory

import (
	"context"
	"testing"
	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis/clienttest"
	"tidings/services/redis/redistest"
)

// runPulledHistory runs the history with the number and injects the bug. In it the posts of some authors become pulled.
func runPulledHistory(ctx context.Context, client *rdb.Projections, number int, bug clienttest.Bug[*World]) error {
	return Run(ctx, client, number, 10_000_000, func(w *World) {
		w.pulledAuthors = map[services.UserID]bool{}
		for range w.RareEventCopies() {
			w.AddEventKinds(makePulledEvent)
		}
		bug.Inject(w)
	})
}

func TestPulledAuthorsEqualTheFactsAfterEveryHistory(t *testing.T) {
	test := func(t *testing.T, url string, full int) {
		client := openProjections(t, url)
		for i := range clienttest.HistoryNumbers(t, full, pulledBugs) {
			if err := runPulledHistory(t.Context(), client, i, noBug); err != nil {
				t.Fatalf("history %d: %v", i, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { test(t, redistest.Redis(t), 300) })
	t.Run("embedded", func(t *testing.T) { test(t, "embedded", 40) })
	t.Run("cluster", func(t *testing.T) { test(t, redistest.Cluster(t), 10) })
}

// pulledBugs are the injected bugs that these histories must find, each by itself.
var pulledBugs = map[string]clienttest.Bug[*World]{
	"an author named from as old a read as it likes": {Scripts: clienttest.ReplaceInScript(namedMerge, stampCheck, ""), Known: 48},
	"a drop that leaves them named":                  {Scripts: clienttest.ReplaceInScript(inboxDrop, "unname(KEYS[1], 'F', ARGV[2]) and 1 or 0", "0"), Known: 23},
	"a follow that does not name them":               {Scripts: clienttest.ReplaceInScript(inboxMerge, "name(KEYS[1], 'F', ARGV[3]) and 1 or 0", "0"), Known: 9},
	"a rebuild that names nobody":                    {Scripts: clienttest.ReplaceInScript(rebuildMerge, "name(KEYS[1], 'F', ARGV[8])\n", ""), Known: 1},
	"a rebuild that forgets who was named":           {Scripts: clienttest.ReplaceInScript(rebuildMerge, "name(KEYS[1], 'F', ARGV[8])\n", "redis.call('HSET', KEYS[1], 'F', '') name(KEYS[1], 'F', ARGV[8])\n"), Known: 2292},
	"an inbox lost without them":                     {Scripts: clienttest.ReplaceInScript(rebuildBegin, "rm), 'fq', '0', 'ft', '0', 'F', '', 'L', '')", "rm), 'fq', '0', 'ft', '0', 'L', '')"), Known: 140},
	"a change without a version":                     {Scripts: clienttest.ReplaceInScript(namedMerge, "d.n = math.max(now(), d.n + 1)", ""), Known: 14},
	"followers named before it is written down":      {Work: func(w *World) { w.documentsNameAuthorTooEarly = true }, Known: 1038},
}

func TestTheHistoriesOfPulledAuthorsFindEveryInjectedBug(t *testing.T) {
	client := openProjections(t, redistest.Redis(t))
	clienttest.FindBugs(t, client.Client, pulledBugs, 3000, func(number int, bug clienttest.Bug[*World]) error {
		return runPulledHistory(t.Context(), client, number, bug)
	})
}
