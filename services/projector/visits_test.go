package projector_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
	"tidings/tests/eventually"
)

// visitRecord is what the visits of a user have left: two times in SQL, and the day and the remaining life of the document.
type visitRecord struct {
	lastSeen, previousVisit time.Time     // when the user was last seen, and when they were last seen before their present visit
	documentLastActiveDay   int64         // the day in the document
	timeToExpiry            time.Duration // until the document expires
}

// visitRecordOf reads what the visits of a user have left in SQL and in their document.
func visitRecordOf(w *fanouttest.World, user services.UserID) visitRecord {
	w.TB.Helper()
	ctx := w.TB.Context()
	visits, err := people.LastVisits(ctx, w.DB, []services.UserID{user})
	w.Must(err)
	before, err := people.PreviousVisit(ctx, w.DB, user)
	w.Must(err)
	left, err := w.Redis.Client.Commands().TTL(ctx, rdb.DocumentKey(user)).Result()
	w.Must(err)
	return visitRecord{visits[user], before, w.Document(user).LastActiveDay, left}
}

// wantUnchanged checks that the visits of a user are as they were. The time until the document expires may differ by a minute,
// because the clock of Redis runs on during a test.
func (p visitRecord) wantUnchanged(w *fanouttest.World, what string, user services.UserID) {
	w.TB.Helper()
	now := visitRecordOf(w, user)
	if !now.lastSeen.Equal(p.lastSeen) || !now.previousVisit.Equal(p.previousVisit) || now.documentLastActiveDay != p.documentLastActiveDay || (now.timeToExpiry-p.timeToExpiry).Abs() > time.Minute {
		w.TB.Errorf("%s: the visits are\n%+v, and were\n%+v", what, now, p)
	}
}

// refillByJobs queues a refill for each user, and runs all jobs.
func refillByJobs(w *fanouttest.World, users ...services.UserID) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		for _, user := range users {
			if err := jobs.Enqueue(ctx, tx, projector.RefillInboxJob(user)); err != nil {
				return err
			}
		}
		return nil
	})
	w.RunAllJobs(w.Fanout)
}

// makeFullInbox makes an author, and a reader whose inbox is full while older posts exist. It returns the newest posts.
func makeFullInbox(w *fanouttest.World) (author, reader services.UserID, newest []services.PostID) {
	w.TB.Helper()
	users := w.MakeUsers(2)
	author, reader = users[0], users[1]
	ids := w.InsertPosts(author, services.FeedRetention+100)
	w.Follow(author, reader)
	w.RunAllJobs(w.Fanout)
	w.Clock.Advance(time.Hour)
	w.Must(w.Projector.Rebuild(w.TB.Context(), reader))
	return author, reader, ids[len(ids)-50:]
}

// Deletions make an inbox short, and a job refills it. The refill leaves the times of the reader's visits as they were, so the next
// visit follows the last real one.
func TestARefillIsNoVisit(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		_, reader, newest := makeFullInbox(w)
		was := visitRecordOf(w, reader)
		w.Clock.Advance(2 * oneDay)
		for _, id := range newest {
			w.Delete(id)
		}
		w.RunAllJobs(w.Fanout)
		if listed := len(w.Inbox(reader)); listed != services.FeedRetention {
			t.Fatalf("%d posts are listed after deletions, and older ones exist", listed)
		}
		w.CheckAgainstFacts(reader)
		was.wantUnchanged(w, "after a refill", reader)
		w.Clock.Advance(2 * oneDay)
		w.Must(w.Projector.Rebuild(t.Context(), reader))
		if got := visitRecordOf(w, reader); !got.previousVisit.Equal(was.lastSeen) || !got.lastSeen.After(was.lastSeen) || got.documentLastActiveDay != was.documentLastActiveDay+4 {
			t.Errorf("after the return: %+v, want %s as the visit before", got, was.lastSeen)
		}
	})
}

// An import changes the badges of all its readers. All of them are marked for the change stream, also the idle ones, whose inboxes
// are not refilled.
func TestTheRefillsOfAnImportAreNoVisits(t *testing.T) {
	w := newEmbeddedWorld(t)
	var marked sync.Map // jobs run concurrently
	w.Projector.OnMark(func(_ context.Context, users []services.UserID) error {
		for _, user := range users {
			marked.Store(user, true)
		}
		return nil
	}, func() bool { return true })
	users := w.MakeUsers(3)
	author, readers := users[0], users[1:]
	w.Post(author)
	w.RunAllJobs(w.Fanout)
	w.Clock.Advance(3 * oneDay)
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := people.ImportFollows(ctx, tx, []services.FollowEdge{
			{Follower: readers[0], Followee: author, PostsCountAfter: services.PostID(w.IDs.Next())}, {Follower: readers[1], Followee: author, PostsCountAfter: services.PostID(w.IDs.Next())},
		})
		return err
	})
	was := visitRecordOf(w, readers[0])
	_, err := projector.QueueInboxRefills(t.Context(), w.DB, fanouttest.StartTime)
	w.Must(err)
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(users...)
	was.wantUnchanged(w, "after an import", readers[0])
	w.Clock.Advance(9 * oneDay)
	marked.Clear()
	_, err = projector.QueueInboxRefills(t.Context(), w.DB, fanouttest.StartTime)
	w.Must(err)
	w.RunAllJobs(w.Fanout)
	for _, reader := range readers {
		if _, found := marked.Load(reader); !found {
			t.Errorf("an import while reader %d is away has not marked them", reader)
		}
	}
}

func TestARefillMakesNoDocument(t *testing.T) {
	w := newEmbeddedWorld(t)
	user := w.MakeUsers(1)[0]
	_, err := w.Redis.DropUsers(t.Context(), []services.UserID{user}, rdb.AnyVisitDay)
	w.Must(err)
	stranger := w.MakeNeverSeenUsers(1)[0]
	refillByJobs(w, user, stranger)
	for _, user := range []services.UserID{user, stranger} {
		if !hasNoKeys(w, user) {
			t.Errorf("a refill made a document for user %d, who has not come", user)
		}
	}
	visits, err := people.LastVisits(t.Context(), w.DB, []services.UserID{stranger})
	if w.Must(err); visits[stranger].After(time.UnixMicro(0)) {
		t.Errorf("who never came was seen at %s", visits[stranger])
	}
}

// Users who are idle or dormant stay so. What a refill would have brought comes with their return.
func TestAwayUsersAreRefilledWhenTheyReturn(t *testing.T) {
	for _, away := range []time.Duration{9 * oneDay, 31 * oneDay} {
		t.Run(fmt.Sprint(away), func(t *testing.T) {
			w := newEmbeddedWorld(t)
			author, reader, newest := makeFullInbox(w)
			was := visitRecordOf(w, reader)
			w.Clock.Advance(9 * oneDay)
			for _, id := range newest {
				w.Delete(id)
			}
			w.RunAllJobs(w.Fanout)
			w.Clock.Advance(away - 9*oneDay)
			refillByJobs(w, reader)
			was.wantUnchanged(w, "while the user is away", reader)
			if listed := len(w.Inbox(reader)); listed >= services.FeedRetention {
				t.Errorf("%d posts are listed for a user who is away: their return would not refill", listed)
			}
			if !w.Projector.IsOfIdleUser(w.Document(reader)) {
				t.Error("the document of a user who was away does not count as away")
			}
			if dormant := visitRecordOf(w, reader).lastSeen.Before(w.Projector.DormantBefore()); dormant != (away > 30*oneDay) {
				t.Errorf("after %s the user is dormant: %t", away, dormant)
			}
			w.Post(author)
			w.RunAllJobs(w.Fanout)
			rebuildIfMissingOrIdle(w, reader)
			if listed := len(w.Inbox(reader)); listed != services.FeedRetention {
				t.Errorf("after the return %d posts are listed, and older ones exist", listed)
			}
			w.CheckAgainstFacts(reader)
			if got := visitRecordOf(w, reader); !got.previousVisit.Equal(was.lastSeen) || got.documentLastActiveDay != services.DayOf(w.Clock.Now()) {
				t.Errorf("after the return: %+v", got)
			}
		})
	}
}

// A rebuild that is no visit is under way, and has just begun to read the facts, when the user comes. The visit counts at once, and
// the end of the other rebuild does not take it back.
func TestAVisitDuringARebuildIsRecorded(t *testing.T) {
	for what, rebuild := range map[string]func(w *fanouttest.World, user services.UserID) error{
		"a refill": func(w *fanouttest.World, user services.UserID) error {
			return w.Projector.RefillInbox(w.TB.Context(), user)
		},
		"a restoration": func(w *fanouttest.World, user services.UserID) error {
			_, err := w.Projector.Restore(w.TB.Context(), user)
			return err
		},
		"a repair": func(w *fanouttest.World, user services.UserID) error {
			return w.Projector.EmptyAndRestore(w.TB.Context(), user)
		},
	} {
		t.Run(what, func(t *testing.T) {
			const firstRead = "positions of a user"
			var holds atomic.Bool
			held, release := make(chan struct{}), make(chan struct{})
			w := fanouttest.New(t, fanouttest.Options{RedisURL: "embedded", Trace: func(statement string) {
				if statement == firstRead && holds.CompareAndSwap(true, false) {
					close(held)
					<-release
				}
			}})
			user := w.MakeUsers(1)[0]
			was := visitRecordOf(w, user)
			w.Clock.Advance(2 * oneDay)
			ended := make(chan error, 2)
			holds.Store(true)
			go func() { ended <- rebuild(w, user) }()
			<-held
			go func() { ended <- w.Projector.Rebuild(w.TB.Context(), user) }()
			eventually.Holds(t, "the visit", func() bool { return visitRecordOf(w, user).documentLastActiveDay == was.documentLastActiveDay+2 })
			close(release)
			w.Must(<-ended)
			w.Must(<-ended)
			if got := visitRecordOf(w, user); !got.lastSeen.Equal(was.lastSeen.Add(2*oneDay)) || !got.previousVisit.Equal(was.lastSeen) || got.documentLastActiveDay != was.documentLastActiveDay+2 {
				t.Errorf("in the end %+v, and at first %+v", got, was)
			}
			w.CheckAgainstFacts(user)
		})
	}
}
