package store_test

import (
	"context"
	"testing"
	"time"

	"tidings/services/store"
	"tidings/services/store/storetest"
)

// openNodes opens one PostgreSQL database by two names.
func openNodes(t *testing.T) (a, b *store.Store, bundleOfA *bundle) {
	t.Helper()
	url := storetest.Postgres(t)
	clock := newClock()
	open := func(name string) *store.Store {
		return storetest.Open(t, store.Config{URL: url, Node: name, Clock: clock})
	}
	a, b = open("a"), open("b")
	return a, b, &bundle{t: t, ctx: t.Context(), Store: a, clock: clock, url: url}
}

// silence lets the last heartbeat of a node be so long ago, by the database's clock.
func silence(b *bundle, node string, silent time.Duration) {
	b.t.Helper()
	b.write(func(tx *store.Tx) error {
		return tx.Exec(b.ctx, `UPDATE nodes SET beat_at = {database clock} - $2 WHERE name = $1`, node, silent.Microseconds())
	})
}

func TestHeartbeatsGoByTheClockOfTheDatabase(t *testing.T) {
	a, b, of := openNodes(t)
	of.clock.advance(-time.Hour)
	must(a.Beat(of.ctx))(t)
	of.clock.advance(24 * time.Hour)
	nodes := must(b.Beat(of.ctx))(t)
	equal(t, len(nodes), 2)
	for _, node := range nodes {
		if node.Silent < 0 || node.Silent > time.Minute {
			t.Errorf("%s has been silent for %v", node.Name, node.Silent)
		}
	}
	if apart := nodes[1].Ahead - nodes[0].Ahead; apart < 24*time.Hour-time.Minute || apart > 24*time.Hour+time.Minute {
		t.Errorf("the clock of b is %v ahead of that of a, want a day", apart)
	}
	if err := a.Leave(of.ctx); err != nil {
		t.Fatal(err)
	}
	nodes = must(b.Beat(of.ctx))(t)
	equal(t, len(nodes), 1)
	equal(t, nodes[0].Name, "b")
}

// What a silent node holds is freed, and what it does with it from then on has no effect.
func TestJobsOfASilentNodeAreFreed(t *testing.T) {
	a, b, of := openNodes(t)
	for _, node := range []*store.Store{a, b} {
		must(node.Beat(of.ctx))(t)
	}
	of.enqueue(job("one", ""), job("two", ""))
	claimed := must(a.Claim(of.ctx, []string{"a"}, 2, lease))(t)
	equal(t, names(claimed), []string{"one", "two"})
	equal(t, must(b.HeldBy(of.ctx, []string{"b"}, 10))(t), []store.Job(nil))
	equal(t, names(must(b.HeldBy(of.ctx, []string{"a", "b"}, 10))(t)), []string{"one", "two"})

	silence(of, "a", time.Second)
	equal(t, must(b.FreeJobsOf(of.ctx, []string{"a"}, 2*time.Second))(t), 0)
	equal(t, len(must(b.Claim(of.ctx, []string{"a"}, 2, lease))(t)), 0)

	silence(of, "a", 3*time.Second)
	equal(t, must(b.FreeJobsOf(of.ctx, []string{"a"}, 2*time.Second))(t), 2)
	taken := must(b.Claim(of.ctx, []string{"a"}, 2, lease))(t)
	equal(t, names(taken), []string{"one", "two"})
	equal(t, len(must(b.HeldBy(of.ctx, []string{"b"}, 10))(t)), 2)

	equal(t, must(a.Finish(of.ctx, claimed))(t), 0)
	if err := a.Extend(of.ctx, claimed, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(of.ctx, claimed, of.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if dead, err := a.Fail(of.ctx, claimed[0], context.DeadlineExceeded, of.clock.Now(), 1); dead || err != nil {
		t.Errorf("the former holder buried a job: %t, %v", dead, err)
	}
	equal(t, len(must(b.HeldBy(of.ctx, []string{"b"}, 10))(t)), 2)
	equal(t, len(must(b.Remaining(of.ctx, []int64{taken[0].ID, taken[1].ID}))(t)), 2)
	equal(t, must(b.Finish(of.ctx, taken))(t), 2)
	equal(t, len(must(b.Remaining(of.ctx, []int64{taken[0].ID, taken[1].ID}))(t)), 0)
}

// A process frees what its name holds from before, however lately that was heard of, and nothing of another one. What a
// transaction of the process before has locked is left until it ends.
func TestANodeFreesWhatItHeldBefore(t *testing.T) {
	a, b, of := openNodes(t)
	for _, node := range []*store.Store{a, b} {
		must(node.Beat(of.ctx))(t)
	}
	of.enqueue(job("one", ""), job("two", ""), job("three", ""), job("four", ""))
	held := must(a.Claim(of.ctx, []string{"a"}, 2, lease))(t)
	must(b.Claim(of.ctx, []string{"a"}, 1, lease))(t)
	after := storetest.Open(t, store.Config{URL: of.url, Node: "a", Clock: of.clock})
	own := must(after.Claim(of.ctx, []string{"a"}, 1, lease))(t)
	equal(t, names(own), []string{"four"})

	free := func(want int, leaves ...string) {
		t.Helper()
		freed, left, err := after.FreeOwnJobs(of.ctx, 10)
		equal(t, []any{freed, names(left), err}, []any{want, leaves, error(nil)})
	}
	of.write(func(tx *store.Tx) error {
		if _, err := tx.FinishJobs(of.ctx, held[:1]); err != nil {
			return err
		}
		free(1, "one")
		free(0, "one")
		return nil
	})
	free(0)
	equal(t, names(must(b.Claim(of.ctx, []string{"a"}, 3, lease))(t)), []string{"two"})
	equal(t, must(after.Finish(of.ctx, own))(t), 1)
	equal(t, must(a.Finish(of.ctx, held))(t), 0)
}

// The transactions of a process that is gone end with their statements, however long those would run.
func TestAStatementEndsWithItsClient(t *testing.T) {
	_, b, of := openNodes(t)
	through, trips := storetest.CountTrips(t, of.url)
	gone := storetest.Open(t, store.Config{URL: through, Node: "gone", Clock: of.clock})
	of.enqueue(job("one", ""))
	claimed := must(b.Claim(of.ctx, []string{"a"}, 1, lease))(t)
	ended, locked := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- gone.Write(of.ctx, func(tx *store.Tx) error {
			if _, err := tx.FinishJobs(of.ctx, claimed); err != nil {
				return err
			}
			close(locked)
			return tx.Exec(of.ctx, `SELECT pg_sleep(60)`)
		})
	}()
	<-locked
	trips.Cut()
	if err := <-ended; err == nil {
		t.Error("the transaction was committed")
	}
	ctx, cancel := context.WithTimeout(of.ctx, 20*time.Second)
	defer cancel()
	if finished, err := b.Finish(ctx, claimed); finished != 1 || err != nil {
		t.Errorf("%d jobs finished, %v: a statement holds its rows after its client has gone", finished, err)
	}
}

// The list keeps nodes for a day after they were heard of, and a node that has no name is not on it.
func TestNodesAreForgottenAfterADay(t *testing.T) {
	a, b, of := openNodes(t)
	for _, node := range []*store.Store{a, b} {
		must(node.Beat(of.ctx))(t)
	}
	silence(of, "a", 23*time.Hour)
	equal(t, must(b.ForgetNodes(of.ctx))(t), 0)
	silence(of, "a", 25*time.Hour)
	equal(t, must(b.ForgetNodes(of.ctx))(t), 1)
	each(t, func(b *bundle) {
		equal(b.t, len(must(b.Beat(b.ctx))(b.t)), 0)
		freed, left, err := b.FreeOwnJobs(b.ctx, 10)
		equal(b.t, []any{freed, len(left), err}, []any{0, 0, error(nil)})
		if err := b.Leave(b.ctx); err != nil {
			b.t.Fatal(err)
		}
	})
}
