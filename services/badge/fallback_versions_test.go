package badge

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/tests/histories"
)

// An answer from SQL has a higher version than the document that was read before it, and a lower one than the same document read
// after it. So a client that drops lower versions accepts the answer and then the document. This holds for a node that has shown
// the document before, whatever its clock shows, and for one that has just started, if its clock is ahead of that of Redis.
func TestTheExactDocumentHasAHigherVersionThanAFallback(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(2)
	for _, ahead := range []time.Duration{0, 2000 * day} { // the node's clock is behind that of Redis, then ahead of it
		n.Clock.Advance(ahead)
		nodes := map[string]node{"a node that has shown it": n}
		if ahead > 0 {
			nodes["a node that has just started"] = n.restarted()
		}
		for what, node := range nodes {
			before := n.read(reader)
			fallback, err := node.ReadFacts(t.Context(), reader)
			n.Must(err)
			again, err := node.ReadFacts(t.Context(), reader)
			n.Must(err)
			exact := node.read(reader)
			if fallback.Version <= before.Version || again.Version < fallback.Version || exact.Version <= again.Version {
				t.Errorf("%s: after %s come %s and %s from SQL, and then %s", what, before.Version, fallback.Version, again.Version, exact.Version)
			}
			if exact.HomeFeed.Value != 2 || exact.Total.Precision != services.Exact || fallback.Total.Precision != services.Stale {
				t.Errorf("%s: %+v and then %+v", what, fallback, exact)
			}
			if passed, err := node.raiseDocumentsAboveFallbacks(t.Context()); passed != 0 || err != nil {
				t.Errorf("%s: %d documents are still to be raised, %v", what, passed, err)
			}
		}
	}
}

// A read overlaps a raise by another call and returns the document as it was before the raise. That document is not shown: it is
// older than the answer from SQL, whose version is already forgotten when the document arrives.
func TestADocumentRaisedDuringItsReadIsReadAgain(t *testing.T) {
	server := redistest.NewServer(t)
	proxy := redistest.NewProxy(t, server.URL())
	n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: proxy.URL()}))
	_, reader := n.newLikedAuthor(1)
	n.read(reader)
	fallback, err := n.ReadFacts(t.Context(), reader)
	n.Must(err)
	arrived, release := proxy.HoldReply()
	defer release()
	read := make(chan *services.Badges, 1)
	go func() {
		badges, err := n.Read(t.Context(), reader)
		if err != nil {
			t.Error(err)
		}
		read <- badges
	}()
	<-arrived
	if passed, err := n.raiseDocumentsAboveFallbacks(t.Context()); passed != 1 || err != nil {
		t.Errorf("%d documents were raised, %v; want 1", passed, err)
	}
	release()
	if got := <-read; got.Version <= fallback.Version || got.Total.Precision != services.Exact {
		t.Errorf("after %s, %s, comes %s, %s", fallback.Version, fallback.Total.Precision, got.Version, got.Total.Precision)
	}
}

// A document that lacks a command that this node has acknowledged is not raised, and so not shown either: not even to a reader who began
// before the update of the user's projections failed.
func TestADocumentThatLacksAnUpdateIsNotShown(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(1)
	n.read(reader)
	fallback, err := n.ReadFacts(t.Context(), reader)
	n.Must(err)
	failure := errors.New("missed")
	n.commitWithRedisUpdate(reader, func(context.Context) error { return failure })
	documents, err := n.documents(t.Context(), []services.UserID{reader})
	n.Must(err)
	if documents[0].Ready {
		t.Errorf("the document of %d is shown after %s", documents[0].Version, fallback.Version)
	}
	if got := n.read(reader); got.Version < fallback.Version || got.Total.Precision != services.Stale {
		t.Errorf("after %s comes %s, %s", fallback.Version, got.Version, got.Total.Precision)
	}
	failure = nil
	if left := n.World.Fanout.UpdateStaleProjections(t.Context()); left != 0 {
		t.Errorf("%d updates are still owed", left)
	}
	if got := n.read(reader); got.Version <= fallback.Version || got.Total.Precision != services.Exact {
		t.Errorf("after %s comes %s, %s", fallback.Version, got.Version, got.Total.Precision)
	}
}

// commitWithRedisUpdate commits a command of a user, after which update is to bring the change into Redis. If update fails, the node
// owes the update.
func (n node) commitWithRedisUpdate(user services.UserID, update func(context.Context) error) {
	n.TB.Helper()
	apply := func(context.Context, *sql.Tx) ([]string, error) { return nil, nil }
	errs := n.World.Fanout.Commit(n.TB.Context(), &jobs.Command{Actor: user, Name: "mark", Apply: apply, AfterCommit: update})
	n.Must(errs[0])
}

// The node raises the version of a document above the fallback version that it gave out, before anyone reads it, so that subscribers
// accept the exact counts. If that node is gone, the version that the client returns with has the same effect. No client can raise a
// document into the future.
func TestDocumentsAreRaisedAboveFallbackVersionsWithoutARead(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(1)
	n.Clock.Advance(2000 * day)
	before := n.read(reader)
	fallback, err := n.ReadFacts(t.Context(), reader)
	n.Must(err)
	for _, want := range []int{1, 0} {
		if passed, err := n.raiseDocumentsAboveFallbacks(t.Context()); passed != want || err != nil {
			t.Errorf("%d documents were raised, %v; want %d", passed, err, want)
		}
	}
	if exact := n.read(reader); exact.Version <= fallback.Version {
		t.Errorf("after %s comes %s", fallback.Version, exact.Version)
	}
	fallback, err = n.restarted().ReadFacts(t.Context(), reader) // by a node that is gone afterwards
	n.Must(err)
	n.NoteClientVersion(reader, fallback.Version)
	if exact := n.read(reader); exact.Version <= fallback.Version {
		t.Errorf("after %s comes %s", fallback.Version, exact.Version)
	}
	own := n.read(reader).Version
	for _, version := range []string{before.Version, services.StaleVersion(1<<52, n.Clock.Now())} {
		n.NoteClientVersion(reader, version)
	}
	if exact := n.read(reader); exact.Version != own {
		t.Errorf("what a client says has changed %s to %s", own, exact.Version)
	}
}

// The fallback version of a user without a document is forgotten once the time of Redis has passed it: the document gets a later
// version when it is built. Otherwise users that only the host application reads would be remembered for ever.
func TestFallbackVersionsWithoutADocumentAreForgotten(t *testing.T) {
	n := redisServerNode(t)
	stranger := n.MakeNeverSeenUsers(1)[0]
	for _, ahead := range []time.Duration{0, 2000 * day} { // the node's clock is behind that of Redis, then ahead of it
		n.Clock.Advance(ahead)
		n = n.restarted()
		badges, errs := n.ReadForHost(t.Context(), []services.UserID{stranger})
		n.Must(errs[0])
		if n.fallbacks.isEmpty() {
			t.Fatal("the host application was shown a version that is not remembered")
		}
		passed, err := n.raiseDocumentsAboveFallbacks(t.Context())
		if err != nil || n.fallbacks.isEmpty() != (ahead == 0) || passed != map[bool]int{true: 1}[ahead == 0] {
			t.Errorf("with the clock ahead by %s %d versions were passed, %v; still remembered: %v", ahead, passed, err, n.fallbacks.list(nil))
		}
		if exact := n.read(stranger); exact.Version <= badges[0].Version || exact.Total.Precision != services.Exact {
			t.Errorf("after %s comes %s, %s", badges[0].Version, exact.Version, exact.Total.Precision)
		}
		if !n.fallbacks.isEmpty() {
			t.Errorf("remembered after the document was read: %v", n.fallbacks.list(nil))
		}
		n.RedisServer.Flush()
	}
}

// The host application reads more users than the memory of fallback versions holds. The users' own reads still have room in it, so
// that they get exact badges afterwards.
func TestReadsForTheHostLeaveRoomForUsers(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(1)
	n.read(reader)
	read := n.MakeNeverSeenUsers(1)
	ctx := services.Observe(t.Context())
	for i := range services.UserID(maxFallbackVersions) {
		n.rememberFallbackVersion(ctx, 1000+i, 1)
	}
	if _, errs := n.ReadForHost(t.Context(), read); errs[0] != nil || len(n.fallbacks.list(read)) != 0 {
		t.Errorf("remembered although most of the memory is in use: %v, %v", n.fallbacks.list(read), errs[0])
	}
	fallback, err := n.ReadFacts(t.Context(), reader)
	n.Must(err)
	if exact := n.read(reader); exact.Version <= fallback.Version || exact.Total.Precision != services.Exact {
		t.Errorf("after %s comes %s, %s", fallback.Version, exact.Version, exact.Total.Precision)
	}
}

// If Redis answers reads and refuses writes, a document whose version cannot be raised is not shown, and the counts still come from
// SQL.
func TestADocumentThatCannotBeRaisedIsNotShown(t *testing.T) {
	n := redisServerNode(t)
	_, reader := n.newLikedAuthor(1)
	n.read(reader)
	fallback, err := n.ReadFacts(t.Context(), reader)
	n.Must(err)
	n.RedisServer.Do("ACL", "SETUSER", "default", "-eval", "-evalsha")
	if got := n.read(reader); got.Version < fallback.Version || got.Total.Precision != services.Stale {
		t.Errorf("after %s comes %s, %s", fallback.Version, got.Version, got.Total.Precision)
	}
	n.RedisServer.Do("ACL", "SETUSER", "default", "+eval", "+evalsha")
	if got := n.read(reader); got.Version <= fallback.Version || got.Total.Precision != services.Exact {
		t.Errorf("after %s comes %s, %s", fallback.Version, got.Version, got.Total.Precision)
	}
}

// In any mix of answers from SQL, exact answers and new posts, the versions of a node's answers never fall, and no two
// different answers have the same version.
func TestVersionsRiseWhileAnswersAreStale(t *testing.T) {
	n := redisServerNode(t)
	histories.ReduceRapidChecks(t, 4)
	rapid.Check(t, func(t *rapid.T) {
		author, reader := n.newLikedAuthor(1)
		last, posts := n.read(reader), 1
		take := func(got *services.Badges, want services.Precision) {
			same := visibleText(got) == visibleText(last) && got.Total.Precision == last.Total.Precision
			if got.Version < last.Version || got.Version == last.Version && !same || got.HomeFeed.Value != posts || got.Total.Precision != want {
				t.Fatalf("after %s at %s, %s, comes %s at %s, %s; want %d", visibleText(last), last.Version, last.Total.Precision,
					visibleText(got), got.Version, got.Total.Precision, posts)
			}
			last = got
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				n.Post(author)
				n.RunAllJobs(n.World.Fanout)
				posts++
			case 1:
				// a clock may be set back
				n.Clock.Advance(time.Duration(rapid.IntRange(-2, 3).Draw(t, "ms")) * time.Millisecond)
				got, err := n.ReadFacts(context.Background(), reader)
				n.Must(err)
				take(got, services.Stale)
			default:
				take(n.read(reader), services.Exact)
			}
		}
		take(n.read(reader), services.Exact)
	})
}
