package jobs_test

import (
	"context"
	"testing"
	"time"

	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// openAsTwoNodes opens one PostgreSQL database under two node names. databaseOfA is the testDB of a.
func openAsTwoNodes(t *testing.T) (a, b *sql.DB, databaseOfA *testDB) {
	t.Helper()
	url := sqltest.Postgres(t)
	clock := sqltest.NewClock()
	open := func(name string) *sql.DB {
		return sqltest.Open(t, sql.Config{URL: url, Node: name, Clock: clock})
	}
	a, b = open("a"), open("b")
	return a, b, &testDB{&sqltest.TestDB{DB: a, T: t, Ctx: t.Context(), Clock: clock, URL: url}}
}

// backdateHeartbeat sets the last heartbeat of a node to the time silent ago, by the database's clock.
func backdateHeartbeat(b *testDB, node string, silent time.Duration) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		return execute(b.Ctx, tx, `UPDATE nodes SET beat_at = {database clock} - $2 WHERE name = $1`, node, silent.Microseconds())
	})
}

func TestHeartbeatsGoByTheClockOfTheDatabase(t *testing.T) {
	a, b, of := openAsTwoNodes(t)
	of.Clock.Advance(-time.Hour)
	must(jobs.RecordHeartbeat(of.Ctx, a, false))(t)
	of.Clock.Advance(24 * time.Hour)
	nodes := must(jobs.RecordHeartbeat(of.Ctx, b, false))(t)
	equal(t, len(nodes), 2)
	for _, node := range nodes {
		if node.SilentFor < 0 || node.SilentFor > time.Minute {
			t.Errorf("%s has been silent for %v", node.Name, node.SilentFor)
		}
	}
	if apart := nodes[1].ClockAhead - nodes[0].ClockAhead; apart < 24*time.Hour-time.Minute || apart > 24*time.Hour+time.Minute {
		t.Errorf("the clock of b is %v ahead of that of a, want a day", apart)
	}
	if err := jobs.RemoveOwnNode(of.Ctx, a); err != nil {
		t.Fatal(err)
	}
	nodes = must(jobs.RecordHeartbeat(of.Ctx, b, false))(t)
	equal(t, len(nodes), 1)
	equal(t, nodes[0].Name, "b")
}

// The jobs of a silent node are freed, and its later writes to them have no effect.
func TestJobsOfASilentNodeAreFreed(t *testing.T) {
	a, b, of := openAsTwoNodes(t)
	for _, node := range []*sql.DB{a, b} {
		must(jobs.RecordHeartbeat(of.Ctx, node, false))(t)
	}
	of.enqueue(newJobOfKindA("one", ""), newJobOfKindA("two", ""))
	claimed := must(jobs.Claim(of.Ctx, a, []string{"a"}, 2, jobLease, 0))(t)
	equal(t, payloadsOf(claimed), []string{"one", "two"})
	equal(t, must(jobs.JobsHeldBy(of.Ctx, b, []string{"b"}, 10))(t), []jobs.Job(nil))
	equal(t, payloadsOf(must(jobs.JobsHeldBy(of.Ctx, b, []string{"a", "b"}, 10))(t)), []string{"one", "two"})

	backdateHeartbeat(of, "a", time.Minute) // minutes, because the clock of the database goes on
	equal(t, must(jobs.FreeJobsOf(of.Ctx, b, []string{"a"}, 2*time.Minute))(t), 0)
	equal(t, len(must(jobs.Claim(of.Ctx, b, []string{"a"}, 2, jobLease, 0))(t)), 0)

	backdateHeartbeat(of, "a", 3*time.Minute)
	equal(t, must(jobs.FreeJobsOf(of.Ctx, b, []string{"a"}, 2*time.Minute))(t), 2)
	taken := must(jobs.Claim(of.Ctx, b, []string{"a"}, 2, jobLease, 0))(t)
	equal(t, payloadsOf(taken), []string{"one", "two"})
	equal(t, len(must(jobs.JobsHeldBy(of.Ctx, b, []string{"b"}, 10))(t)), 2)

	equal(t, must(jobs.FinishIfHeld(of.Ctx, a, claimed))(t), 0)
	if err := jobs.Extend(of.Ctx, a, claimed, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := jobs.Release(of.Ctx, a, claimed, of.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	if dead, err := jobs.Fail(of.Ctx, a, claimed[0], context.DeadlineExceeded, of.Clock.Now(), 1); dead || err != nil {
		t.Errorf("the former holder buried a job: %t, %v", dead, err)
	}
	equal(t, len(must(jobs.JobsHeldBy(of.Ctx, b, []string{"b"}, 10))(t)), 2)
	equal(t, len(must(jobs.RemainingJobIDs(of.Ctx, b, []int64{taken[0].ID, taken[1].ID}))(t)), 2)
	equal(t, must(jobs.FinishIfHeld(of.Ctx, b, taken))(t), 2)
	equal(t, len(must(jobs.RemainingJobIDs(of.Ctx, b, []int64{taken[0].ID, taken[1].ID}))(t)), 0)
}

// A new process frees the jobs that a former process of its name holds, even if that process's last heartbeat is recent. It frees
// no jobs of another node. Jobs that a transaction of the former process has locked stay until the transaction ends.
func TestARestartedNodeFreesItsJobs(t *testing.T) {
	a, b, of := openAsTwoNodes(t)
	for _, node := range []*sql.DB{a, b} {
		must(jobs.RecordHeartbeat(of.Ctx, node, false))(t)
	}
	of.enqueue(newJobOfKindA("one", ""), newJobOfKindA("two", ""), newJobOfKindA("three", ""), newJobOfKindA("four", ""))
	held := must(jobs.Claim(of.Ctx, a, []string{"a"}, 2, jobLease, 0))(t)
	must(jobs.Claim(of.Ctx, b, []string{"a"}, 1, jobLease, 0))(t)
	after := sqltest.Open(t, sql.Config{URL: of.URL, Node: "a", Clock: of.Clock})
	own := must(jobs.Claim(of.Ctx, after, []string{"a"}, 1, jobLease, 0))(t)
	equal(t, payloadsOf(own), []string{"four"})

	free := func(want int, leaves ...string) {
		t.Helper()
		freed, left, err := jobs.FreeOwnJobs(of.Ctx, after, 10)
		equal(t, []any{freed, payloadsOf(left), err}, []any{want, leaves, error(nil)})
	}
	of.MustWrite(func(tx *sql.Tx) error {
		if _, err := jobs.FinishInTx(of.Ctx, tx, held[:1]); err != nil {
			return err
		}
		free(1, "one")
		free(0, "one")
		return nil
	})
	free(0)
	equal(t, payloadsOf(must(jobs.Claim(of.Ctx, b, []string{"a"}, 3, jobLease, 0))(t)), []string{"two"})
	equal(t, must(jobs.FinishIfHeld(of.Ctx, after, own))(t), 1)
	equal(t, must(jobs.FinishIfHeld(of.Ctx, a, held))(t), 0)
}

// If a process ends, its transactions end too, even in a statement that would run for long.
func TestAStatementEndsWithItsClient(t *testing.T) {
	_, b, of := openAsTwoNodes(t)
	through, trips := sqltest.CountRoundTrips(t, of.URL)
	gone := sqltest.Open(t, sql.Config{URL: through, Node: "gone", Clock: of.Clock})
	of.enqueue(newJobOfKindA("one", ""))
	claimed := must(jobs.Claim(of.Ctx, b, []string{"a"}, 1, jobLease, 0))(t)
	ended, locked := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- gone.Write(of.Ctx, func(tx *sql.Tx) error {
			if _, err := jobs.FinishInTx(of.Ctx, tx, claimed); err != nil {
				return err
			}
			close(locked)
			return execute(of.Ctx, tx, `SELECT pg_sleep(60)`)
		})
	}()
	<-locked
	trips.CutConnections()
	if err := <-ended; err == nil {
		t.Error("the transaction was committed")
	}
	ctx, cancel := context.WithTimeout(of.Ctx, 20*time.Second)
	defer cancel()
	if finished, err := jobs.FinishIfHeld(ctx, b, claimed); finished != 1 || err != nil {
		t.Errorf("%d jobs finished, %v: a statement holds its rows after its client has gone", finished, err)
	}
}

// Nodes stay in the list for a day after their last heartbeat. A node without a name is not in it.
func TestNodesAreForgottenAfterADay(t *testing.T) {
	a, b, of := openAsTwoNodes(t)
	for _, node := range []*sql.DB{a, b} {
		must(jobs.RecordHeartbeat(of.Ctx, node, false))(t)
	}
	backdateHeartbeat(of, "a", 23*time.Hour)
	equal(t, must(jobs.ForgetNodes(of.Ctx, b))(t), 0)
	backdateHeartbeat(of, "a", 25*time.Hour)
	equal(t, must(jobs.ForgetNodes(of.Ctx, b))(t), 1)
	eachTestDB(t, func(b *testDB) {
		equal(b.T, len(must(jobs.RecordHeartbeat(b.Ctx, b.DB, false))(b.T)), 0)
		freed, left, err := jobs.FreeOwnJobs(b.Ctx, b.DB, 10)
		equal(b.T, []any{freed, len(left), err}, []any{0, 0, error(nil)})
		if err := jobs.RemoveOwnNode(b.Ctx, b.DB); err != nil {
			b.T.Fatal(err)
		}
	})
}
