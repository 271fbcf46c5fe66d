package announcements

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/projector"
	"tidings/services/redis"
	"tidings/services/sql"
	"tidings/tests/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is the announcements service of one node, on real engines.
type node struct {
	*fanouttest.World
	*Service
}

// newNode makes a node on the databases and caches of a test.
func newNode(w *fanouttest.World) node {
	return node{w, New(Config{DB: w.DB, Redis: w.Redis, Jobs: w.Fanout.Engine, Changelog: w.Caches.Changelog, Projector: w.Projector, IDs: w.IDs, Clock: w.Clock})}
}

// eachEnginePair runs a test on both engine pairs.
func eachEnginePair(t *testing.T, test func(t *testing.T, n node)) {
	t.Helper()
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) { test(t, newNode(w)) })
}

// commit commits a command that must succeed, and returns the ID that it made.
func (n node) commit(cmd *jobs.Command, err error) services.AnnouncementID {
	n.TB.Helper()
	n.Must(err)
	n.Must(n.World.Fanout.Commit(n.TB.Context(), cmd)[0])
	if cmd.ProjectionsStale() {
		n.TB.Errorf("%s left its own projection behind", cmd.Name)
	}
	if len(cmd.IDs()) == 0 {
		return 0
	}
	id, err := ParseID("id", cmd.IDs()[0])
	n.Must(err)
	return id
}

// wantRefused checks that a command fails with a code, when it is made or when it is committed.
func (n node) wantRefused(want services.Code, cmd *jobs.Command, err error) {
	n.TB.Helper()
	if err == nil {
		err = n.World.Fanout.Commit(n.TB.Context(), cmd)[0]
	}
	if services.CodeOf(err) != want {
		n.TB.Errorf("it was answered with %v, want %s", err, want)
	}
}

// publish publishes an announcement, with changes of its draft.
func (n node) publish(title string, change ...func(*Draft)) services.AnnouncementID {
	n.TB.Helper()
	draft := Draft{Title: title}
	for _, with := range change {
		with(&draft)
	}
	return n.commit(n.Publish(draft))
}

// unread are the titles of the announcements that a user has not read, the newest first.
func (n node) unread(user services.UserID) (titles []string) {
	n.TB.Helper()
	page, err := n.Page(n.TB.Context(), user, MaxPosition, 100)
	n.Must(err)
	for _, item := range page.Items {
		if item.Unread {
			titles = append(titles, item.Title)
		}
	}
	return titles
}

// wantUnread checks which announcements a user has not read.
func (n node) wantUnread(user services.UserID, when string, want ...string) {
	n.TB.Helper()
	if got := n.unread(user); !slices.Equal(got, want) {
		n.TB.Errorf("%s: %q are unread, want %q", when, got, want)
	}
}

// litDots are the names of the dots that a user sees lit.
func (n node) litDots(user services.UserID) (names []string) {
	n.TB.Helper()
	at, err := n.userView(n.TB.Context(), user)
	n.Must(err)
	documents, err := n.World.Redis.Documents(n.TB.Context(), []services.UserID{user})
	n.Must(err)
	for _, dot := range at.shared.dotsFor(at.userState, at.segments, documents[0].DismissedUpToByDot) {
		if dot.Lit {
			names = append(names, dot.Name)
		}
	}
	return names
}

func TestAnAnnouncementRunsFromItsStartToItsEnd(t *testing.T) {
	eachEnginePair(t, func(t *testing.T, n node) {
		user := n.MakeUsers(1)[0]
		n.publish("planned", func(d *Draft) {
			d.StartsAt, d.EndsAt = n.World.Clock.Now().Add(time.Hour), n.World.Clock.Now().Add(2*time.Hour)
		})
		n.publish("now")
		n.wantUnread(user, "before the start", "now")
		n.World.Clock.Advance(time.Hour)
		n.RunDueJobs(n.World.Fanout)
		n.wantUnread(user, "from the start on, in the place of its start", "planned", "now")
		n.RunDueJobs(n.World.Fanout)
		n.World.Clock.Advance(time.Hour - 1)
		n.wantUnread(user, "to the end", "planned", "now")
		n.World.Clock.Advance(1)
		n.wantUnread(user, "from the end on", "now")
		if waiting, dead := n.CountJobs(); waiting+dead > 0 {
			t.Errorf("%d jobs wait, %d are dead", waiting, dead)
		}
	})
}

// The job of the start may run twice or late, and after any change of the announcement.
func TestTheStartIsIdempotent(t *testing.T) {
	eachEnginePair(t, func(t *testing.T, n node) {
		user := n.MakeUsers(1)[0]
		soon := n.World.Clock.Now().Add(time.Minute)
		at := func(d *Draft) { d.StartsAt = soon }
		twice, off, gone := n.publish("twice", at), n.publish("put off", at), n.publish("withdrawn", at)
		n.publish("over", at, func(d *Draft) { d.EndsAt = soon.Add(time.Minute) })
		later := soon.Add(time.Hour)
		n.commit(n.Edit(off, Edit{StartsAt: &later}))
		n.commit(n.Withdraw(gone), nil)
		n.World.Clock.Advance(2 * time.Minute)
		n.RunDueJobs(n.World.Fanout)
		n.wantUnread(user, "after the start", "twice")
		before, err := n.Announcement(t.Context(), twice)
		n.Must(err)
		n.commit(n.MarkRead(user, ReadUpTo{}), nil)
		for _, id := range []services.AnnouncementID{twice, gone, off, 99} {
			n.Write(func(ctx context.Context, tx *sql.Tx) error {
				return jobs.Enqueue(ctx, tx, StartJob(Announcement{ID: id, StartsAt: soon}))
			})
		}
		n.RunDueJobs(n.World.Fanout)
		if after, err := n.Announcement(t.Context(), twice); err != nil || after != before {
			t.Errorf("the start ran again and made %+v of %+v, %v", after, before, err)
		}
		n.wantUnread(user, "after it ran again")
		n.World.Clock.Advance(time.Hour)
		n.RunDueJobs(n.World.Fanout)
		n.wantUnread(user, "when the other starts", "put off")
	})
}

func TestEditing(t *testing.T) {
	eachEnginePair(t, func(t *testing.T, n node) {
		user := n.MakeUsers(1)[0]
		id := n.publish("first", func(d *Draft) { d.Segments = []string{"beta"}; d.EndsAt = n.World.Clock.Now().Add(time.Hour) })
		n.publish("second")
		n.wantUnread(user, "for others", "second")
		title := "better"
		n.commit(n.Edit(id, Edit{Title: &title, ForEveryone: true}))
		n.wantUnread(user, "for everyone, in its place", "second", "better")
		n.commit(n.MarkRead(user, ReadUpTo{}), nil)
		content := "more"
		n.commit(n.Edit(id, Edit{Content: &content}))
		n.wantUnread(user, "an edit leaves what was read")
		n.commit(n.Edit(id, Edit{ShowAgain: true}))
		n.wantUnread(user, "shown again", "better")
		n.commit(n.MarkRead(user, ReadUpTo{Announcement: id}), nil)
		n.wantUnread(user, "read again")
		n.World.Clock.Advance(time.Hour)
		cmd, err := n.Edit(id, Edit{ShowAgain: true})
		n.wantRefused(services.Conflict, cmd, err)
		n.commit(n.Edit(id, Edit{ShowAgain: true, NoEnd: true}))
		n.wantUnread(user, "shown once more, without an end", "better")
		past := n.World.Clock.Now().Add(-time.Second)
		n.commit(n.Edit(id, Edit{EndsAt: &past}))
		n.wantUnread(user, "ended by hand")
		future := n.World.Clock.Now().Add(time.Hour)
		n.commit(n.Edit(id, Edit{NoEnd: true, StartsAt: &future, ShowAgain: true}))
		n.wantUnread(user, "to be shown again later")
		n.World.Clock.Advance(time.Hour)
		n.RunDueJobs(n.World.Fanout)
		n.wantUnread(user, "when it starts again", "better")
		if a, err := n.Announcement(t.Context(), id); err != nil || a.Content != "more" || a.Segments != 0 || !a.EndsAt.IsZero() {
			t.Errorf("it is %+v, %v", a, err)
		}
	})
}

// A command that is repeated under a key publishes once. A repetition after the announcement has ended returns the same ID.
func TestARepeatedPublishPublishesOnce(t *testing.T) {
	eachEnginePair(t, func(t *testing.T, n node) {
		user := n.MakeUsers(1)[0]
		var ids []services.AnnouncementID
		for range 2 {
			cmd, err := n.Publish(Draft{Title: "once", EndsAt: fanouttest.StartTime.Add(time.Minute)})
			cmd.IdempotencyKey, cmd.Input = "key", "once"
			ids = append(ids, n.commit(cmd, err))
		}
		if ids[0] != ids[1] {
			t.Errorf("the ids are %s", ids)
		}
		n.wantUnread(user, "after both", "once")
		n.World.Clock.Advance(time.Hour) // the announcement has ended since, and the answer is the same
		cmd, err := n.Publish(Draft{Title: "once", EndsAt: fanouttest.StartTime.Add(time.Minute)})
		cmd.IdempotencyKey, cmd.Input = "key", "once"
		if id := n.commit(cmd, err); id != ids[0] {
			t.Errorf("the id is %s", id)
		}
	})
}

// A user who was away for 30 days is treated as new, even if the first sign of their return is a mark.
func TestAUserWhoReturnsAfter30DaysIsTreatedAsNew(t *testing.T) {
	eachEnginePair(t, func(t *testing.T, n node) {
		users := n.MakeUsers(3)
		reads, marks, dropped := users[0], users[1], users[2]
		first := n.publish("first")
		n.commit(n.RaiseDot("shop", nil))
		for _, user := range users {
			n.wantUnread(user, "at first", "first")
		}
		n.World.Clock.Advance(33 * 24 * time.Hour)
		n.publish("while away")
		n.wantUnread(reads, "on return")
		if lit := n.litDots(reads); len(lit) > 0 {
			t.Errorf("lit are %v", lit)
		}
		n.commit(n.MarkRead(marks, ReadUpTo{Announcement: first}), nil)
		n.publish("after the mark")
		n.wantUnread(marks, "after a mark", "after the mark")
		if _, err := projector.NewJanitor(n.World.Projector).RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if known, err := readUser(t.Context(), n.World.DB.Runner, dropped); err != nil || known.Version != 0 {
			t.Errorf("the janitor left %+v, %v", known, err)
		}
		n.wantUnread(dropped, "on return after the janitor")
		n.publish("last")
		for _, user := range []services.UserID{reads, marks, dropped} {
			if got := n.unread(user); len(got) == 0 || got[0] != "last" {
				t.Errorf("user %d has unread %v", user, got)
			}
		}
	})
}

// A change that all users share costs no call of Redis, and no job or key of any user.
func TestASharedChangeWritesNothingPerUser(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{}))
	users := n.MakeUsers(20)
	n.RunAllJobs(n.World.Fanout)
	keys := func() map[string]string {
		all := map[string]string{}
		for _, user := range users {
			key := fmt.Sprintf("{u%d}:b", user)
			all[key] = fmt.Sprint(n.RedisServer.Do("HGETALL", key))
		}
		all["number of keys"] = fmt.Sprint(n.RedisServer.Do("DBSIZE"))
		return all
	}
	before := keys()
	ctx, trips := redis.WithRoundTrips(t.Context())
	id := services.AnnouncementID(0)
	for _, newCommand := range []func() (*jobs.Command, error){
		func() (*jobs.Command, error) { return n.Publish(Draft{Title: "news"}) },
		func() (*jobs.Command, error) {
			return n.Publish(Draft{Title: "later", StartsAt: n.World.Clock.Now().Add(time.Minute), Segments: []string{"beta"}})
		},
		func() (*jobs.Command, error) { return n.RaiseDot("shop", nil) },
		func() (*jobs.Command, error) { return n.RaiseDot("shop", []string{"beta"}) },
		func() (*jobs.Command, error) { return n.Edit(id, Edit{ShowAgain: true}) },
		func() (*jobs.Command, error) { return n.Withdraw(id), nil },
	} {
		cmd, err := newCommand()
		n.Must(err)
		n.Must(n.World.Fanout.Commit(ctx, cmd)[0])
		if len(cmd.IDs()) > 0 && id == 0 {
			id, err = ParseID("id", cmd.IDs()[0])
			n.Must(err)
		}
	}
	if waiting, _ := n.CountJobs(); waiting != 1 {
		t.Errorf("%d jobs wait, want the one of the start", waiting)
	}
	n.World.Clock.Advance(time.Hour)
	for _, worker := range n.World.Fanout.Workers(1) {
		_, err := worker.RunOnce(ctx)
		n.Must(err)
	}
	if _, err := n.World.Caches.Changelog.RunOnce(ctx); err != nil {
		t.Fatal(err)
	}
	if trips.Count() != 0 || !maps.Equal(before, keys()) {
		t.Errorf("Redis was called %d times; the keys before and after:\n%v\n%v", trips.Count(), before, keys())
	}
	for _, user := range users {
		n.wantUnread(user, "after all", []string(nil)...)
		n.litDots(user)
	}
}

// Without Redis the list and the marks work from SQL, and the marks made meanwhile hold when an empty Redis is back.
func TestMarksHoldWithoutRedis(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{}))
	users := n.MakeUsers(2)
	stranger := n.MakeNeverSeenUsers(1)[0]
	n.publish("one")
	n.RedisServer.Kill()
	two := n.publish("two")
	n.wantUnread(users[0], "without Redis", "two", "one")
	n.wantUnread(stranger, "somebody new, without Redis")
	if cmd := n.MarkRead(users[0], ReadUpTo{}); n.World.Fanout.Commit(t.Context(), cmd)[0] != nil || !cmd.ProjectionsStale() {
		t.Error("the mark failed, or its projection was written into nothing")
	}
	n.publish("three")
	n.wantUnread(users[0], "after the mark", "three")
	n.wantUnread(stranger, "new since before it", "three")
	n.RedisServer.Start()
	awaitRedis(t, n)
	n.RunAllJobs(n.World.Fanout)
	n.wantUnread(users[0], "with an empty Redis", "three")
	n.wantUnread(users[1], "with an empty Redis", "three", "two", "one")
	n.wantUnread(stranger, "with an empty Redis", "three")
	n.commit(n.MarkRead(users[1], ReadUpTo{Announcement: two}), nil)
	n.wantUnread(users[1], "after the mark", "three")
}

// awaitRedis waits until Redis answers again.
func awaitRedis(t *testing.T, n node) {
	t.Helper()
	eventually.Succeeds(t, 20*time.Second, "Redis answers", func() error { return n.World.Redis.Client.Ping(t.Context()) })
}

// Two nodes share one database: announcements and dots of one node appear on the other after it has read the log, and a mark
// on one node applies on both.
func TestTwoNodesShowTheSame(t *testing.T) {
	eachEnginePair(t, func(t *testing.T, here node) {
		other := here.AnotherNode()
		there := newNode(other)
		user := here.MakeUsers(1)[0]
		here.publish("news")
		here.commit(here.RaiseDot("shop", nil))
		notified := 0
		other.Caches.Changelog.OnSharedChange(func() { notified++ })
		if _, err := other.Caches.Changelog.RunOnce(t.Context()); err != nil || notified != 1 {
			t.Fatalf("notified %d times, %v", notified, err)
		}
		there.wantUnread(user, "on the other node", "news")
		if lit := there.litDots(user); !slices.Equal(lit, []string{"shop"}) {
			t.Errorf("lit are %v", lit)
		}
		there.commit(there.MarkRead(user, ReadUpTo{}), nil)
		there.commit(there.ClearDot(user, "shop"))
		here.wantUnread(user, "after the mark on the other node")
		if lit := here.litDots(user); len(lit) > 0 {
			t.Errorf("lit are %v", lit)
		}
		here.commit(here.RaiseDot("shop", nil))
		if _, err := other.Caches.Changelog.RunOnce(t.Context()); err != nil || notified != 2 || len(there.litDots(user)) != 1 {
			t.Errorf("notified %d times of the raise, %v", notified, err)
		}
	})
}
