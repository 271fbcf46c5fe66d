package feed

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/notifications"
	"tidings/services/notifications/notificationstest"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/redis"
	"tidings/services/sql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is the feeds of one node on real engines.
type node struct {
	*fanouttest.World
	*Service
	fan           *fanouttest.Fanout     // the fan-out of the node
	notifications *notifications.Service // the notifications of the node
}

// newNode makes the feeds of a world's node.
func newNode(w *fanouttest.World) node {
	notifying := notificationstest.New(w)
	return node{w, New(Config{Jobs: w.Fanout.Engine, DB: w.DB, Redis: w.Redis, Posts: w.Caches.Posts, Reader: w.Caches.Reader, Pulled: w.Caches.Pulled, InFlight: w.Caches.InFlight, Projector: w.Projector, Fanout: w.Fanout.Fanout, IDs: w.IDs, Clock: w.Clock}), w.Fanout, notifying}
}

// redisServerNode makes a node on a redis-server.
func redisServerNode(t *testing.T) node {
	t.Helper()
	return newNode(fanouttest.New(t, fanouttest.Options{}))
}

// newAuthorAndReader makes an author and a reader who follows them.
func (n node) newAuthorAndReader() (author, reader services.UserID) {
	n.TB.Helper()
	users := n.MakeUsers(2)
	n.Follow(users[0], users[1])
	n.RunAllJobs(n.fan)
	return users[0], users[1]
}

// commit advances the clock by a millisecond, and then commits a command.
func (n node) commit(cmd *jobs.Command) error {
	n.TB.Helper()
	n.Clock.Advance(time.Millisecond)
	return n.fan.Commit(n.TB.Context(), cmd)[0]
}

// publish publishes a post and returns its ID. An error fails the test.
func (n node) publish(author services.UserID, body string) services.PostID {
	n.TB.Helper()
	cmd, err := n.Publish(author, Draft{Body: body})
	n.Must(err)
	n.Must(n.commit(cmd))
	id, err := services.ParsePostGlobalID("id", cmd.IDs()[0])
	n.Must(err)
	return id
}

func TestPublishReachesTheAuthorAtOnce(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		author, reader := n.newAuthorAndReader()
		id := n.publish(author, "hello")
		page, err := n.Page(t.Context(), author, services.MaxPostID, 20)
		if err != nil || len(page.Items) != 1 || page.Items[0].Post.Body != "hello" || page.Items[0].Author.ID != author {
			t.Errorf("the author's page before any job: %+v, %v", page, err)
		}
		n.RunAllJobs(n.fan)
		n.CheckAgainstFacts(author, reader)
		page, err = n.Page(t.Context(), reader, services.MaxPostID, 20)
		if err != nil || len(page.Items) != 1 || page.Items[0].Post.ID != id {
			t.Errorf("the reader's page after its fan-out: %+v, %v", page, err)
		}
	})
}

// Bodies of posts that are empty, too long or not valid text are refused.
func TestInvalidBodiesAreRefused(t *testing.T) {
	n := redisServerNode(t)
	for what, body := range map[string]struct {
		text string
		fits bool
	}{
		"nothing": {"", false}, "white space": {" \n\t\u00a0\u3000", false}, "one letter": {"a", true},
		"the most": {strings.Repeat("é", services.MaxBodyCharacters), true}, "one more": {strings.Repeat("é", services.MaxBodyCharacters+1), false},
		"a NUL": {"a\x00b", false}, "broken UTF-8": {"a\xff", false},
	} {
		_, err := n.Publish(1, Draft{Body: body.text})
		if (err == nil) != body.fits || err != nil && (services.CodeOf(err) != services.Invalid || !strings.HasPrefix(err.Error(), "body: ")) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestOnlyTheAuthorDeletesAPostAndOnce(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	id := n.publish(author, "hello")
	n.RunAllJobs(n.fan)
	for _, attempt := range []struct {
		what string
		user services.UserID
		post services.PostID
		code services.Code
	}{
		{"a post that never was", author, 12345, services.NotFound},
		{"another's post", reader, id, services.Forbidden},
		{"one's own", author, id, ""},
		{"again", author, id, ""},
		{"another's, deleted", reader, id, services.Forbidden},
	} {
		if err := n.commit(n.Service.Delete(attempt.user, attempt.post)); services.CodeOf(err) != attempt.code {
			t.Errorf("%s: %v, want %q", attempt.what, err, attempt.code)
		}
		if attempt.code == services.Forbidden && attempt.post == id {
			post, err := posts.ByID(t.Context(), n.DB, []services.PostID{id})
			n.Must(err)
			if attempt.what == "another's post" && post[id].Deleted {
				t.Fatal("refused, and deleted all the same")
			}
		}
	}
	if page, err := n.Page(t.Context(), author, services.MaxPostID, 20); err != nil || len(page.Items) != 0 {
		t.Errorf("before any job the author still sees it: %+v, %v", page, err)
	}
	n.RunAllJobs(n.fan)
	n.CheckAgainstFacts(author, reader)
	if count := n.Document(reader).FeedCount; count != 0 {
		t.Errorf("a deleted unseen post counts: %d", count)
	}
	read, _, err := n.Service.reader.Read(t.Context(), []services.PostID{id, 12345}, nil)
	n.Must(err)
	for id, post := range read {
		if !post.Deleted {
			t.Errorf("post %s: %+v", id, post)
		}
	}
}

// The seen position of a feed never moves backward.
func TestTheSeenPositionOfAFeedNeverRegresses(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	var ids []services.PostID
	for range 3 {
		ids = append(ids, n.publish(author, "hello"))
	}
	n.RunAllJobs(n.fan)
	for _, look := range []struct {
		upTo services.PostID
		left int
	}{{ids[0], 2}, {ids[1], 1}, {ids[0], 1}, {0, 0}, {ids[0], 0}, {ids[2], 0}} {
		n.Must(n.commit(n.MarkSeen(reader, look.upTo)))
		if count := n.Document(reader).FeedCount; count != look.left {
			t.Errorf("after looking up to %s %d are new, want %d", look.upTo, count, look.left)
		}
	}
	n.RunAllJobs(n.fan)
	n.CheckAgainstFacts(reader)
}

// A post that was shown may have been deleted since, or its author unfollowed: its position is still accepted. Positions of posts that
// never existed, and positions in the future, are refused, and the seen position stays.
func TestOnlyPublishedPostsCanBeMarkedSeen(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	stranger := n.MakeNeverSeenUsers(1)[0]
	deleted := n.publish(author, "deleted")
	n.Must(n.commit(n.Service.Delete(author, deleted)))
	shown, strange := n.publish(author, "shown"), n.publish(stranger, "not followed")
	n.RunAllJobs(n.fan)
	now := n.Clock.Now()
	for _, look := range []struct {
		what string
		upTo services.PostID
		code services.Code
		mark services.PostID
	}{
		{"a post that never was", deleted - 1, services.NotFound, 0},
		{"the first of all ids", 1, services.NotFound, 0},
		{"a deleted post", deleted, "", deleted},
		{"a post", shown, "", shown},
		{"a post of somebody who is not followed", strange, "", strange},
		{"what a node with a faster clock may publish yet", services.PostID(services.SortableIDAt(now.Add(maxClockSkew))), services.NotFound, strange},
		{"the future", services.PostID(services.SortableIDAt(now.Add(maxClockSkew + time.Second))), services.Invalid, strange},
		{"what is ten years ahead", services.PostID(services.SortableIDAt(now.AddDate(10, 0, 0))), services.Invalid, strange},
		{"the end of time", services.MaxPostID, services.Invalid, strange},
		{"all that is in the feed", 0, "", strange},
	} {
		err := n.commit(n.MarkSeen(reader, look.upTo))
		if services.CodeOf(err) != look.code || err != nil && !strings.HasPrefix(err.Error(), "upTo: ") {
			t.Errorf("up to %s: %v, want %q", look.what, err, look.code)
		}
		mark, err := positions.Of[services.PostID](t.Context(), n.DB, reader, positions.HomeFeedView)
		if err != nil || mark != look.mark {
			t.Errorf("up to %s: the mark is at %s, %v, want %s", look.what, mark, err, look.mark)
		}
	}
	n.RunAllJobs(n.fan)
	n.CheckAgainstFacts(reader)
}

// publishAroundRestrictions lets two authors publish before and after one of them hides from a reader and the other blocks them. It
// returns the posts from before, deleted ones too, and the posts from after, which the reader can never have been shown.
func (n node) publishAroundRestrictions(reader services.UserID) (before, after []services.PostID) {
	n.TB.Helper()
	authors := n.MakeUsers(2)
	publish := func() (ids []services.PostID) {
		for _, author := range authors {
			deleted := n.publish(author, "deleted")
			n.Must(n.commit(n.Service.Delete(author, deleted)))
			ids = append(ids, deleted, n.publish(author, "hidden"))
		}
		return ids
	}
	n.Follow(authors[0], reader)
	before = publish()
	n.Clock.Advance(time.Second)
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		for i, kind := range []services.RestrictionKind{services.Hide, services.Block} {
			made := services.SortableIDAt(n.Clock.Now())
			if _, err := people.Restrict(ctx, tx, services.Restriction{Kind: kind, Owner: authors[i], Other: reader, MadeAt: made}); err != nil {
				return err
			}
		}
		return jobs.Enqueue(ctx, tx, fanout.FollowJob(reader, authors[0]))
	})
	n.Clock.Advance(time.Second)
	after = publish()
	n.RunAllJobs(n.fan)
	return before, after
}

// A post that its author published while hiding from the reader, or while blocking them, looks to the reader as if it never
// existed. A post from before is accepted as a position, as a deleted post is: nothing reveals that it was hidden since.
func TestHiddenPostsAsPositions(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		_, reader := n.newAuthorAndReader()
		before, after := n.publishAroundRestrictions(reader)
		for _, post := range slices.Concat(before, after) {
			want := map[bool]services.Code{true: "", false: services.NotFound}[slices.Contains(before, post)]
			err := n.commit(n.MarkSeen(reader, post))
			if services.CodeOf(err) != want || err != nil && err.Error() != "upTo: there is no post:"+post.String() {
				t.Errorf("up to %s: %v, want %q", post, err, want)
			}
			_, err = n.PageBelow(t.Context(), reader, post, 10)
			if services.CodeOf(err) != want || err != nil && err.Error() != "lastId: there is no post:"+post.String() {
				t.Errorf("below %s: %v, want %q", post, err, want)
			}
		}
		mark, err := positions.Of[services.PostID](t.Context(), n.DB, reader, positions.HomeFeedView)
		if err != nil || mark != slices.Max(before) {
			t.Errorf("the mark is at %s, %v, want %s", mark, err, slices.Max(before))
		}
	})
}

// A mutation with an idempotency key that was used before returns the post that the first request made, and changes nothing.
func TestPublishAgainUnderItsKey(t *testing.T) {
	n := redisServerNode(t)
	author, _ := n.newAuthorAndReader()
	var ids []string
	for range 2 {
		cmd, err := n.Publish(author, Draft{Body: "hello"})
		n.Must(err)
		cmd.IdempotencyKey, cmd.Input = "k", "hello"
		n.Must(n.commit(cmd))
		ids = append(ids, cmd.IDs()...)
	}
	if len(ids) != 2 || ids[0] != ids[1] || countListedPosts(n, author) != 1 {
		t.Errorf("the answers name %v, and %d posts are listed", ids, countListedPosts(n, author))
	}
}

// countListedPosts is how many posts the first page of a reader's feed lists.
func countListedPosts(n node, reader services.UserID) int {
	n.TB.Helper()
	page, err := n.Page(n.TB.Context(), reader, services.MaxPostID, 20)
	n.Must(err)
	return len(page.Items)
}

// A page from Redis and the node cache takes at most two round trips, whatever its size.
func TestAPageIsTwoRoundTrips(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	n.InsertPosts(author, 120)
	n.Must(n.fan.ReconcileFollow(t.Context(), reader, author))
	for _, first := range []int{1, 20, 100} {
		ctx, trips := redis.WithRoundTrips(t.Context())
		page, err := n.Page(ctx, reader, services.MaxPostID, first)
		if err != nil || len(page.Items) != first || !page.HasNext {
			t.Fatalf("first %d: %d items, %v", first, len(page.Items), err)
		}
		// The copies that the cache lacks are put into Redis once, in one more round trip.
		if trips.Count() > 3 {
			t.Errorf("first %d: %d round trips", first, trips.Count())
		}
		ctx, trips = redis.WithRoundTrips(t.Context())
		if _, err := n.Page(ctx, reader, services.MaxPostID, first); err != nil || trips.Count() > 2 {
			t.Errorf("first %d again: %d round trips, %v", first, trips.Count(), err)
		}
	}
}

// postIDsOf are the IDs of a page's posts, in its order.
func postIDsOf(page Page) []services.PostID {
	ids := make([]services.PostID, len(page.Items))
	for i, item := range page.Items {
		ids[i] = item.Post.ID
	}
	return ids
}

// readWholeFeed reads a feed to its end, in pages of first posts.
func (n node) readWholeFeed(reader services.UserID, first int) (ids []services.PostID, end services.FeedEnd) {
	n.TB.Helper()
	before := services.MaxPostID
	for range 2 * services.FeedRetention {
		page, err := n.Page(n.TB.Context(), reader, before, first)
		n.Must(err)
		if len(page.Items) > first || page.HasNext != (page.End == "") || page.HasNext && page.NextPageAfter >= before {
			n.TB.Fatalf("a page of %d before %s: %d items, next %s, more %t, end %q", first, before, len(page.Items), page.NextPageAfter, page.HasNext, page.End)
		}
		ids = append(ids, postIDsOf(page)...)
		if !page.HasNext {
			return ids, page.End
		}
		before = page.NextPageAfter
	}
	n.TB.Fatal("the feed has no end")
	return nil, ""
}

// newestFirst returns a sorted copy of IDs, the newest first.
func newestFirst(ids []services.PostID) []services.PostID {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids
}
