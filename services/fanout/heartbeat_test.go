package fanout_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

// newWorldWithOtherNode makes a world on PostgreSQL, and opens its database as another node too.
func newWorldWithOtherNode(t *testing.T) (w *fanouttest.World, other *sql.DB) {
	t.Helper()
	url := sqltest.Postgres(t)
	w = fanouttest.New(t, fanouttest.Options{SQLURL: url, NodeName: "here", RedisURL: "embedded"})
	return w, sqltest.Open(t, sql.Config{URL: url, Node: "gone", Clock: w.Clock, Log: w.Log})
}

// claimJobsOnOtherNode lets the other node claim everything that is due. The other node sends a last heartbeat before.
func claimJobsOnOtherNode(w *fanouttest.World, other *sql.DB) []jobs.Job {
	w.TB.Helper()
	_, err := jobs.RecordHeartbeat(w.TB.Context(), other, false)
	w.Must(err)
	jobs, err := jobs.Claim(w.TB.Context(), other, w.Fanout.Kinds(), 1000, 30*time.Second, 0)
	w.Must(err)
	return jobs
}

// beat runs one turn of a node's heartbeat.
func beat(w *fanouttest.World, heart *jobs.Heartbeat) {
	w.TB.Helper()
	eventually.SucceedsDespiteTimeouts(w.TB, func() error { return heart.RunOnce(w.TB.Context()) })
}

// While a node that holds jobs is silent, only the counts that these jobs change are reported as behind the facts. Then the jobs are
// freed, and these counts are behind until the jobs are done.
func TestJobsOfASilentNodeAreBehindUntilTheyAreDone(t *testing.T) {
	w, other := newWorldWithOtherNode(t)
	users := w.MakeNeverSeenUsers(4)
	heart := w.Fanout.Heartbeat()
	w.Must(heart.Begin(t.Context()))
	enqueue(w, fanout.MuteEndJob(users[0], users[3], time.Time{}), fanout.ProjectSeenJob(users[1]), fanout.FollowJob(users[1], users[2]))
	made := w.Clock.Now()
	held := claimJobsOnOtherNode(w, other)
	if len(held) != 3 {
		t.Fatalf("the other node claimed %v", held)
	}
	eventually.Holds(t, "no count is behind while the node that holds the jobs lives", func() bool {
		_, err := jobs.RecordHeartbeat(t.Context(), other, false) // on a busy machine the node may seem silent for a moment
		w.Must(err)
		beat(w, heart)
		return !w.Fanout.AnyCountsBehind()
	})
	w.Clock.Advance(time.Second)
	eventually.Holds(t, "the node is silent", func() bool {
		beat(w, heart)
		return w.Fanout.AnyCountsBehind()
	})
	for i, want := range []jobs.BehindSince{
		{services.SourceHomeFeed: made},
		{services.SourceHomeFeed: made, services.SourceLiveBoard: made},
		nil, nil,
	} {
		if got := w.Fanout.CountsBehind(users[i]); !maps.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("of user %d %v are behind, want %v", i, got, want)
		}
	}
	if freed := w.ClaimDueJobs(); len(freed) > 0 {
		t.Errorf("%v could be claimed before the node was dead", freed)
	}
	var freed []jobs.Job
	eventually.Holds(t, "the jobs are freed", func() bool {
		beat(w, heart)
		freed = append(freed, w.ClaimDueJobs()...)
		return len(freed) == len(held)
	})
	beat(w, heart)
	if w.Fanout.CountsBehind(users[0]) == nil {
		t.Error("nothing is behind although the jobs are not done yet")
	}
	if n, err := jobs.FinishIfHeld(t.Context(), other, held); n != 0 || err != nil {
		t.Errorf("the silent node finished %d jobs that others hold, %v", n, err)
	}
	if n, err := jobs.FinishIfHeld(t.Context(), w.DB, freed); n != len(held) || err != nil {
		t.Fatalf("%d of the jobs were finished, %v", n, err)
	}
	beat(w, heart)
	if w.Fanout.AnyCountsBehind() {
		t.Error("counts are behind although the jobs are done")
	}
}

// While a silent node holds a job that reaches an unknown number of users, the counts that the job changes are behind the facts for
// everybody.
func TestAFanOutOfASilentNodeIsBehindForEverybody(t *testing.T) {
	w, other := newWorldWithOtherNode(t)
	users := w.MakeNeverSeenUsers(2)
	heart := w.Fanout.Heartbeat()
	w.Must(heart.Begin(t.Context()))
	w.Post(users[0])
	claimJobsOnOtherNode(w, other)
	eventually.Holds(t, "the node is silent", func() bool {
		beat(w, heart)
		return w.Fanout.AnyCountsBehind()
	})
	for _, user := range users {
		if got := slices.Collect(maps.Keys(w.Fanout.CountsBehind(user))); !slices.Equal(got, []services.Source{services.SourceHomeFeed}) {
			t.Errorf("of user %d %v are behind", user, got)
		}
	}
}
