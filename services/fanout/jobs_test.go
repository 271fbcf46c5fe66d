package fanout_test

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/sql"
	"tidings/tests/eventually"
)

// factScenarios returns scenarios that together cause most kinds of fan-out's jobs: all but those of online followers, of all authors,
// and of the ends of mutes.
func factScenarios() []fanouttest.FactScenario {
	follow := func(w *fanouttest.World, users []services.UserID) { w.Follow(users[0], users[1:]...) }
	withPost := func(w *fanouttest.World, users []services.UserID) {
		follow(w, users)
		w.Post(users[0])
	}
	newest := func(w *fanouttest.World, author services.UserID) services.PostID {
		found, err := posts.PushedPostsOfAuthor(w.TB.Context(), w.DB, author, 1)
		w.Must(err)
		return found[0]
	}
	return []fanouttest.FactScenario{
		{Name: "a post", Prepare: follow, CommitFact: func(w *fanouttest.World, users []services.UserID) { w.Post(users[0]) }},
		{Name: "a deletion", Prepare: withPost, CommitFact: func(w *fanouttest.World, users []services.UserID) { w.Delete(newest(w, users[0])) }},
		{Name: "a follow", Prepare: func(w *fanouttest.World, users []services.UserID) { w.Post(users[0]) }, CommitFact: follow},
		{Name: "an unfollow", Prepare: withPost, CommitFact: func(w *fanouttest.World, users []services.UserID) { w.Unfollow(users[0], users[1:4]...) }},
		{Name: "a look at the feed", Prepare: withPost, CommitFact: func(w *fanouttest.World, users []services.UserID) {
			w.Write(func(ctx context.Context, tx *sql.Tx) error {
				if _, err := positions.Advance(ctx, tx, users[1], positions.HomeFeedView, newest(w, users[0])); err != nil {
					return err
				}
				return jobs.Enqueue(ctx, tx, fanout.ProjectSeenJob(users[1]))
			})
		}},
		{Name: "a profile", Prepare: follow, CommitFact: func(w *fanouttest.World, users []services.UserID) {
			name := "A name"
			w.Write(func(ctx context.Context, tx *sql.Tx) error {
				if _, err := people.SetProfile(ctx, tx, users[0], &name, nil); err != nil {
					return err
				}
				return jobs.Enqueue(ctx, tx, people.ProjectProfileJob(users[0]))
			})
		}},
		{Name: "an author becomes huge", Prepare: withPost, CommitFact: func(w *fanouttest.World, users []services.UserID) {
			w.Write(func(ctx context.Context, tx *sql.Tx) error {
				author, err := posts.LockAuthor(ctx, tx, users[0])
				if err != nil {
					return err
				}
				huge := services.AuthorHuge
				author.Pinned = &huge
				if _, err := posts.PutAuthor(ctx, tx, author); err != nil {
					return err
				}
				return jobs.Enqueue(ctx, tx, fanout.UpdateModeJob(users[0], tx.Now.Add(-time.Minute)))
			})
		}},
		{Name: "a pulled post", Prepare: func(w *fanouttest.World, users []services.UserID) {
			follow(w, users)
			w.SetMode(users[0], services.AuthorHuge)
			for _, reader := range users[1:] {
				enqueue(w, fanout.FollowJob(reader, users[0]))
			}
		}, CommitFact: func(w *fanouttest.World, users []services.UserID) { w.Post(users[0]) }},
		{Name: "a refill", Prepare: withPost, CommitFact: func(w *fanouttest.World, users []services.UserID) {
			enqueue(w, projector.RefillInboxJob(users[1]))
		}},
	}
}

// The jobs of each scenario make the documents and inboxes equal to the facts, and projecting the readers again changes nothing.
func TestEveryJobMakesTheProjectionsEqualTheFacts(t *testing.T) {
	fanouttest.EachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		for _, step := range factScenarios() {
			t.Run(step.Name, func(t *testing.T) { step.CheckConverges(t, w) })
		}
	})
}

func TestAPostCountsForFollowersAndNotForItsAuthor(t *testing.T) {
	w := newEmbeddedWorld(t, smallChunks)
	users := w.MakeUsers(4)
	author, before, stranger := users[0], users[1], users[3]
	w.Follow(author, before)
	w.RunAllJobs(w.Fanout)
	post := w.Post(author)
	w.RunAllJobs(w.Fanout)
	w.Follow(author, users[2])
	w.RunAllJobs(w.Fanout)
	for _, expected := range []struct {
		who            string
		user           services.UserID
		listed, counts bool
	}{{"the author", author, true, false}, {"a follower", before, true, true}, {"a later follower", users[2], true, false}, {"a stranger", stranger, false, false}} {
		if listed, counts := inboxListsPost(w, expected.user, post); listed != expected.listed || counts != expected.counts {
			t.Errorf("for %s it is listed %t, counts %t", expected.who, listed, counts)
		}
	}
}

func TestADormantFollowerGetsNothingPushedAndARebuiltFeed(t *testing.T) {
	w := newEmbeddedWorld(t, nil)
	author, dormant := w.MakeUsers(1)[0], w.MakeNeverSeenUsers(1)[0]
	w.Follow(author, dormant)
	post := w.Post(author)
	w.RunAllJobs(w.Fanout)
	if w.Document(dormant).Ready {
		t.Fatal("a document was made for somebody who was never here")
	}
	w.Must(w.Projector.Rebuild(t.Context(), dormant))
	if listed, counts := inboxListsPost(w, dormant, post); !listed || !counts {
		t.Errorf("after the return the post is listed %t, counts %t", listed, counts)
	}
	next := w.Post(author)
	w.RunAllJobs(w.Fanout)
	if listed, _ := inboxListsPost(w, dormant, next); !listed {
		t.Error("who came back gets nothing pushed")
	}
	w.CheckAgainstFacts(dormant)
}

// A job that can never succeed is tried five times and becomes a dead job. All other jobs of its claim are done at once.
func TestAFailingJobDelaysNoOthers(t *testing.T) {
	poisons := map[string]jobs.NewJob{
		"no such post":      fanout.FanOutJob(12345),
		"not a post":        {Kind: "post.fanout", Key: "x"},
		"not a payload":     {Kind: "post.push", Payload: []byte("{")},
		"no post in it":     {Kind: "post.drop", Payload: []byte(`{"post":99,"after":0,"to":9}`)},
		"not a pair":        {Kind: "follow", Key: "7"},
		"not a reader":      {Kind: "follow", Key: "x/7"},
		"not a removal":     {Kind: "post.remove", Key: "!!!!!!!!!!!!!"},
		"nobody's profile?": {Kind: "profile", Key: ""},
	}
	for name, poison := range poisons {
		t.Run(name, func(t *testing.T) {
			w := newEmbeddedWorld(t, nil)
			users := w.MakeUsers(3)
			w.Follow(users[0], users[1:]...)
			w.Post(users[0])
			enqueue(w, poison)
			for try := 1; try <= jobs.MaxTries; try++ {
				w.RunDueJobs(w.Fanout)
				waiting, dead := w.CountJobs()
				if last := try == jobs.MaxTries; last != (dead == 1) || !last && waiting == 0 {
					t.Fatalf("after try %d: %d wait, %d are dead", try, waiting, dead)
				}
				if try == 1 {
					w.CheckAgainstFacts(users...)
				}
				w.Clock.Advance(time.Minute)
			}
			w.RunAllJobs(w.Fanout)
			w.CheckAgainstFacts(users...)
		})
	}
}

// If Redis does not answer, that is not a job's fault: jobs are released, and do not die however often that happens.
func TestAnUnavailableEngineDoesNotCountAsATry(t *testing.T) {
	w := redisServerWorld(t, nil)
	users := w.MakeUsers(3)
	w.Follow(users[0], users[1:]...)
	w.Post(users[0])
	w.RedisServer.Kill()
	for range 2 * jobs.MaxTries {
		claimed, err := w.Fanout.Workers(1)[0].RunOnce(t.Context())
		if claimed == 0 || !services.IsUnavailable(err) {
			t.Fatalf("%d claimed, %v", claimed, err)
		}
		if claimed, err := w.Fanout.Workers(1)[0].RunOnce(t.Context()); claimed != 0 || err != nil {
			t.Fatalf("claimed again at once: %d, %v", claimed, err)
		}
		w.Clock.Advance(time.Second)
	}
	if waiting, dead := w.CountJobs(); waiting != 3 || dead != 0 {
		t.Errorf("%d wait, %d are dead", waiting, dead)
	}
	w.RedisServer.Start()
	eventually.Holds(t, "Redis answers again", func() bool { return w.Redis.Client.Ping(t.Context()) == nil })
	for _, user := range users {
		w.Must(w.Projector.Rebuild(t.Context(), user))
	}
	for _, job := range w.ClaimDueJobs() {
		if job.Tries != 0 {
			t.Errorf("%s counts %d tries", job.Kind, job.Tries)
		}
	}
	w.Clock.Advance(time.Minute)
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(users...)
}
