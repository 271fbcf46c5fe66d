package leases_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/leases"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paintingsTable is a table of the tests' own.
var paintingsTable = leases.NewTable("paintings", "paintings")

// leaseFixture is a database with a table of paintings. Nodes work on its rows.
type leaseFixture struct {
	t   *testing.T
	url string
	db  *sql.DB

	mu                     sync.Mutex          // guards the fields below
	nodesWorkingOn         map[string][]string // painting: the nodes that work on it now
	stepsByNodeAndPainting map[string]int      // the number of steps, by node + painting
	stepError              error               // what each step returns as its error
	panickingPainting      string              // the painting whose steps panic
}

// eachDatabase runs a test on both databases, with some paintings.
func eachDatabase(t *testing.T, paintings []string, test func(s *leaseFixture)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		s := &leaseFixture{t: t, url: url, db: sqltest.Open(t, sql.Config{URL: url}), nodesWorkingOn: map[string][]string{}, stepsByNodeAndPainting: map[string]int{}}
		s.runSQL(`CREATE TABLE paintings (name TEXT PRIMARY KEY, token TEXT NOT NULL DEFAULT '', node TEXT NOT NULL DEFAULT '', until_us BIGINT NOT NULL DEFAULT 0)`)
		for _, name := range paintings {
			s.runSQL(fmt.Sprintf(`INSERT INTO paintings (name) VALUES ('%s')`, name))
		}
		test(s)
	})
}

// runSQL runs a statement of SQL.
func (s *leaseFixture) runSQL(text string) {
	s.t.Helper()
	if err := s.db.Write(s.t.Context(), func(tx *sql.Tx) error {
		_, err := sqltest.QueryLines(s.t.Context(), tx, text)
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
}

// readLeaseEnd reads when the lease of a painting ends, in microseconds by the database's clock.
var readLeaseEnd = sql.NewStatement("read when the lease of a painting ends", `SELECT until_us FROM paintings WHERE name = $1`)

// leaseEndMicros returns when the lease of a painting ends, in microseconds by the database's clock.
func (s *leaseFixture) leaseEndMicros(painting string) int64 {
	s.t.Helper()
	ends, err := sql.ReadColumn[int64](s.t.Context(), s.db, readLeaseEnd, painting)
	s.must(err)
	return ends[0]
}

// newPool makes the pool of a node, with leases of a length. Every step of its workers first calls Hold.
func (s *leaseFixture) newPool(node string, lease time.Duration) *leases.WorkerPool {
	return leases.NewWorkerPool(leases.Config{
		DB: s.db, Table: paintingsTable, RowsName: "paintings", Node: node, Lease: lease, Enabled: func() bool { return true },
		NewWorker: func(lease *leases.Lease) leases.Worker { return &testWorker{s, node, lease} },
		Log:       slog.New(slog.DiscardHandler),
	})
}

// startPool lets a pool work until the returned function is called, which waits for its end.
func (s *leaseFixture) startPool(pool *leases.WorkerPool) (end func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var group errgroup.Group
	group.Go(func() error { return pool.Run(ctx) })
	return func() {
		cancel()
		if err := group.Wait(); !errors.Is(err, context.Canceled) {
			s.t.Errorf("the pool ended with %v", err)
		}
	}
}

// testWorker is the worker of a painting on a node.
type testWorker struct {
	fixture *leaseFixture
	node    string
	lease   *leases.Lease
}

// Step holds the row, checks that no other node works on the painting, and counts the step.
func (p *testWorker) Step(ctx context.Context) (time.Duration, error) {
	if err := p.lease.Hold(ctx); err != nil {
		return 0, err
	}
	s, name := p.fixture, p.lease.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.nodesWorkingOn[name], p.node) {
		s.nodesWorkingOn[name] = append(s.nodesWorkingOn[name], p.node)
	}
	if len(s.nodesWorkingOn[name]) > 1 {
		s.t.Errorf("%s is held by %v", name, s.nodesWorkingOn[name])
	}
	s.stepsByNodeAndPainting[p.node+name]++
	if name == s.panickingPainting {
		panic("while it works")
	}
	return time.Millisecond, s.stepError
}

// Resign records that the node no longer works on the painting, and resigns the row's lease.
func (p *testWorker) Resign(ctx context.Context) {
	p.fixture.mu.Lock()
	p.fixture.nodesWorkingOn[p.lease.Name] = slices.DeleteFunc(p.fixture.nodesWorkingOn[p.lease.Name], func(node string) bool { return node == p.node })
	p.fixture.mu.Unlock()
	p.lease.Resign(ctx)
}

// countPaintingsWorkedOn returns how many of the given paintings a node has worked on.
func (s *leaseFixture) countPaintingsWorkedOn(node string, paintings ...string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range paintings {
		if s.stepsByNodeAndPainting[node+name] > 0 {
			n++
		}
	}
	return n
}

// Every row is worked on, each by one node at a time. When a node stops, another has its rows long before their leases end.
func TestOneNodeWorksOnARow(t *testing.T) {
	paintings := []string{"a", "b", "c", "d"}
	eachDatabase(t, paintings, func(s *leaseFixture) {
		first, second := s.newPool("first", time.Hour), s.newPool("second", time.Hour)
		endFirst := s.startPool(first)
		eventually.Holds(t, "the first node works on all", func() bool { return s.countPaintingsWorkedOn("first", paintings...) == 4 && first.RunningCount() == 4 })
		endSecond := s.startPool(second)
		s.runSQL(`INSERT INTO paintings (name) VALUES ('e')`)
		first.Wake()
		second.Wake()
		eventually.Holds(t, "one of them works on the new one", func() bool {
			return s.countPaintingsWorkedOn("first", "e")+s.countPaintingsWorkedOn("second", "e") == 1
		})
		endFirst()
		second.Wake()
		eventually.Holds(t, "the second node works on all", func() bool { return s.countPaintingsWorkedOn("second", append(paintings, "e")...) == 5 })
		endSecond()
		if first.RunningCount()+second.RunningCount() > 0 {
			t.Errorf("%d and %d rows are worked on by nodes that ended", first.RunningCount(), second.RunningCount())
		}
	})
}

// A node that crashed holds its row until the lease ends, and not longer. When the node comes back, its Hold returns ErrLeaseLost,
// and its Resign does not end the lease of the other node.
func TestALeaseEndsByItself(t *testing.T) {
	const lease = 300 * time.Millisecond
	eachDatabase(t, []string{"a"}, func(s *leaseFixture) {
		crashed, other := s.newPool("crashed", lease).Lease("a"), s.newPool("other", time.Hour).Lease("a")
		s.must(crashed.Hold(t.Context()))
		if left := time.Until(crashed.Until()); left > lease {
			t.Errorf("the lease of %s ends in %s", lease, left)
		}
		eventually.Holds(t, "another node holds the row", func() bool {
			err := other.Hold(t.Context())
			if err == nil && time.Now().Before(crashed.Until()) {
				t.Errorf("it was taken %s before the end of the lease", time.Until(crashed.Until()))
			}
			if err != nil && !errors.Is(err, leases.ErrLeaseLost) {
				t.Fatal(err)
			}
			return err == nil
		})
		if err := crashed.Hold(t.Context()); !errors.Is(err, leases.ErrLeaseLost) {
			t.Errorf("the crashed node holds it again: %v", err)
		}
		crashed.Resign(t.Context())
		if free := s.freePaintings(s.newPool("third", lease)); len(free) > 0 {
			t.Errorf("%v are free after a resignation by who holds nothing", free)
		}
		other.Resign(t.Context())
		if free := s.freePaintings(s.newPool("third", lease)); !slices.Equal(free, []string{"a"}) {
			t.Errorf("%v are free after the resignation", free)
		}
	})
}

// A holder stops by its own clock before the lease ends by the database's, which may count in steps.
func TestTheHolderStopsBeforeItsLeaseEnds(t *testing.T) {
	eachDatabase(t, []string{"a"}, func(s *leaseFixture) {
		for range 50 { // SQLite counts milliseconds, so one lease may end in time by chance
			lease := s.newPool("node", time.Hour).Lease("a")
			s.must(lease.Hold(t.Context()))
			if after := lease.Until().Sub(time.UnixMicro(s.leaseEndMicros("a"))); after > 0 {
				s.t.Fatalf("the holder goes on for %s after the end", after)
			}
			lease.Resign(t.Context())
		}
	})
}

// The node that has a lease renews it while the work continues.
func TestALeaseIsRenewed(t *testing.T) {
	eachDatabase(t, []string{"a"}, func(s *leaseFixture) {
		lease := s.newPool("node", 200*time.Millisecond).Lease("a")
		s.must(lease.Hold(t.Context()))
		first := lease.Until()
		eventually.Holds(t, "the lease ends later", func() bool {
			s.must(lease.Hold(t.Context()))
			return lease.Until().After(first)
		})
		if lease.Token() == "" || lease.Token() == s.newPool("node", time.Second).Lease("a").Token() {
			t.Error("two processes share a token")
		}
	})
}

// A step that fails is tried again after a pause. A step that returns ErrLeaseLost ends the work, which begins again when the
// row is free.
func TestFailedStepsAreTriedAgain(t *testing.T) {
	eachDatabase(t, []string{"a"}, func(s *leaseFixture) {
		pool := s.newPool("node", time.Hour)
		s.stepError = services.Errorf(services.Unavailable, "the easel fell")
		end := s.startPool(pool)
		defer end()
		steps := func() int { s.mu.Lock(); defer s.mu.Unlock(); return s.stepsByNodeAndPainting["nodea"] }
		eventually.Holds(t, "a failed step is tried again", func() bool { return steps() == 2 && pool.RunningCount() == 1 })
		s.mu.Lock()
		s.stepError = leases.ErrLeaseLost
		s.mu.Unlock()
		eventually.Holds(t, "a worker that lost its lease ends", func() bool { return pool.RunningCount() == 0 })
		s.mu.Lock()
		s.stepError = nil
		s.mu.Unlock()
		before := steps()
		pool.Wake()
		eventually.Holds(t, "the work begins again", func() bool { return steps() > before && pool.RunningCount() == 1 })
	})
}

// A node whose Enabled returns false holds no row, and no node holds a row that is gone.
func TestDisabledNodesAndMissingRowsHoldNoLease(t *testing.T) {
	eachDatabase(t, []string{"a"}, func(s *leaseFixture) {
		off := leases.NewWorkerPool(leases.Config{DB: s.db, Table: paintingsTable, RowsName: "paintings", Lease: time.Hour, Enabled: func() bool { return false }})
		if free := s.freePaintings(off); len(free) > 0 {
			t.Errorf("%v are free for a node that does not work", free)
		}
		if err := off.Lease("a").Hold(t.Context()); !errors.Is(err, leases.ErrLeaseLost) {
			t.Errorf("a node that does not work holds a row: %v", err)
		}
		if err := s.newPool("node", time.Hour).Lease("gone").Hold(t.Context()); !errors.Is(err, leases.ErrLeaseLost) {
			t.Errorf("a row that is gone is held: %v", err)
		}
	})
}

// freePaintings returns what pool.FreeRows lists.
func (s *leaseFixture) freePaintings(pool *leases.WorkerPool) []string {
	s.t.Helper()
	free, err := pool.FreeRows(s.t.Context())
	s.must(err)
	return free
}

func (s *leaseFixture) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// A step that panics waits like one that fails, and the workers of other rows go on.
func TestAPanickingRowDoesNotStopTheOthers(t *testing.T) {
	eachDatabase(t, []string{"a", "b"}, func(s *leaseFixture) {
		s.panickingPainting = "a"
		pool := s.newPool("first", time.Hour)
		end := s.startPool(pool)
		eventually.Holds(t, "both rows are worked on", func() bool { return s.countPaintingsWorkedOn("first", "a", "b") == 2 && pool.RunningCount() == 2 })
		end()
	})
}
