package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// openBadgeWatches opens a subscription to the badges of every user of a load, and a second one for the first user.
func (l *userLoad) openBadgeWatches(url string) []*world.BadgeSubscription {
	l.tb.Helper()
	watches := []*world.BadgeSubscription{world.OpenBadgeSubscription(l.tb, url, l.people[0])}
	for _, person := range l.people {
		watches = append(watches, world.OpenBadgeSubscription(l.tb, url, person))
	}
	return watches
}

// visitAs sends a request as a user, which creates them if they are new.
func (l *userLoad) visitAs(person string) {
	l.tb.Helper()
	if code := l.mutate(person, `{viewer{user{key}}}`, nil, nil); code != "" {
		l.tb.Fatalf("%s comes: %s", person, code)
	}
}

// constantUnreadReader is a user ("the witness" in messages) whose count must never change. They follow an author with a number of posts
// and have seen the first two. A client of theirs with an old page keeps marking the feed as seen up to the first post. Every read of
// their badges, at any moment, from SQL or from Redis, must show the number of the other posts.
type constantUnreadReader struct {
	load        *userLoad // sends the requests and records the faults
	name        string    // the user's key
	wantUnread  int       // the count that every read must show
	firstPostID string    // the author's first post
	stop        func()    // ends the checks that startChecks began

	mu            sync.Mutex // guards lastPrecision
	lastPrecision string     // the precision of the home feed that was read last
}

// newConstantUnreadReader makes a constantUnreadReader with this number of unread posts.
func newConstantUnreadReader(l *userLoad, posts int) *constantUnreadReader {
	l.tb.Helper()
	w := &constantUnreadReader{load: l, name: l.keyPrefix + "-witness", wantUnread: posts}
	author := l.keyPrefix + "-quiet"
	must := func(as, query string, variables map[string]any) (id string) {
		var data struct {
			R struct{ Post struct{ ID string } }
		}
		if code := l.mutate(as, query, variables, &data); code != "" {
			l.tb.Fatalf("%s: %s", query, code)
		}
		return data.R.Post.ID
	}
	l.visitAs(author)
	must(w.name, `mutation($key:String,$u:ID!){follow(input:{userId:$u,idempotencyKey:$key}){user{id}}}`, map[string]any{"u": "user:" + author})
	var ids []string
	for range posts + 2 {
		ids = append(ids, must(author, `mutation($key:String){r:publishPost(input:{body:"old",idempotencyKey:$key}){post{id}}}`, nil))
	}
	w.firstPostID = ids[0]
	l.visitAs(author)
	must(w.name, `mutation($key:String,$p:ID){markHomeFeedSeen(input:{upTo:$p,idempotencyKey:$key}){badges{version}}}`, map[string]any{"p": ids[1]})
	world.EventuallySucceeds(l.tb, world.RedisLossRecoveryTimeout, func() error {
		got, err := l.badgesOf(w.name)
		if err == nil && got.Total.Value != posts {
			err = fmt.Errorf("the witness has %d", got.Total.Value)
		}
		return err
	})
	return w
}

// startChecks begins to read the user's badges every 10 ms, until stop is called, and records a fault each time they are wrong.
func (w *constantUnreadReader) startChecks() {
	quit := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				w.checkOnce()
			}
		}
	})
	w.stop = sync.OnceFunc(func() {
		close(quit)
		looking.Wait()
	})
	w.load.tb.Cleanup(w.stop)
}

// checkOnce reads the user's badges once, and records a fault if they are wrong. One time in five it also marks the feed as seen up
// to the first post, which must change nothing, because the user has seen the second.
func (w *constantUnreadReader) checkOnce() {
	got, err := w.load.badgesOf(w.name)
	if err == nil && rand.IntN(5) == 0 {
		err = world.Ask(w.load.serverURL(), w.name, `mutation($p:ID){markHomeFeedSeen(input:{upTo:$p}){badges{version}}}`, map[string]any{"p": w.firstPostID}, nil)
	}
	if err == nil {
		err = got.CheckInvariants()
	}
	if err == nil && (got.HomeFeed.Value != w.wantUnread || got.HomeFeed.Precision == "UNKNOWN") {
		err = fmt.Errorf("%+v, want %d", got.HomeFeed, w.wantUnread)
	}
	if err != nil {
		w.load.recordFault("the witness: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastPrecision = got.HomeFeed.Precision
}

// waitPrecision waits until the user's count of the home feed has this precision.
func (w *constantUnreadReader) waitPrecision(precision string) {
	w.load.tb.Helper()
	world.EventuallySucceeds(w.load.tb, world.RedisLossRecoveryTimeout, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.lastPrecision != precision {
			return fmt.Errorf("the witness reads %q, want %q", w.lastPrecision, precision)
		}
		return nil
	})
}

// Redis is emptied again and again while users publish, follow, like and read, and subscriptions are open. No request is refused, no
// total differs from the sum of its parts, and in the end everything that was acknowledged is shown.
func TestFlushesUnderLoad(t *testing.T) {
	server := redistest.NewServer(t)
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL()})
	l := newUserLoad(t, false, func() string { return n.URL })
	w := newConstantUnreadReader(l, 3)
	watches := append(l.openBadgeWatches(n.URL), world.OpenBadgeSubscription(t, n.URL, w.name))
	w.startChecks()
	l.start()
	for range 8 {
		server.Flush()
		l.waitForMutations(20)
	}
	w.stop()
	l.stopAndWaitUntilLedgerMatches(world.RedisLossRecoveryTimeout, watches[:len(watches)-1]...)
	watches[len(watches)-1].WaitCounts(t, world.RedisLossRecoveryTimeout, 3, 0)
}

// Redis is killed under load and comes back empty. Meanwhile mutations continue, and counts come from SQL and are marked as
// STALE. When Redis is back, everything is right again, in open subscriptions too.
func TestRedisKilledUnderLoad(t *testing.T) {
	server := redistest.NewServer(t)
	testRedisOutageUnderLoad(t, server, server.Kill, server.Start)
}

// Redis hangs under load, so that commands sent to it run later or never. Meanwhile mutations continue, and counts come from SQL and are
// marked as STALE. Afterwards everything is right again, in open subscriptions too.
func TestRedisHangsUnderLoad(t *testing.T) {
	server := redistest.NewServer(t)
	testRedisOutageUnderLoad(t, server, server.Pause, server.Resume)
}

// testRedisOutageUnderLoad makes Redis unavailable to a node under load by calling away, and available again by calling back, twice.
func testRedisOutageUnderLoad(t *testing.T, server *redistest.Server, away, back func()) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL()})
	l := newUserLoad(t, false, func() string { return n.URL })
	w := newConstantUnreadReader(l, 3)
	watches := l.openBadgeWatches(n.URL)
	w.startChecks()
	l.start()
	for range 2 {
		l.waitForMutations(25)
		away()
		w.waitPrecision("STALE")
		l.waitForMutations(25)
		back()
		w.waitPrecision("EXACT")
	}
	w.stop()
	l.stopAndWaitUntilLedgerMatches(world.RedisLossRecoveryTimeout, watches...)
}

// If Redis is down from the start of a request, SQL answers everything: counts marked as STALE, whole feeds, and mutations
// whose answers include their own change.
func TestWithoutRedisEverythingIsAnswered(t *testing.T) {
	server := redistest.NewServer(t)
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL()})
	n.Follow("reader", "author")
	first := n.Publish("author", "one")
	server.Kill()

	second := n.Publish("author", "two")
	stale := func(who, what string, got world.Badges, feed, likes int) {
		t.Helper()
		if err := got.CheckInvariants(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got.HomeFeed.Value != feed || got.Notifications.Like.Value != likes || got.Total.Precision != "STALE" {
			t.Errorf("%s: %s has %+v, want %d posts and %d likes, STALE", what, who, got, feed, likes)
		}
	}
	stale("reader", "a query", n.Badges("reader"), 2, 0)
	stale("stranger", "a query of somebody new", n.Badges("stranger"), 0, 0)
	if got := n.ReadWholeFeed("reader", 1); len(got) != 2 || got[0] != second || got[1] != first {
		t.Errorf("the feed is %v, want %v", got, []string{second, first})
	}
	stale("reader", "a mark", n.MarkFeedSeen("reader", first), 1, 0)

	var data struct{ R struct{ Badges world.Badges } }
	mutate := func(as, mutation, id string) world.Badges {
		t.Helper()
		n.MustAsk(as, `mutation($id:ID!){r:`+mutation+`{badges{`+world.BadgeFields+`}}}`, map[string]any{"id": id}, &data)
		return data.R.Badges
	}
	stale("reader", "a like", mutate("reader", `likePost(input:{postId:$id})`, second), 1, 0)
	world.Eventually(t, world.RedisLossRecoveryTimeout, "the job of the like has run without Redis", func() bool {
		return n.Badges("author").Notifications.Like.Value == 1
	})
	stale("author", "a deletion", mutate("author", `deletePost(input:{postId:$id})`, first), 0, 1)
	stale("reader", "an unfollow", mutate("reader", `unfollow(input:{userId:$id})`, "user:author"), 0, 0)
	stale("reader", "a follow", mutate("reader", `follow(input:{userId:$id})`, "user:author"), 0, 0)
	if got := n.ReadWholeFeed("reader", 20); len(got) != 1 || got[0] != second {
		t.Errorf("the feed is %v, want %s alone", got, second)
	}
	n.MustAsk("author", `mutation{setProfile(input:{name:"A"}){user{name}}}`, nil, nil)

	server.Start()
	world.Eventually(t, world.RedisLossRecoveryTimeout, "the jobs are done and the like counts", func() bool {
		got := n.Badges("author")
		return got.Notifications.Like.Value == 1 && got.Total.Precision == "EXACT"
	})
}
