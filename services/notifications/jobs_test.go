package notifications

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/sql"
	"tidings/tests/eventually"
)

// factSteps together cause every kind of job of notifications, except jobs of host notifications.
func factSteps() []fanouttest.FactScenario {
	withPost := func(w *fanouttest.World, users []services.UserID) {
		w.Follow(users[0], users[1:]...)
		w.Post(users[0])
	}
	newest := func(w *fanouttest.World, author services.UserID) services.PostID {
		found, err := posts.PushedPostsOfAuthor(w.TB.Context(), w.DB, author, 1)
		w.Must(err)
		return found[0]
	}
	return []fanouttest.FactScenario{
		{Name: "likes", Prepare: withPost, CommitFact: func(w *fanouttest.World, users []services.UserID) {
			writeLikes(w, newest(w, users[0]), users[0], users[1:]...)
		}},
		{Name: "a look at the notifications", Prepare: func(w *fanouttest.World, users []services.UserID) {
			withPost(w, users)
			writeLikes(w, newest(w, users[0]), users[0], users[1])
		}, CommitFact: func(w *fanouttest.World, users []services.UserID) {
			w.Write(func(ctx context.Context, tx *sql.Tx) error {
				if _, err := markSeen(ctx, tx, users[0], []services.Category{services.CategoryLike}, 0); err != nil {
					return err
				}
				return jobs.Enqueue(ctx, tx, ProjectCountsJob(users[0]))
			})
		}},
		{Name: "a block", Prepare: func(w *fanouttest.World, users []services.UserID) {
			withPost(w, users)
			writeLikes(w, newest(w, users[0]), users[0], users[1])
			for range 2 { // more causes than one page holds
				w.Post(users[0])
				writeLikes(w, newest(w, users[0]), users[0], users[1])
			}
		}, CommitFact: func(w *fanouttest.World, users []services.UserID) {
			w.Write(func(ctx context.Context, tx *sql.Tx) error {
				block := services.Restriction{Kind: services.Block, Owner: users[0], Other: users[1], MadeAt: w.IDs.Next()}
				if _, err := people.Restrict(ctx, tx, block); err != nil {
					return err
				}
				return jobs.Enqueue(ctx, tx, RecountActorJob(users[0], users[1]), fanout.FollowJob(users[1], users[0]))
			})
		}},
	}
}

// writeLikes writes likes of a post, each with its job.
func writeLikes(w *fanouttest.World, post services.PostID, author services.UserID, likers ...services.UserID) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		for _, liker := range likers {
			if _, err := posts.InsertLike(ctx, tx, post, liker, tx.Now); err != nil {
				return err
			}
			job, err := NotifyJob(Cause{Recipient: author, Category: services.CategoryLike, Subject: services.SortableID(post), Actor: liker})
			if err != nil {
				return err
			}
			if err := jobs.Enqueue(ctx, tx, job); err != nil {
				return err
			}
		}
		return nil
	})
}

// setSmallChunks makes chunks of two followers: five followers are three chunks.
func setSmallChunks(cfg *fanout.Config) { cfg.ChunkSize = 2 }

// causesPerTestPage is causesPerPage for tests: a transaction takes two causes, so five causes of one actor take three transactions.
const causesPerTestPage = 2

// newRedisServerNode is a node on a redis-server, which the test may flush and kill. causes is the node's causesPerPage.
func newRedisServerNode(t *testing.T, settings func(*fanout.Config), causes int) node {
	t.Helper()
	return newNodeWithCausesPerPage(fanouttest.New(t, fanouttest.Options{Fanout: settings}), causes)
}

// Every kind of job in factSteps brings the counts in line with the facts, and repeating all of the jobs changes nothing.
func TestEveryJobMakesTheCountsEqualTheFacts(t *testing.T) {
	fanouttest.EachEnginePair(t, setSmallChunks, func(t *testing.T, w *fanouttest.World) {
		newNodeWithCausesPerPage(w, causesPerTestPage)
		for _, step := range factSteps() {
			t.Run(step.Name, func(t *testing.T) { step.CheckConverges(t, w) })
		}
	})
}

// A worker may die between any two steps of any job. When its leases have expired another worker finishes the job, and
// readers see the facts.
func TestACrashBetweenAnyTwoStepsIsRepaired(t *testing.T) {
	for _, step := range factSteps() {
		t.Run(step.Name, func(t *testing.T) {
			step.CheckAfterEachCrash(t, newRedisServerNode(t, setSmallChunks, causesPerTestPage).World)
		})
	}
}

// A job that can never succeed is tried five times and put aside; all others of the same claim are done at once.
func TestAJobThatAlwaysFailsDelaysNoOthers(t *testing.T) {
	for name, poison := range map[string]jobs.NewJob{
		"not a user":     {Kind: jobProjectCounts, Key: "-1"},
		"not a cause":    {Kind: jobNotify, Payload: []byte("[]")},
		"not a category": {Kind: jobNotify, Payload: []byte(`{"Category":"LATER"}`)},
		"not a pair":     {Kind: jobRecountActor, Key: "7"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}))
			users := n.MakeUsers(3)
			n.Follow(users[0], users[1:]...)
			writeLikes(n.World, n.Post(users[0]), users[0], users[1])
			n.Write(func(ctx context.Context, tx *sql.Tx) error { return jobs.Enqueue(ctx, tx, poison) })
			for try := 1; try <= jobs.MaxTries; try++ {
				n.RunDueJobs(n.Fanout)
				waiting, dead := n.CountJobs()
				if last := try == jobs.MaxTries; last != (dead == 1) || !last && waiting == 0 {
					t.Fatalf("after try %d: %d wait, %d are dead", try, waiting, dead)
				}
				if try == 1 {
					n.CheckAgainstFacts(users...)
				}
				n.Clock.Advance(time.Minute)
			}
			n.RunAllJobs(n.Fanout)
			n.CheckAgainstFacts(users...)
		})
	}
}

// Without Redis the recipient's row in SQL is still updated; a job projects the count when Redis is back.
func TestWithoutRedisAJobProjectsTheCountLater(t *testing.T) {
	n := newRedisServerNode(t, nil, causesPerPage)
	users := n.MakeUsers(3)
	post := n.InsertPosts(users[0], 1)[0]
	writeLikes(n.World, post, users[0], users[1])
	writeLikes(n.World, post, users[0], users[2])
	n.RedisServer.Kill()
	if err := n.Fanout.RunJobs(t.Context(), n.ClaimDueJobs()); err != nil {
		t.Fatalf("SQL alone suffices for the first half: %v", err)
	}
	if states := n.states(users[0]); len(states) != 1 || states[0].UnseenByDay[0] != 1 {
		t.Errorf("the facts say %+v, want one group of today", states)
	}
	if waiting, _ := n.CountJobs(); waiting != 1 {
		t.Errorf("%d jobs, want the one that projects the count", waiting)
	}
	n.RedisServer.Start()
	eventually.Holds(t, "Redis answers again", func() bool { return n.Redis.Client.Ping(t.Context()) == nil })
	n.Must(n.Projector.Rebuild(t.Context(), users[0]))
	n.RunAllJobs(n.Fanout)
	n.CheckAgainstFacts(users[0])
}

// Two workers hold the same jobs, because the lease of the first has expired: only one of them has an effect.
func TestOnlyOneOfTwoWorkersHasAnEffect(t *testing.T) {
	n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}))
	users := n.MakeUsers(2)
	post := n.Post(users[0])
	n.RunAllJobs(n.Fanout)
	writeLikes(n.World, post, users[0], users[1])
	late := n.ClaimDueJobs()
	n.Clock.Advance(31 * time.Second)
	n.RunDueJobs(n.AnotherFanout())
	states := n.states(users[0])
	if err := n.Fanout.RunJobs(t.Context(), late); !services.IsUnavailable(err) {
		t.Errorf("the late worker got %v", err)
	}
	if after := n.states(users[0]); after[0].Version != states[0].Version {
		t.Errorf("version %d became %d", states[0].Version, after[0].Version)
	}
	n.RunAllJobs(n.Fanout)
	n.CheckAgainstFacts(users...)
}
