package jobs_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manualClock stands still until it is moved.
type manualClock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// node is an engine on its own database, with kinds of jobs for tests.
type node struct {
	*jobs.Engine
	tb    testing.TB
	db    *sql.DB
	clock *manualClock

	restart func() *node // starts another process under the same name; set by twoNodes
}

// startTime is the time of a new manualClock.
var startTime = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// newNode opens a database as the node with this name. No worker and no heartbeat runs yet.
func newNode(tb testing.TB, url, name string, settings func(*jobs.Config), kinds ...jobs.Kind) *node {
	tb.Helper()
	clock := &manualClock{now: startTime}
	log := slog.New(slog.DiscardHandler)
	n := &node{tb: tb, clock: clock, db: sqltest.Open(tb, sql.Config{URL: url, Node: name, Clock: clock, Log: log})}
	cfg := jobs.Config{DB: n.db, Clock: clock, Log: log, AfterCommitTimeout: 5 * time.Second}
	if settings != nil {
		settings(&cfg)
	}
	n.Engine = jobs.New(cfg)
	n.Register(kinds...)
	return n
}

// sqliteNode makes a node on a SQLite database of its own.
func sqliteNode(t *testing.T, settings func(*jobs.Config), kinds ...jobs.Kind) *node {
	t.Helper()
	return newNode(t, sqltest.SQLite(t), "", settings, kinds...)
}

// eachDatabase runs a test on both databases.
func eachDatabase(t *testing.T, test func(t *testing.T, n *node)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) { test(t, newNode(t, url, "", nil)) })
}

// shortJobKind returns a kind of short job that only calls a function.
func shortJobKind(name string, do func(ctx context.Context, job jobs.Job) error) jobs.Kind {
	return jobs.Kind{Name: name, Class: jobs.ShortClass, Each: do, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser}
}

// doNothing is the work of a job that has no effect.
func doNothing(context.Context, jobs.Job) error { return nil }

func (n *node) must(err error) {
	n.tb.Helper()
	if err != nil {
		n.tb.Fatal(err)
	}
}

// beat runs one turn of a heartbeat.
func (n *node) beat(heart *jobs.Heartbeat) {
	n.tb.Helper()
	eventually.SucceedsDespiteTimeouts(n.tb, func() error { return heart.RunOnce(n.tb.Context()) })
}

// beatBoth beats for another node and for this one, and checks that this node finds no count behind while the other one lives. On a
// busy machine the other node may seem silent: then both beat again.
func (n *node) beatBoth(heart *jobs.Heartbeat, other *node) {
	n.tb.Helper()
	eventually.Holds(n.tb, "no count is behind while the node that holds the jobs lives", func() bool {
		_, err := jobs.RecordHeartbeat(n.tb.Context(), other.db, false)
		n.must(err)
		n.beat(heart)
		return !n.AnyCountsBehind()
	})
}

func (n *node) enqueue(made ...jobs.NewJob) {
	n.tb.Helper()
	ctx := n.tb.Context()
	n.must(n.db.Write(ctx, func(tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, made...) }))
}

// claim takes all jobs that are due, as a worker does.
func (n *node) claim() []jobs.Job { return n.claimOf(n.Kinds()...) }

// claimOf takes all jobs of some kinds that are due.
func (n *node) claimOf(kinds ...string) []jobs.Job {
	n.tb.Helper()
	claimed, err := jobs.Claim(n.tb.Context(), n.db, kinds, 1000, 30*time.Second, 0)
	n.must(err)
	return claimed
}

// queueCounts returns how many jobs wait and how many are dead.
func (n *node) queueCounts() (waiting, dead int) {
	n.tb.Helper()
	waiting, dead, _, err := jobs.JobCounts(n.tb.Context(), n.db)
	n.must(err)
	return waiting, dead
}

// countLogEntries is how many entries of the changelog the commands of a name have appended.
func (n *node) countLogEntries(name string) int {
	n.tb.Helper()
	list, err := changelog.LogAfter(n.tb.Context(), n.db, name, 0, 100)
	n.must(err)
	return len(list)
}

// userFromKeyLength is the UsersOf of the tests' kinds: the user's ID is the length of the key.
func userFromKeyLength(_ context.Context, job jobs.Job) ([]services.UserID, bool, error) {
	return []services.UserID{services.UserID(len(job.Key))}, false, nil
}
