package erasures

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/fanout/fanouttest"
	"tidings/services/nodecache"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

const erasedUserKey = "leaver" // the key of the user who is erased

// erasureWorld is a node whose erasures consist of steps that the test gives, and a user to erase.
type erasureWorld struct {
	*fanouttest.World
	*Service
	erasedUser       services.UserID
	begunErasureKeys []string // the keys that OnErasureBegun was called with
}

// newErasureWorld makes a node whose erasures consist of the given steps, and the user to erase.
func newErasureWorld(t *testing.T, options fanouttest.Options, steps ...erase.Step) *erasureWorld {
	t.Helper()
	return newErasureWorldIn(fanouttest.New(t, options), steps...)
}

// newErasureWorldIn makes the erasures of a node, and the user to erase.
func newErasureWorldIn(world *fanouttest.World, steps ...erase.Step) *erasureWorld {
	world.TB.Helper()
	w := &erasureWorld{World: world}
	w.Service = New(Config{
		DB: w.DB, Redis: w.Redis, Jobs: w.Fanout.Engine, People: w.Caches.People, Changelog: w.Caches.Changelog, Clock: w.Clock, Steps: steps,
		OnErasureBegun: func(key string) { w.begunErasureKeys = append(w.begunErasureKeys, key) },
	})
	w.erasedUser = w.MakeNamedUsers(erasedUserKey)[0]
	w.followChangelog()
	return w
}

// followChangelog brings the node cache up to date.
func (w *erasureWorld) followChangelog() {
	w.TB.Helper()
	_, err := w.Caches.Changelog.RunOnce(w.TB.Context())
	w.Must(err)
}

// beginErasure begins to erase the user.
func (w *erasureWorld) beginErasure() Erasure {
	w.TB.Helper()
	erasure, err := w.Begin(w.TB.Context(), erasedUserKey)
	w.Must(err)
	return erasure
}

// runToEnd runs the erasure to its end.
func (w *erasureWorld) runToEnd(erasure Erasure) Erasure {
	w.TB.Helper()
	for range 100 {
		w.RunDueJobs(w.Fanout)
		now, found, err := w.ByName(w.TB.Context(), erasure.Name)
		if w.Must(err); !found || now.Done() {
			return now
		}
		w.Clock.Advance(time.Second)
	}
	w.TB.Fatal("the erasure does not end")
	return Erasure{}
}

// emptyStep returns a step that finds nothing.
func emptyStep(name string) erase.Step {
	return erase.Step{Name: name, Run: func(context.Context, *sql.Tx, erase.StepPosition) (erase.StepResult, error) {
		return erase.StepResult{}, nil
	}}
}

// A request that was under way when the erasure began adds something within the grace, after the step that would remove it. The
// pass outlasts the grace and finds nothing, but it is not the last one.
func TestTheLastErasurePassBeginsAfterTheGracePeriod(t *testing.T) {
	var w *erasureWorld
	left, runs := 1, 0
	w = newErasureWorld(t, fanouttest.Options{RedisURL: "embedded"},
		erase.Step{Name: "facts", Run: func(context.Context, *sql.Tx, erase.StepPosition) (erase.StepResult, error) {
			found := left
			left = 0
			return erase.StepResult{Removed: erase.RemovedCounts("posts", found)}, nil
		}},
		erase.Step{Name: "long", Run: func(context.Context, *sql.Tx, erase.StepPosition) (erase.StepResult, error) {
			if runs++; runs == 3 {
				left = 1 // after 3 s
				w.Clock.Advance(time.Minute)
			}
			return erase.StepResult{}, nil
		}})
	if done := w.runToEnd(w.beginErasure()); left != 0 || done.Removed["posts"] != 2 {
		t.Errorf("%d are left, removed %v", left, done.Removed)
	}
}

// A request that read the ID of the user before the erasure gives it to the node cache after the node has forgotten it. The node forgets
// the ID again, long before the erasure ends, and closes the sockets that were opened with the ID.
func TestANodeForgetsAnErasedUserIDThatWasCachedAgain(t *testing.T) {
	w := newErasureWorld(t, fanouttest.Options{RedisURL: "embedded"}, emptyStep("nothing"))
	w.Caches.People.KeepUserID(erasedUserKey, w.erasedUser)
	erasure := w.beginErasure()
	w.followChangelog()
	if w.Caches.People.HasUserID(erasedUserKey) || len(w.begunErasureKeys) != 1 {
		t.Errorf("the user is known, notified of %q", w.begunErasureKeys)
	}
	w.Caches.People.KeepUserID(erasedUserKey, w.erasedUser)
	w.RunDueJobs(w.Fanout)
	w.followChangelog()
	if w.Caches.People.HasUserID(erasedUserKey) || len(w.begunErasureKeys) != 2 {
		t.Errorf("the user is known again, notified of %q", w.begunErasureKeys)
	}
	w.runToEnd(erasure)
	w.followChangelog()
	if len(w.begunErasureKeys) != 2 {
		t.Errorf("notified of %q", w.begunErasureKeys)
	}
}

// A node forgets the badge document that it keeps of a user who is being erased: the document has to be read from Redis again.
func TestANodeDropsTheKeptDocumentOfAnErasedUser(t *testing.T) {
	w := newErasureWorld(t, fanouttest.Options{}, emptyStep("nothing"))
	_, err := w.Projector.RebuildDocument(t.Context(), w.erasedUser)
	w.Must(err)
	read := func() error {
		_, err := w.Redis.DocumentsCached(t.Context(), []services.UserID{w.erasedUser})
		return err
	}
	w.Must(read())
	w.RedisServer.Do("ACL", "SETUSER", "default", "-hgetall")
	w.Must(read()) // this node has a copy: Redis refuses the read
	erasure := w.beginErasure()
	if err := read(); err == nil {
		t.Error("the document is kept")
	}
	// A node that was away during the whole erasure still has the document, and finds changelog entries that name nobody.
	w.RedisServer.Do("ACL", "SETUSER", "default", "+hgetall")
	w.runToEnd(erasure)
	_, err = w.Projector.RebuildDocument(t.Context(), w.erasedUser)
	w.Must(err)
	w.Must(read())
	w.RedisServer.Do("ACL", "SETUSER", "default", "-hgetall")
	w.Must(read())
	w.Must(w.forgetErasedUsers(t.Context()))
	if err := read(); err == nil {
		t.Error("the document is kept by a node that was away")
	}
}

// A node that does not read the changelog while a user is erased, such as one that hangs, later finds entries that name nobody. It
// forgets all users, so it does not use the cached ID for the user who has the key now.
func TestANodeThatMissedAnErasureForgetsAllUsers(t *testing.T) {
	w := newErasureWorld(t, fanouttest.Options{RedisURL: "embedded"}, people.EraseChangelog(people.ProfileChangelogKind, nodecache.PullChangelogKind))
	late := nodecache.New(nodecache.Config{Facts: nodecache.SQL{DB: w.DB}, Redis: w.Redis, Clock: w.Clock, Log: w.Log})
	follow := func() {
		t.Helper()
		_, err := late.Changelog.RunOnce(t.Context())
		w.Must(err)
	}
	follow()
	id, found, err := late.People.UserID(t.Context(), erasedUserKey)
	if err != nil || !found || id != w.erasedUser {
		t.Fatal(id, found, err)
	}
	w.runToEnd(w.beginErasure())
	again := w.MakeNamedUsers(erasedUserKey)[0]
	follow()
	if id, _, err := late.People.UserID(t.Context(), erasedUserKey); err != nil || id != again {
		t.Errorf("the key is of %d, the late node says %d, %v", again, id, err)
	}
}

// A node whose clock is ahead changed a user's profile just before the erasure, so the time of the profile is later than that of the
// erasure. Even so no node shows the profile any more.
func TestAnErasedProfileWithAFutureTimeIsForgotten(t *testing.T) {
	w := newErasureWorld(t, fanouttest.Options{RedisURL: "embedded"}, emptyStep("nothing"))
	w.Caches.People.Keep(w.erasedUser, services.User{ID: w.erasedUser, Key: erasedUserKey, Name: "Leaver", UpdatedAt: w.Clock.Now().Add(time.Minute)})
	w.beginErasure()
	w.followChangelog()
	if user, known := w.Caches.People.Get(w.erasedUser); known {
		t.Errorf("the node has %+v", user)
	}
}

// An erasure whose job is dead, because of an error that has been corrected since, continues when it is requested again. While it
// has a job, another request adds no job.
func TestASecondRequestRevivesADeadErasure(t *testing.T) {
	broken := true
	w := newErasureWorld(t, fanouttest.Options{RedisURL: "embedded"}, erase.Step{Name: "one", Run: func(context.Context, *sql.Tx, erase.StepPosition) (erase.StepResult, error) {
		if broken {
			return erase.StepResult{}, errors.New("broken")
		}
		return erase.StepResult{}, nil
	}})
	erasure := w.beginErasure()
	for range 3 {
		w.beginErasure()
	}
	if waiting, dead := w.CountJobs(); waiting != 1 || dead != 0 {
		t.Errorf("%d jobs wait, %d are dead", waiting, dead)
	}
	for range 100 {
		w.RunDueJobs(w.Fanout)
		w.Clock.Advance(time.Minute)
	}
	if waiting, dead := w.CountJobs(); waiting != 0 || dead != 1 {
		t.Fatalf("%d jobs wait, %d are dead: the test proves nothing", waiting, dead)
	}
	broken = false
	if again := w.beginErasure(); again.Name != erasure.Name {
		t.Errorf("asked again it is %q, it was %q", again.Name, erasure.Name)
	}
	w.runToEnd(erasure)
	if waiting, dead := w.CountJobs(); waiting != 0 || dead != 0 {
		t.Errorf("%d jobs wait, %d are dead", waiting, dead)
	}
}

// One of several concurrent requests begins the erasure, and the others return the same erasure.
func TestConcurrentRequestsBeginOneErasure(t *testing.T) {
	w := newErasureWorld(t, fanouttest.Options{SQLURL: sqltest.Postgres(t), RedisURL: "embedded"}, emptyStep("nothing"))
	for range 10 {
		w.MakeNamedUsers(erasedUserKey)
		var all sync.WaitGroup
		names, errs := make([]string, 6), make([]error, 6)
		for i := range names {
			all.Go(func() {
				erasure, _, err := Begin(t.Context(), w.DB, erasedUserKey)
				names[i], errs[i] = erasure.Name, err
			})
		}
		all.Wait()
		for i := range names {
			if errs[i] != nil || names[i] != names[0] {
				t.Errorf("erasure %q, %v; another is %q", names[i], errs[i], names[0])
			}
		}
		w.runToEnd(Erasure{Name: names[0]})
	}
}

// A name that no erasure can have is not found, even if the database refuses the text.
func TestImpossibleNamesAreNotFound(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		db := sqltest.Open(t, sql.Config{URL: url})
		for _, name := range []string{"\x00", "a\x00b", "", "none"} {
			if _, found, err := ByName(t.Context(), db, name); found || err != nil {
				t.Errorf("%q: found %v, %v", name, found, err)
			}
		}
	})
}
