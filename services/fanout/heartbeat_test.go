package fanout_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/store"
	"tidings/services/store/storetest"
)

// two is a world on PostgreSQL, and the store of another node on the same database.
func two(t *testing.T) (w *fanouttest.World, other *store.Store) {
	t.Helper()
	url := storetest.Postgres(t)
	w = fanouttest.New(t, fanouttest.Options{SQL: url, Node: "here", Redis: "embedded"})
	return w, storetest.Open(t, store.Config{URL: url, Node: "gone", Clock: w.Clock, Log: w.Log})
}

// takes lets the other node claim everything that is due, after a heartbeat that is its last.
func takes(w *fanouttest.World, other *store.Store) []store.Job {
	w.TB.Helper()
	_, err := other.Beat(w.TB.Context())
	w.Must(err)
	jobs, err := other.Claim(w.TB.Context(), w.Fanout.Kinds(), 1000, 30*time.Second)
	w.Must(err)
	return jobs
}

// While a node that holds jobs is silent, the counts that they change are named, and no others. Then they are freed, and named
// until they are done.
func TestWhatASilentNodeHoldsIsBehindUntilItIsDone(t *testing.T) {
	w, other := two(t)
	users := w.Strangers(4)
	heart := w.Fanout.Heartbeat()
	w.Must(heart.Begin(t.Context()))
	enqueue(w, fanout.CountsJob(users[0]), fanout.SeenJob(users[1]), fanout.FollowJob(users[1], users[2]))
	made := w.Clock.Now()
	jobs := takes(w, other)
	if len(jobs) != 3 {
		t.Fatalf("the other node claimed %v", jobs)
	}
	w.Must(heart.RunOnce(t.Context()))
	if w.Fanout.SomeBehind() {
		t.Error("counts are behind although the node that holds the jobs lives")
	}
	w.Clock.Advance(time.Second)
	until(t, "the node is silent", func() bool {
		w.Must(heart.RunOnce(t.Context()))
		return w.Fanout.SomeBehind()
	})
	for i, want := range []fanout.BehindSince{
		{services.SourceNotifications: made},
		{services.SourceHomeFeed: made, services.SourceLiveBoard: made},
		nil, nil,
	} {
		if got := w.Fanout.Behind(users[i]); !maps.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("of user %d %v are behind, want %v", i, got, want)
		}
	}
	if freed := claim(w); len(freed) > 0 {
		t.Errorf("%v could be claimed before the node was dead", freed)
	}
	var freed []store.Job
	until(t, "the jobs are freed", func() bool {
		w.Must(heart.RunOnce(t.Context()))
		freed = append(freed, claim(w)...)
		return len(freed) == len(jobs)
	})
	w.Must(heart.RunOnce(t.Context()))
	if w.Fanout.Behind(users[0]) == nil {
		t.Error("nothing is behind although the jobs are not done yet")
	}
	if n, err := other.Finish(t.Context(), jobs); n != 0 || err != nil {
		t.Errorf("the silent node finished %d jobs that others hold, %v", n, err)
	}
	if n, err := w.Store.Finish(t.Context(), freed); n != len(jobs) || err != nil {
		t.Fatalf("%d of the jobs were finished, %v", n, err)
	}
	w.Must(heart.RunOnce(t.Context()))
	if w.Fanout.SomeBehind() {
		t.Error("counts are behind although the jobs are done")
	}
}

// A job that reaches an unknown number of users puts its counts behind for everybody.
func TestAFanOutOfASilentNodeIsBehindForEverybody(t *testing.T) {
	w, other := two(t)
	users := w.Strangers(2)
	heart := w.Fanout.Heartbeat()
	w.Must(heart.Begin(t.Context()))
	w.Post(users[0])
	takes(w, other)
	until(t, "the node is silent", func() bool {
		w.Must(heart.RunOnce(t.Context()))
		return w.Fanout.SomeBehind()
	})
	for _, user := range users {
		if got := slices.Collect(maps.Keys(w.Fanout.Behind(user))); !slices.Equal(got, []services.Source{services.SourceHomeFeed}) {
			t.Errorf("of user %d %v are behind", user, got)
		}
	}
}

// A node that starts again under its name frees at once what it held.
func TestANodeThatStartsAgainFreesItsOwn(t *testing.T) {
	w, other := two(t)
	enqueue(w, fanout.CountsJob(w.Strangers(1)[0]))
	takes(w, other)
	w.Must(w.Fanout.Heartbeat().Begin(t.Context()))
	if jobs := claim(w); len(jobs) > 0 {
		t.Fatal("a node frees what another one holds")
	}
	cfg := fanout.Config{Store: other, Redis: w.Redis, Mirror: w.Mirror, Clock: w.Clock, IDs: w.IDs, Log: w.Log}
	w.Must(fanout.New(cfg).Heartbeat().Begin(t.Context()))
	if jobs := claim(w); len(jobs) != 1 {
		t.Errorf("%d jobs were free after the start, want 1", len(jobs))
	}
}

// Each kind of job says which counts it changes: one that is forgotten would leave wrong numbers that say that they are exact.
func TestEachKindOfJobSaysWhichCountsItChanges(t *testing.T) {
	w := world(t, nil)
	named := fanout.ChangedKinds()
	slices.Sort(named)
	kinds := slices.Sorted(slices.Values(w.Fanout.Kinds()))
	if !slices.Equal(named, kinds) {
		t.Errorf("counts are named for %v, want all of %v", named, kinds)
	}
}

// What this node claimed or finished without hearing of it is given back with the next heartbeat.
func TestJobsInDoubtAreGivenBack(t *testing.T) {
	storetest.EachURL(t, func(t *testing.T, url string) {
		w := fanouttest.New(t, fanouttest.Options{SQL: url, Node: "here", Redis: "embedded"})
		enqueue(w, fanout.CountsJob(w.Strangers(1)[0]))
		jobs := claim(w)
		if again := claim(w); len(jobs) != 1 || len(again) > 0 {
			t.Fatalf("claimed %v, and then %v", jobs, again)
		}
		w.Fanout.Doubt(jobs)
		w.Must(w.Fanout.Heartbeat().RunOnce(t.Context()))
		if again := claim(w); len(again) != 1 {
			t.Errorf("%d jobs were given back, want 1", len(again))
		}
		if n, err := w.Store.Finish(t.Context(), jobs); n != 0 || err != nil {
			t.Errorf("the job was finished under its former token: %d, %v", n, err)
		}
	})
}
