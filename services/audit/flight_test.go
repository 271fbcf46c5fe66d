package audit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/audit"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/rdb"
	"tidings/services/sql"
	"tidings/tests/eventually"
)

// actingPeople are users of a test who post, like, read and follow at random, while jobs run concurrently.
type actingPeople struct {
	node   node
	people []services.UserID
	random *rand.Rand

	mu    sync.Mutex      // guards posts
	posts []services.Post // all that were published, also deleted ones
}

// randomPerson returns one of the people, at random.
func (f *actingPeople) randomPerson() services.UserID { return f.people[f.random.IntN(len(f.people))] }

// randomPost returns one of the posts, at random; false if there is none yet.
func (f *actingPeople) randomPost() (services.Post, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.posts) == 0 {
		return services.Post{}, false
	}
	return f.posts[f.random.IntN(len(f.posts))], true
}

// mutateAtRandom performs one random mutation, with its job.
func (f *actingPeople) mutateAtRandom(ctx context.Context, tx *sql.Tx) error {
	user, other := f.randomPerson(), f.randomPerson()
	post, some := f.randomPost()
	switch action := f.random.IntN(10); {
	case action < 3 || !some:
		post := services.Post{ID: services.PostID(f.node.IDs.Next()), Author: user, Kind: services.PostKindPost, Body: "body"}
		f.mu.Lock()
		f.posts = append(f.posts, post)
		f.mu.Unlock()
		return errors.Join(posts.Insert(ctx, tx, post), jobs.Enqueue(ctx, tx, fanout.FanOutJob(post.ID)))
	case action < 6 && post.Author != user:
		if created, err := posts.InsertLike(ctx, tx, post.ID, user, tx.Now); err != nil || !created {
			return err
		}
		job, err := notifications.NotifyJob(notifications.Cause{Recipient: post.Author, Category: services.CategoryLike, Subject: services.SortableID(post.ID), Actor: user})
		return errors.Join(err, jobs.Enqueue(ctx, tx, job))
	case action == 6:
		if _, err := positions.Advance(ctx, tx, user, positions.HomeFeedView, post.ID); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.ProjectSeenJob(user))
	case action == 7:
		if _, _, err := posts.Delete(ctx, tx, post.ID); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.RemovePostJob(post.ID))
	case user == other:
		return nil
	case action == 8:
		if _, err := people.DeleteFollow(ctx, tx, user, other); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.FollowJob(user, other))
	default:
		if _, err := people.InsertFollow(ctx, tx, services.FollowEdge{Follower: user, Followee: other, PostsCountAfter: services.PostID(f.node.IDs.Next())}); err != nil {
			return err
		}
		return jobs.Enqueue(ctx, tx, fanout.FollowJob(user, other))
	}
}

// Hundreds of users are audited while posts are pushed, likes are counted and feeds are marked seen, and while jobs stop for a time. None
// of these changes is reported as drift, and in the end everything is right.
func TestAuditDuringChangesReportsNoDrift(t *testing.T) {
	w := newPostgresNode(t)
	f := &actingPeople{node: w, people: w.MakeUsers(250), random: rand.New(rand.NewPCG(1, 2))}
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		for range 500 {
			if a, b := f.randomPerson(), f.randomPerson(); a != b {
				if _, err := people.InsertFollow(ctx, tx, services.FollowEdge{Follower: a, Followee: b, PostsCountAfter: services.PostID(w.IDs.Next())}); err != nil {
					return err
				}
				if err := jobs.Enqueue(ctx, tx, fanout.FollowJob(a, b)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	w.RunAllJobs(w.Fanout)
	a := newAudit(w, time.Minute)
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Second)
	defer stop()
	var busy sync.WaitGroup
	busy.Go(func() {
		for tick := time.NewTicker(4 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			if err := w.DB.Write(ctx, func(tx *sql.Tx) error { return f.mutateAtRandom(ctx, tx) }); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	busy.Go(func() { // time passes, ten times as fast
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			w.Clock.Advance(50 * time.Millisecond)
		}
	})
	for _, worker := range w.Fanout.Workers(2) {
		busy.Go(func() {
			turn := 0
			for ctx.Err() == nil {
				// On each tenth turn the worker pauses for some seconds of the clock.
				if turn++; turn%10 == 0 {
					until := w.Clock.Now().Add(5 * time.Second)
					for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil && w.Clock.Now().Before(until); <-tick.C {
						continue
					}
				}
				if _, err := worker.RunOnce(ctx); err != nil && ctx.Err() == nil && !services.IsUnavailable(err) {
					t.Error(err)
				}
			}
		})
	}
	for ctx.Err() == nil && a.Stats().VisitedUsers < 500 {
		if _, err := a.RunOnce(t.Context()); err != nil && !services.IsUnavailable(err) {
			t.Fatal(err)
		}
		if got := a.Stats(); got.DriftedUsers != 0 {
			break
		}
	}
	stop()
	busy.Wait()
	w.RunAllJobs(w.Fanout)
	for range 2 {
		runLap(w, a)
	}
	if got := a.Stats(); got.DriftedUsers != 0 || got.RestoredUsers != 0 || got.VisitedUsers < 250 {
		t.Errorf("%d posts: %+v", len(f.posts), got)
	}
	w.CheckAgainstFacts(f.people[:50]...)
}

// Steps of jobs, of the audit and of a few users who often act on each other happen in any order. The audit reports none
// of them as drift. A number that the test makes wrong afterwards is found.
func TestAuditBetweenStepsOfJobsReportsNoDrift(t *testing.T) {
	w := redisServerNode(t, nil)
	f := &actingPeople{node: w, people: w.MakeUsers(4), random: rand.New(rand.NewPCG(3, 4))}
	a := newAudit(w, time.Minute)
	workers := w.Fanout.Workers(1)
	for range 1500 {
		switch f.random.IntN(6) {
		case 0, 1:
			w.Write(f.mutateAtRandom)
		case 2:
			_, err := workers[f.random.IntN(len(workers))].RunOnce(t.Context())
			w.Must(err)
		case 3:
			w.Clock.Advance(time.Duration(f.random.IntN(4000)) * time.Millisecond)
		default:
			_, err := a.RunOnce(t.Context())
			w.Must(err)
		}
		if got := a.Stats(); got.DriftedUsers != 0 {
			t.Fatalf("%+v", got)
		}
	}
	w.RunAllJobs(w.Fanout)
	if got := a.Stats(); got.VisitedUsers < 50 || got.RestoredUsers != 0 {
		t.Errorf("%+v", got)
	}
	// The audit was checking all the time: it still finds a wrong number.
	w.RedisServer.Do("HSET", "{u1}:b", "fc", "299")
	runLap(w, a)
	runLap(w, a)
	if got := a.Stats(); got.DriftedUsers != 1 {
		t.Errorf("%+v", got)
	}
}

// Two nodes share the laps, and if one of them can take no more turns, the other visits all users.
func TestTwoNodesShareTheLapsOfAnAudit(t *testing.T) {
	w := newPostgresNode(t)
	users := w.MakeUsers(250)
	here, there := newAudit(w, auditLapTime), newAudit(newNode(w.AnotherNode()), auditLapTime)
	for step := range 40 {
		order := []*audit.Audit{here, there}
		if step/10%2 == 1 {
			order = []*audit.Audit{there, here}
		}
		for _, a := range order {
			_, err := a.RunOnce(t.Context())
			w.Must(err)
		}
		w.Clock.Advance((auditLapTime - time.Minute) / 40)
	}
	if a, b := here.Stats().VisitedUsers, there.Stats().VisitedUsers; a == 0 || b == 0 || a+b != uint64(len(users)) {
		t.Errorf("one has visited %d, the other %d, of %d", a, b, len(users))
	}
	ctx, die := context.WithCancel(t.Context())
	w.Clock.Advance(auditLapTime)
	die()
	if _, err := here.RunOnce(ctx); err == nil {
		t.Error("a turn was done without an engine")
	}
	before := there.Stats().VisitedUsers
	for range 12 {
		w.Clock.Advance(auditLapTime / 12)
		_, err := there.RunOnce(t.Context())
		w.Must(err)
	}
	if visited := there.Stats().VisitedUsers - before; visited < uint64(len(users)) {
		t.Errorf("of a lap in which the other one died %d of %d were visited", visited, len(users))
	}
}

// An audit runs until its context ends, and repairs a wrong count meanwhile.
func TestAuditRunsUntilItsContextEnds(t *testing.T) {
	w := redisServerNode(t, nil)
	user := w.MakeUsers(1)[0]
	w.RedisServer.Do("HSET", "{u1}:b", "fc", "299")
	a := newAudit(w, auditLapTime)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	eventually.Holds(t, "the wrong count is repaired", func() bool {
		w.Clock.Advance(time.Second)
		document := w.Document(user)
		return a.Stats().DriftedUsers == 1 && document.Ready && document.FeedCount == 0
	})
	end()
	if err := <-done; err != context.Canceled {
		t.Errorf("it ended with %v", err)
	}
	if shown := snapshotOf(w, user); shown.Wholeness != rdb.DocumentWhole {
		t.Errorf("%+v", shown)
	}
}

// A user who is visited twice before their second check stays one suspect, so that a fault is counted and repaired once.
func TestOneDriftIsCountedOnce(t *testing.T) {
	w := redisServerNode(t, nil)
	user, _ := newUserWithFullDocument(w)
	const lap = 2 * time.Second // the audit plans its visits half of this apart, which is less than recheckDelay
	a := newAudit(w, lap)
	w.RedisServer.Do("HSET", fmt.Sprintf("{u%d}:b", user), "fc", "77")
	for _, wait := range []time.Duration{lap, lap - 500*time.Millisecond, time.Minute, time.Minute} { // two visits, then late checks
		w.Clock.Advance(wait)
		_, err := a.RunOnce(t.Context())
		w.Must(err)
	}
	if got := a.Stats().DriftedUsers; got != 1 {
		t.Errorf("one wrong number was counted %d times", got)
	}
	w.CheckAgainstFacts(user)
}
