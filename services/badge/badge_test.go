package badge

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/redis"
	"tidings/services/sql"
)

func TestReadEqualsTheFacts(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, reader := n.newLikedAuthor(3)
		stranger := n.MakeNeverSeenUsers(1)[0]
		badges, errs := n.ReadAndFollow(t.Context(), []services.UserID{author, stranger, reader})
		for i, want := range []struct{ feed, likes int }{{0, 3}, {0, 0}, {3, 0}} {
			w.Must(errs[i])
			n.checkInvariants(badges[i])
			got := badges[i]
			if got.HomeFeed.Value != want.feed || got.Notifications.Like.Value != want.likes || got.Total.Precision != services.Exact {
				t.Errorf("user %d of 3: %+v", i, got)
			}
		}
	})
}

// A read takes one round trip, however many users are read.
func TestDocumentsAreReadInOneRoundTrip(t *testing.T) {
	n := redisServerNode(t)
	users := n.MakeUsers(20)
	for count := 1; count <= len(users); count += 19 {
		ctx, trips := redis.WithRoundTrips(t.Context())
		if _, errs := n.ReadAndFollow(ctx, users[:count]); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if trips.Count() != 1 {
			t.Errorf("%d documents: %d round trips", count, trips.Count())
		}
	}
}

// Redis is not asked for a user whose document lacks an update: that user is read from the facts, and must not wait for a Redis
// that hangs.
func TestUsersWithPendingUpdatesAreReadFromSQL(t *testing.T) {
	n := redisServerNode(t)
	users := n.MakeUsers(2)
	n.commitWithRedisUpdate(users[0], func(context.Context) error { return errors.New("missed") })
	for name, want := range map[string]struct {
		users []services.UserID
		trips int // round trips to Redis
	}{"alone": {users[:1], 0}, "with another": {users, 1}} {
		ctx, trips := redis.WithRoundTrips(t.Context())
		badges, errs := n.ReadAndFollow(ctx, want.users)
		n.Must(errs[0])
		if badges[0].Total.Precision != services.Stale {
			t.Errorf("%s: %+v, want it STALE", name, badges[0].Total)
		}
		if trips.Count() != want.trips {
			t.Errorf("%s: %d round trips, want %d", name, trips.Count(), want.trips)
		}
	}
}

// A lost document is rebuilt before the answer: no read shows less than the true count, and none shows 0.
func TestALostDocumentIsNeverZero(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newLikedAuthor(5)
	before := n.read(reader)
	for range 3 {
		n.RedisServer.Flush()
		for user, value := range map[services.UserID]int{reader: 5, author: 5} {
			if got := n.read(user).Total; got.Value != value || got.Precision != services.Exact {
				t.Errorf("after a flush user %d is shown %+v", user, got)
			}
		}
	}
	for _, field := range []string{"st", "fc", "T", "NL", "HL", "rm", "n"} {
		n.RedisServer.Do("HDEL", documentKey(n, reader), field)
		if got := n.read(reader).Total; got.Value != 5 {
			t.Errorf("without the field %s: %+v", field, got)
		}
	}
	if after := n.read(reader); after.Version <= before.Version {
		t.Errorf("the rebuilt version %s would be dropped after %s", after.Version, before.Version)
	}
	n.CheckAgainstFacts(author, reader)
}

// documentKey finds the key of a user's document: it marks the document with a day that no other document has.
func documentKey(n node, user services.UserID) string {
	n.TB.Helper()
	n.Must(n.Redis.MarkActive(n.TB.Context(), []services.UserID{user}, 99999, activeFor))
	keys, _ := n.RedisServer.Do("KEYS", "*:b").([]any)
	for _, key := range keys {
		if n.RedisServer.Do("HGET", key, "d") == "99999" {
			return key.(string)
		}
	}
	n.TB.Fatal("no document has the mark")
	return ""
}

// Fifty readers of a lost document wait for one rebuild.
func TestReadersShareARebuild(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(5)
	n.RedisServer.Flush()
	n.read(reader)
	if _, errs := n.ReadAndFollow(t.Context(), []services.UserID{reader}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	n.RedisServer.Flush()
	const readers = 50
	values := make([]int, readers)
	ctx, trips := redis.WithRoundTrips(t.Context())
	var together sync.WaitGroup
	for i := range readers {
		together.Go(func() {
			if badges, err := n.Read(ctx, reader); err == nil {
				values[i] = badges.Total.Value
			}
		})
	}
	together.Wait()
	for i, value := range values {
		if value != 5 {
			t.Errorf("reader %d of %d was shown %d", i, readers, value)
		}
	}
	// Each reader makes one round trip before the rebuild and one after it. The rebuild itself is shared.
	if waits := trips.Count() - 2*readers; waits > 20 {
		t.Errorf("%d calls beside the %d reads: there was more than one rebuild", waits, 2*readers)
	}
}

func TestWithoutRedisTheCountsAreTheSameAndStale(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newLikedAuthor(4)
	exact := map[services.UserID]*services.Badges{author: n.read(author), reader: n.read(reader)}
	n.RedisServer.Kill()
	for user, want := range exact {
		got := n.read(user)
		if got.HomeFeed.Value != want.HomeFeed.Value || got.Notifications.Like.Value != want.Notifications.Like.Value ||
			got.Notifications.Newest != want.Notifications.Newest {
			t.Errorf("user %d: %+v, with Redis %+v", user, got, want)
		}
		for _, count := range []services.Count{got.HomeFeed, got.Notifications.Like, got.Notifications.Total, got.Total} {
			if count.Precision != services.Stale || !count.AsOf().Equal(n.Clock.Now()) {
				t.Errorf("user %d: %+v does not say since when", user, count)
			}
		}
	}
	n.RedisServer.Start()
	for user, want := range exact {
		for got := n.read(user); got.Total.Precision != services.Exact; got = n.read(user) {
			if t.Context().Err() != nil {
				t.Fatal("the readers never came back to Redis")
			}
		}
		if got := n.read(user); got.Total != want.Total {
			t.Errorf("user %d: %+v, before %+v", user, got.Total, want.Total)
		}
	}
}

// A feed with more new posts than it keeps gives the same count from SQL as from Redis, except for the precision.
func TestSQLCapsTheFeedCountAsRedisDoes(t *testing.T) {
	n := redisServerNode(t)
	users := n.MakeUsers(2)
	n.Follow(users[0], users[1])
	n.RunAllJobs(n.World.Fanout)
	n.InsertPosts(users[0], services.FeedRetention+5)
	facts, err := n.ReadFacts(t.Context(), users[1])
	n.Must(err)
	n.checkInvariants(facts)
	if facts.HomeFeed.Value != services.FeedRetention || facts.HomeFeed.Display != "99+" {
		t.Errorf("from SQL: %+v", facts.HomeFeed)
	}
	n.RedisServer.Flush()
	if got := n.read(users[1]).HomeFeed; got.Value != services.FeedRetention || got.Precision != services.AtLeast {
		t.Errorf("from Redis: %+v", got)
	}
}

// A caller whose time is up gets an error and no fallback badges.
func TestACallerPastItsDeadlineGetsAnError(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(1)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if badges, err := n.ReadFacts(ctx, reader); !services.IsUnavailable(err) {
		t.Errorf("got %+v, %v", badges, err)
	}
	full := n.newServiceWith(func(cfg *Config) {
		cfg.MaxConcurrentSQLCounts = 1
	})
	full.sqlCountSlots <- struct{}{} // occupies the only slot, for long
	if badges, err := full.ReadFacts(ctx, reader); !services.IsUnavailable(err) {
		t.Errorf("in the queue: got %+v, %v", badges, err)
	}
}

// Marking the feed seen lowers the count of that user alone.
func TestFeedSeenLowersOnlyTheViewersCount(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newLikedAuthor(3)
	other := n.MakeUsers(1)[0]
	n.Follow(author, other)
	n.RunAllJobs(n.World.Fanout)
	post := n.Post(author)
	n.RunAllJobs(n.World.Fanout)
	n.markFeedSeen(reader, post)
	if got := n.read(reader).HomeFeed.Value; got != 0 {
		t.Errorf("after looking %d are new", got)
	}
	if got := n.read(other).HomeFeed.Value; got != 1 {
		t.Errorf("for another user %d are new", got)
	}
	if got := n.read(author).HomeFeed.Value; got != 0 {
		t.Errorf("one's own posts count %d", got)
	}
}

// A user's read is recorded once a day in SQL, which fan-out reads.
func TestVisitsAreWrittenOnceADay(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newLikedAuthor(0)
	written := func() int {
		t.Helper()
		count, err := n.WriteVisits(t.Context())
		n.Must(err)
		return count
	}
	n.read(reader)
	if count := written(); count != 0 {
		t.Errorf("%d visits on the day of the rebuild, which noted it", count)
	}
	n.Clock.Advance(day)
	tomorrow := n.Clock.Now()
	if n.isActiveFollower(author, reader, tomorrow) {
		t.Fatal("active before any visit")
	}
	for range 3 {
		n.read(reader)
	}
	if count := written(); count != 1 {
		t.Errorf("three reads are %d visits", count)
	}
	if !n.isActiveFollower(author, reader, tomorrow) {
		t.Error("SQL does not know of the visit: nothing would be pushed")
	}
	n.read(reader)
	if count := written(); count != 0 {
		t.Errorf("a second visit of the same day was written: %d", count)
	}
	n.Clock.Advance(day)
	n.read(reader)
	n.read(author)
	if count := written(); count != 2 {
		t.Errorf("%d visits of two on the next day", count)
	}
}

// A visit extends the lifetime of the user's keys, but not beyond the time for which the user counts as active: fan-out must push
// to every user with keys.
func TestKeysExpireBeforeTheirUserIsInactive(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(1)
	n.Clock.Advance(day)
	n.read(reader)
	_, err := n.WriteVisits(t.Context())
	n.Must(err)
	keys, _ := n.RedisServer.Do("KEYS", "*:b").([]any)
	for _, key := range keys {
		left, _ := n.RedisServer.Do("TTL", key).(int64)
		if left <= 0 || time.Duration(left)*time.Second >= activeFor {
			t.Errorf("%v lives for %d s, and its user is active for %s", key, left, activeFor)
		}
	}
	if len(keys) != 2 {
		t.Errorf("%d documents of two", len(keys))
	}
}

// A visit that could not be written is not lost: the next read records it again.
func TestAVisitThatCouldNotBeWrittenIsRecordedAgain(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(0)
	n.Clock.Advance(day)
	n.read(reader)
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, err := n.WriteVisits(ctx); err == nil {
		t.Fatal("written without an engine")
	}
	n.read(reader)
	if count, err := n.WriteVisits(t.Context()); count != 1 || err != nil {
		t.Errorf("%d visits, %v", count, err)
	}
}

func TestWaitingVisitsAreBounded(t *testing.T) {
	n := redisServerNode(t)
	for user := range services.UserID(maxUnwrittenVisits + 10) {
		n.visits.record(user, 0)
	}
	if len(n.visits.unwritten) != maxUnwrittenVisits {
		t.Errorf("%d wait", len(n.visits.unwritten))
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	n := redisServerNode(t)
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := n.Service.Run(ctx); err != context.Canceled {
		t.Errorf("it ended with %v", err)
	}
}

// Likes that expire leave the count without a write, in Redis and in SQL.
func TestLikesExpireInBothEngines(t *testing.T) {
	n := redisServerNode(t)
	author, _ := n.newLikedAuthor(2)
	for passed := 0; passed <= 9; passed++ {
		want := 2
		if passed > 7 {
			want = 0
		}
		facts, err := n.ReadFacts(t.Context(), author)
		n.Must(err)
		if got := n.read(author).Notifications.Like.Value; got != want || facts.Notifications.Like.Value != want {
			t.Errorf("after %d days: %d in Redis, %d in SQL, want %d", passed, got, facts.Notifications.Like.Value, want)
		}
		n.Clock.Advance(day)
	}
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		return jobs.Enqueue(ctx, tx, notifications.ProjectCountsJob(author))
	})
	n.RunAllJobs(n.World.Fanout)
	if got := n.read(author).Notifications; got.Like.Value != 0 || got.Newest == 0 {
		t.Errorf("after the counts were projected again: %+v", got)
	}
}
