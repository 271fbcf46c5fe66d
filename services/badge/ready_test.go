package badge

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/redis"
	"tidings/services/sql/sqltest"
)

// Badges that need no SQL take one round trip to Redis and no statement, for all users together. In the other tests, node.read compares
// ReadWithoutSQL with Read.
func TestReadyBadgesAreOneRoundTrip(t *testing.T) {
	var statements atomic.Int64
	n := newNode(fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.SQLite(t), Trace: func(string) { statements.Add(1) }}))
	_, reader := n.newLikedAuthor(2)
	n.read(reader)
	stranger := n.MakeNeverSeenUsers(1)[0]
	before := statements.Load()
	ctx, trips := redis.WithRoundTrips(t.Context())
	got, err := n.ReadWithoutSQL(ctx, []services.UserID{stranger, reader, 0, reader})
	if err != nil || trips.Count() != 1 || statements.Load() != before {
		t.Errorf("%v, %d round trips and %d statements", err, trips.Count(), statements.Load()-before)
	}
	want := n.read(reader)
	if got[0] != nil || got[2] != nil {
		t.Errorf("users without a document have %+v and %+v", got[0], got[2])
	}
	for _, i := range []int{1, 3} {
		if diff := cmp.Diff(want, got[i]); diff != "" || want.HomeFeed.Value != 2 {
			t.Errorf("the reader has (-want +got):\n%s", diff)
		}
	}
}

// wantBadgesNotReady checks that ReadWithoutSQL does not return a user's badges, and that it does so after a Read.
func (n node) wantBadgesNotReady(what string, user services.UserID) {
	n.TB.Helper()
	for range 2 { // ReadWithoutSQL does not make them ready either
		if badges := n.readWithoutSQL(user); badges != nil {
			n.TB.Errorf("%s: %+v is ready", what, badges)
		}
	}
	n.read(user)
	if badges := n.readWithoutSQL(user); badges == nil {
		n.TB.Errorf("%s: nothing is ready after a read", what)
	}
}

func TestReadWithoutSQLOmitsUnreadyDocuments(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(1)
	n.read(reader)
	n.Must(n.Redis.ResetUserData(t.Context(), reader))
	n.wantBadgesNotReady("a document that is lost", reader)
	if _, err := n.ReadFacts(t.Context(), reader); err != nil {
		t.Fatal(err)
	}
	n.wantBadgesNotReady("a user who was answered from SQL", reader)
	fails := true
	n.commitWithRedisUpdate(reader, func(context.Context) error {
		if fails {
			return errors.New("missed")
		}
		return nil
	})
	if badges := n.readWithoutSQL(reader); badges != nil {
		t.Errorf("a document that lacks an update: %+v is ready", badges)
	}
	fails = false
	if left := n.World.Fanout.UpdateStaleProjections(t.Context()); left != 0 {
		t.Fatalf("%d users are still owed an update", left)
	}
	n.read(reader)
	n.RedisServer.Kill()
	if badges, err := n.ReadWithoutSQL(t.Context(), []services.UserID{reader}); !services.IsUnavailable(err) || badges[0] != nil {
		t.Errorf("without Redis %+v is ready, %v", badges[0], err)
	}
}

// If a node has not cached what a count needs, ReadWithoutSQL does not return the badges: Read asks SQL, and other users do not wait for
// it.
func TestBadgesThatNeedSQLAreNotReady(t *testing.T) {
	n := redisServerNode(t)
	users := n.MakeUsers(4)
	n.makeRoom(users[0], users[1], users[2], users[3])
	n.RunJobsAndReadLog()
	n.wantBadgesNotReady("a room on the first node", users[1])
	other := newNode(n.AnotherNode())
	other.wantBadgesNotReady("a room that another node has not cached", users[1])

	author, reader := n.newLikedAuthor(0)
	n.InsertPosts(author, 43)
	n.InsertPosts(reader, services.FeedRetention+40)
	n.Must(n.World.Projector.RefillInbox(t.Context(), reader))
	n.RunAllJobs(n.World.Fanout)
	n.wantBadgesNotReady("a count that goes on beyond the inbox", reader)
	n.Post(author)
	n.RunAllJobs(n.World.Fanout)
	n.wantBadgesNotReady("the same after another post", reader)
}

// ReadWithoutSQL does not return the badges of a document with items that have become too old: Read takes these out.
func TestAgedDocumentsAreNotReady(t *testing.T) {
	ages := services.SourceExpiry{services.SourceHomeFeed: 2}
	m := newExpiryModel(newLongShowNode(fanouttest.New(t, fanouttest.Options{Projector: withExpiry(ages)})))
	m.Post(m.smallAuthor)
	m.RunJobsAndReadLog()
	m.read(m.reader)
	m.Clock.Advance(day)
	m.wantBadgesNotReady("the first look on a new day", m.reader)
	if got := m.read(m.reader).HomeFeed.Value; got != 1 {
		t.Errorf("after a day %d posts count", got)
	}
	m.Clock.Advance(2 * day)
	m.wantBadgesNotReady("a post that is too old", m.reader)
	if got := m.read(m.reader).HomeFeed.Value; got != 0 {
		t.Errorf("%d posts count", got)
	}
}
