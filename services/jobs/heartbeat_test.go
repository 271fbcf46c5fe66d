package jobs_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

// twoNodes are two nodes on one PostgreSQL. Jobs of "paint" change two counts of one user, jobs of "flood" a count of everyone. Jobs of
// "lost" have a key that cannot be read, and jobs of "dry" change no count. other.restart starts the other node anew.
func twoNodes(t *testing.T) (n, other *node) {
	t.Helper()
	url := sqltest.Postgres(t)
	kinds := []jobs.Kind{
		{Name: "paint", Each: doNothing, NamesUser: jobs.NoUser, ChangedCounts: jobs.CountsOf(userFromKeyLength, "RED", "BLUE")},
		{Name: "flood", Each: doNothing, NamesUser: jobs.NoUser, ChangedCounts: jobs.CountsOf(jobs.Everyone, "RED")},
		{Name: "lost", Each: doNothing, NamesUser: jobs.NoUser, ChangedCounts: jobs.CountsOf(func(context.Context, jobs.Job) ([]services.UserID, bool, error) {
			return nil, false, errors.New("the key cannot be read")
		}, "BLUE")},
		shortJobKind("dry", doNothing),
	}
	n, other = newNode(t, url, "here", nil, kinds...), newNode(t, url, "gone", nil, kinds...)
	other.restart = func() *node { return newNode(t, url, "gone", nil, kinds...) }
	return n, other
}

// beatAndClaim lets the node beat, and then claim all due jobs.
func (n *node) beatAndClaim() []jobs.Job {
	n.tb.Helper()
	_, err := jobs.RecordHeartbeat(n.tb.Context(), n.db, false)
	n.must(err)
	return n.claim()
}

// While a node that holds jobs is silent, CountsBehind names the counts that the jobs change, and no others. Then the jobs are
// freed, and CountsBehind names their counts until they are done.
func TestJobsOfASilentNodeAreBehindUntilTheyAreDone(t *testing.T) {
	n, other := twoNodes(t)
	heart := n.Heartbeat()
	n.must(heart.Begin(t.Context()))
	n.enqueue(jobs.KeyedJob("paint", "1"), jobs.KeyedJob("paint", "22"), jobs.KeyedJob("dry", "333"))
	held := other.beatAndClaim()
	if len(held) != 3 {
		t.Fatalf("the other node claimed %v", held)
	}
	n.beatBoth(heart, other)
	eventually.Holds(t, "the node is silent", func() bool {
		n.beat(heart)
		return n.AnyCountsBehind()
	})
	for user, want := range map[services.UserID]jobs.BehindSince{1: {"RED": startTime, "BLUE": startTime}, 2: {"RED": startTime, "BLUE": startTime}, 3: nil} {
		if got := n.CountsBehind(user); !maps.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("of user %d %v are behind, want %v", user, got, want)
		}
	}
	if early := n.claim(); len(early) > 0 {
		t.Errorf("%v could be claimed before the node was dead", early)
	}
	var freed []jobs.Job
	eventually.Holds(t, "the jobs are freed", func() bool {
		n.beat(heart)
		freed = append(freed, n.claim()...)
		return len(freed) == len(held)
	})
	n.beat(heart)
	if n.CountsBehind(1) == nil {
		t.Error("nothing is behind although the jobs are not done yet")
	}
	if done, err := jobs.FinishIfHeld(t.Context(), other.db, held); done != 0 || err != nil {
		t.Errorf("the silent node finished %d jobs that others hold, %v", done, err)
	}
	n.must(n.RunJobs(t.Context(), freed))
	n.beat(heart)
	if n.AnyCountsBehind() {
		t.Error("counts are behind although the jobs are done")
	}
}

// While the jobs of a silent node cannot be read, any count may lack a change. Once the jobs are done, no count does.
func TestAllCountsAreBehindOnlyWhileASilentNodesJobsAreUnknown(t *testing.T) {
	url := sqltest.Postgres(t)
	answers := false
	kind := jobs.Kind{Name: "paint", Each: doNothing, NamesUser: jobs.NoUser, ChangedCounts: jobs.CountsOf(func(ctx context.Context, job jobs.Job) ([]services.UserID, bool, error) {
		if !answers {
			return nil, false, services.Errorf(services.Unavailable, "the database does not answer")
		}
		return userFromKeyLength(ctx, job)
	}, "RED")}
	n, other := newNode(t, url, "here", nil, kind), newNode(t, url, "gone", nil, kind)
	heart := n.Heartbeat()
	n.must(heart.Begin(t.Context()))
	n.enqueue(jobs.KeyedJob("paint", "1"))
	held := other.beatAndClaim()
	eventually.Holds(t, "the node is silent", func() bool {
		_ = heart.RunOnce(t.Context()) // fails while the job cannot be read
		return n.AnyCountsBehind()
	})
	if got := n.CountsBehind(2); len(got) != len(services.Sources) {
		t.Errorf("of another user %v are behind, want all", got)
	}
	answers = true
	if done, err := jobs.FinishIfHeld(t.Context(), other.db, held); done != 1 || err != nil {
		t.Fatalf("the node finished %d jobs, %v", done, err)
	}
	n.beat(heart)
	if n.AnyCountsBehind() {
		t.Error("counts are behind although the jobs are done")
	}
}

// Jobs that are overdue and cannot be read do not delay the takeover of a dead node's jobs. Any count may lack a change
// until they can be read.
func TestTheTakeoverDoesNotWaitForOverdueJobs(t *testing.T) {
	url := sqltest.Postgres(t)
	answers := false
	unknown := func(context.Context, jobs.Job) ([]services.UserID, bool, error) {
		if answers {
			return []services.UserID{7}, false, nil
		}
		return nil, false, services.Errorf(services.Unavailable, "the database does not answer")
	}
	kinds := []jobs.Kind{
		{Name: "paint", Each: doNothing, NamesUser: jobs.NoUser, ChangedCounts: jobs.CountsOf(userFromKeyLength, "RED")},
		{Name: "slow", Class: jobs.BulkClass, Each: doNothing, NamesUser: jobs.NoUser, ChangedCounts: jobs.CountsOf(unknown, "BLUE")},
	}
	n, other := newNode(t, url, "here", nil, kinds...), newNode(t, url, "gone", nil, kinds...)
	heart := n.Heartbeat()
	n.must(heart.Begin(t.Context()))
	n.enqueue(jobs.KeyedJob("paint", "1"))
	if held := other.beatAndClaim(); len(held) != 1 {
		t.Fatalf("the other node claimed %v", held)
	}
	n.enqueue(jobs.KeyedJob("slow", ""))
	n.clock.advance(time.Second)
	var freed []jobs.Job
	eventually.Holds(t, "the job of the dead node is freed", func() bool {
		_ = heart.RunOnce(t.Context()) // fails while the overdue job cannot be read
		var err error
		freed, err = jobs.Claim(t.Context(), n.db, []string{"paint"}, 10, 30*time.Second, 0)
		n.must(err)
		return len(freed) == 1
	})
	for user := range services.UserID(3) {
		if got := n.CountsBehind(user); len(got) != len(services.Sources)+map[bool]int{true: 1}[user == 1] {
			t.Errorf("of user %d %v are behind, want all", user, got)
		}
	}
	answers = true
	n.must(n.RunJobs(t.Context(), freed))
	n.beat(heart)
	if got := n.CountsBehind(7); len(got) != 1 || got["BLUE"].IsZero() {
		t.Errorf("of the user of the overdue job %v are behind, want BLUE alone", got)
	}
	if got := n.CountsBehind(1); got != nil {
		t.Errorf("of the user of the job that is done %v are behind", got)
	}
}

// A job may concern any user. Then the counts that it changes are behind for all users: because of its kind, because its key cannot be
// read, or because its kind belongs to another release.
func TestAJobOfASilentNodeMayConcernEveryone(t *testing.T) {
	for kind, want := range map[string][]services.Source{"flood": {"RED"}, "lost": {"BLUE"}, "of the next version": services.Sources} {
		t.Run(kind, func(t *testing.T) {
			n, other := twoNodes(t)
			if kind == "of the next version" {
				other.Register(shortJobKind(kind, doNothing))
			}
			heart := n.Heartbeat()
			n.must(heart.Begin(t.Context()))
			n.enqueue(jobs.KeyedJob(kind, "1"))
			if held := other.beatAndClaim(); len(held) != 1 {
				t.Fatalf("the other node claimed %v", held)
			}
			eventually.Holds(t, "the node is silent", func() bool {
				n.beat(heart)
				return n.AnyCountsBehind()
			})
			for user := range services.UserID(3) {
				if got := slices.Sorted(maps.Keys(n.CountsBehind(user))); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
					t.Errorf("of user %d %v are behind, want %v", user, got, want)
				}
			}
		})
	}
}

// A node that starts again under its name frees its own jobs at once, and no other node's.
func TestARestartedNodeFreesItsOwnJobs(t *testing.T) {
	n, before := twoNodes(t)
	n.enqueue(jobs.KeyedJob("paint", "1"))
	before.beatAndClaim()
	n.must(n.Heartbeat().Begin(t.Context()))
	if claimed := n.claim(); len(claimed) > 0 {
		t.Fatal("a node frees what another one holds")
	}
	after := before.restart()
	n.must(after.Heartbeat().Begin(t.Context()))
	if claimed := after.claim(); len(claimed) != 1 {
		t.Errorf("%d jobs were free after the start, want 1", len(claimed))
	}
}

// A job that the earlier process still locks at the start is freed once PostgreSQL has ended its transaction, long before its
// lease runs out. Until the job is done its counts are behind, and so are the counts of a job that is overdue because of that
// lock.
func TestAJobLockedByACrashedProcessIsFreedAfterItsTransaction(t *testing.T) {
	_, before := twoNodes(t)
	before.enqueue(jobs.KeyedJob("paint", "1"))
	held := before.beatAndClaim()
	before.enqueue(jobs.KeyedJob("flood", ""))
	after := before.restart()
	after.clock.advance(time.Second)
	heart := after.Heartbeat()
	var freed []jobs.Job
	rolledBack := before.db.Write(t.Context(), func(tx *sql.Tx) error {
		if _, err := jobs.FinishInTx(t.Context(), tx, held); err != nil {
			return err
		}
		after.must(heart.Begin(t.Context()))
		for range 3 {
			if after.CountsBehind(1) == nil {
				t.Error("nothing is behind although the job is not done")
			}
			after.beat(heart)
			freed = append(freed, after.claimOf("paint")...)
		}
		if got := after.CountsBehind(2); len(got) != 1 || got["RED"].IsZero() {
			t.Errorf("of everybody %v are behind, want RED", got)
		}
		return errUpdateFailed
	})
	if !errors.Is(rolledBack, errUpdateFailed) || len(freed) > 0 {
		t.Fatalf("%v; claimed %v while it was locked", rolledBack, freed)
	}
	after.beat(heart)
	if freed = after.claim(); len(freed) != 2 {
		t.Fatalf("claimed %v after the transaction, want two jobs", freed)
	}
	after.must(after.RunJobs(t.Context(), freed))
	after.beat(heart)
	if after.AnyCountsBehind() {
		t.Error("counts are behind although the jobs are done")
	}
}

// A node crashes and restarts under its name before the others notice its silence, while PostgreSQL still runs a transaction
// of the earlier process. Until the jobs are done, the others report the counts of the locked job and of overdue jobs as behind.
func TestOtherNodesDetectAReplacedProcess(t *testing.T) {
	n, before := twoNodes(t)
	heart := n.Heartbeat()
	n.must(heart.Begin(t.Context()))
	n.enqueue(jobs.KeyedJob("paint", "1"))
	held := before.beatAndClaim()
	n.beat(heart)
	n.enqueue(jobs.KeyedJob("flood", ""))
	n.clock.advance(time.Second)
	after := before.restart()
	again := after.Heartbeat()
	rolledBack := before.db.Write(t.Context(), func(tx *sql.Tx) error {
		if _, err := jobs.FinishInTx(t.Context(), tx, held); err != nil {
			return err
		}
		after.must(again.Begin(t.Context()))
		n.beat(heart)
		if got := slices.Sorted(maps.Keys(n.CountsBehind(1))); !slices.Equal(got, []services.Source{"BLUE", "RED"}) {
			t.Errorf("of the user of the locked job %v are behind, want BLUE and RED", got)
		}
		if got := n.CountsBehind(2); len(got) != 1 || got["RED"].IsZero() {
			t.Errorf("of everybody %v are behind, want RED of the overdue job", got)
		}
		return errUpdateFailed
	})
	if !errors.Is(rolledBack, errUpdateFailed) {
		t.Fatal(rolledBack)
	}
	after.beat(again)
	claimed := after.claim()
	n.beat(heart)
	after.must(after.RunJobs(t.Context(), claimed))
	n.beat(heart)
	if len(claimed) != 2 || n.AnyCountsBehind() {
		t.Errorf("%d jobs were done, want 2; counts are behind: %v", len(claimed), n.AnyCountsBehind())
	}
}

// After a clean shutdown and a restart no count is behind, because no crashed process holds jobs.
func TestNoCountIsBehindAfterACleanRestart(t *testing.T) {
	n, before := twoNodes(t)
	heart := n.Heartbeat()
	n.must(heart.Begin(t.Context()))
	before.must(before.Heartbeat().Begin(t.Context()))
	n.beat(heart)
	n.must(jobs.RemoveOwnNode(t.Context(), before.db))
	n.beat(heart)
	after := before.restart()
	after.must(after.Heartbeat().Begin(t.Context()))
	n.enqueue(jobs.KeyedJob("flood", ""))
	if held := after.claim(); len(held) != 1 {
		t.Fatalf("claimed %v", held)
	}
	n.beatBoth(heart, after)
}

// Jobs whose claim or end got no answer from SQL are released with the next heartbeat.
func TestJobsInDoubtAreReleased(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		n := newNode(t, url, "here", nil, shortJobKind("paint", doNothing))
		n.enqueue(jobs.KeyedJob("paint", ""))
		claimed := n.claim()
		if again := n.claim(); len(claimed) != 1 || len(again) > 0 {
			t.Fatalf("claimed %v, and then %v", claimed, again)
		}
		n.MarkPossiblyLeased(claimed)
		n.must(n.Heartbeat().RunOnce(t.Context()))
		if again := n.claim(); len(again) != 1 {
			t.Errorf("%d jobs were given back, want 1", len(again))
		}
		if done, err := jobs.FinishIfHeld(t.Context(), n.db, claimed); done != 0 || err != nil {
			t.Errorf("the job was finished under its former token: %d, %v", done, err)
		}
	})
}

// A registered function gets the nodes when the heartbeat begins and, on PostgreSQL, after each beat. Its error fails the beat.
func TestOnBeatReceivesTheNodesOfEachBeat(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		n := newNode(t, url, "here", nil)
		shared := !strings.HasPrefix(url, "sqlite:") // with other nodes
		var heard []int
		failure := errors.New("of the test")
		n.OnBeat(func(_ context.Context, nodes []jobs.Node) error {
			heard = append(heard, len(nodes))
			if len(heard) == 2 {
				return failure
			}
			return nil
		})
		heart := n.Heartbeat()
		n.must(heart.Begin(t.Context()))
		if err := heart.RunOnce(t.Context()); errors.Is(err, failure) != shared {
			t.Errorf("the beat ended with %v", err)
		}
		want := []int{0}
		if shared {
			want = []int{1, 1}
		}
		if !slices.Equal(heard, want) {
			t.Errorf("of nodes were heard %v, want %v", heard, want)
		}
	})
}

// When a node shuts down, it releases at once the jobs that it may hold.
func TestANodeReleasesJobsInDoubtAtItsEnd(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		n.Register(shortJobKind("paint", doNothing))
		heart := n.Heartbeat()
		n.must(heart.Begin(t.Context()))
		n.enqueue(jobs.KeyedJob("paint", ""))
		n.MarkPossiblyLeased(n.claim())
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := heart.Run(stopped); !errors.Is(err, context.Canceled) {
			t.Errorf("the heartbeat ended with %v", err)
		}
		if claimed := n.claim(); len(claimed) != 1 {
			t.Errorf("%d jobs can be claimed", len(claimed))
		}
	})
}
