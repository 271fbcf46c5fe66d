package feed

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/posts"
	"tidings/services/redis"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// readyPage is a reader's page from the top by ReadNewest; nil if ReadNewest leaves it to Page.
func (n node) readyPage(reader services.UserID, first int) (page *Page) {
	n.TB.Helper()
	err := n.ReadNewest(n.TB.Context(), []NewestRequest{{reader, first}}, func(_ int, ready Page) { page = &ready })
	if err != nil && !services.IsUnavailable(err) || err != nil && page != nil {
		n.TB.Fatalf("%+v, %v", page, err)
	}
	return page
}

// Page calls Service.Page, and checks that ReadNewest has the same page before that call and after it, if the page is ready then. After a
// page of a feed that is being built it does not check: the feed may be complete by then.
func (n node) Page(ctx context.Context, reader services.UserID, before services.PostID, first int) (Page, error) {
	n.TB.Helper()
	if before != services.MaxPostID || first > 100 || services.Observed(ctx) {
		return n.Service.Page(ctx, reader, before, first)
	}
	earlier := n.readyPage(reader, first)
	page, err := n.Service.Page(ctx, reader, before, first)
	for when, ready := range map[string]*Page{"before": earlier, "after": n.readyPage(reader, first)} {
		if err == nil && ready != nil && (when == "before" || !page.InboxBuilding) {
			if diff := cmp.Diff(page, *ready); diff != "" {
				n.TB.Errorf("the newest %d of %d, %s the page (-page +ready):\n%s", first, reader, when, diff)
			}
		}
	}
	return page, err
}

// All ready pages together take one round trip and no statement, for readers with pages of different sizes.
func TestNewestPagesAreOneRoundTrip(t *testing.T) {
	var statements atomic.Int64
	n := newNode(fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.SQLite(t), Trace: func(string) { statements.Add(1) }}))
	reader, huge, small := n.MakeReader()
	ids := n.InsertPosts(small, 30)
	n.Must(n.fan.ReconcileFollow(t.Context(), reader, small))
	for range 3 {
		ids = append(ids, n.publish(huge, "pulled"))
	}
	n.RunJobsAndReadLog()
	want := map[int]Page{}
	for _, first := range []int{1, 20, 33, 50} {
		page, err := n.Page(t.Context(), reader, services.MaxPostID, first)
		n.Must(err)
		want[first] = page
	}
	if got := postIDsOf(want[50]); len(got) != len(ids) {
		t.Fatalf("%d posts are listed: %v", len(got), got)
	}
	stranger := n.MakeNeverSeenUsers(1)[0]
	before := statements.Load()
	ctx, trips := redis.WithRoundTrips(t.Context())
	asked := []NewestRequest{{stranger, 20}, {reader, 20}, {0, 1}, {reader, 33}, {reader, 50}, {reader, 1}}
	seen := 0
	n.Must(n.ReadNewest(ctx, asked, func(i int, page Page) {
		seen++
		if diff := cmp.Diff(want[asked[i].First], page); diff != "" || asked[i].Reader != reader {
			t.Errorf("page %d of %d (-want +got):\n%s", i, asked[i].Reader, diff)
		}
	}))
	if seen != 4 || trips.Count() != 1 || statements.Load() != before {
		t.Errorf("%d pages, %d round trips and %d statements", seen, trips.Count(), statements.Load()-before)
	}
	n.Must(n.ReadNewest(ctx, nil, func(int, Page) { t.Error("a page of nobody") }))
}

// wantPageNotReady checks that a reader's page is not ready, and that it is ready after a call of Page.
func (n node) wantPageNotReady(what string, reader services.UserID, first int) {
	n.TB.Helper()
	for range 2 { // the second time too: ReadNewest does not make the page ready
		if page := n.readyPage(reader, first); page != nil {
			n.TB.Errorf("%s: %v is ready", what, postIDsOf(*page))
		}
	}
	if _, err := n.Page(n.TB.Context(), reader, services.MaxPostID, first); err != nil {
		n.TB.Errorf("%s: %v", what, err)
	}
	if n.readyPage(reader, first) == nil {
		n.TB.Errorf("%s: nothing is ready after a read", what)
	}
}

// ReadNewest leaves pages to Page that need more than the inbox and the node cache.
func TestReadNewestLeavesIncompletePagesToPage(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	ids := newestFirst(n.InsertPosts(author, 40))
	n.Must(n.fan.ReconcileFollow(t.Context(), reader, author))
	n.wantPageNotReady("posts that this node has not read", reader, 20)
	n.Must(n.Redis.ResetUserData(t.Context(), reader))
	n.wantPageNotReady("an inbox that is lost", reader, 20)
	n.Clock.Advance(n.Projector.RedisKeyLifetime())
	n.wantPageNotReady("a reader who comes back after a long time", reader, 20)

	n.deleteWithoutJob(ids[2:4]...)
	n.Caches.Posts.Clear()
	page, err := n.Page(t.Context(), reader, services.MaxPostID, 10)
	if err != nil || len(page.Items) != 10 {
		t.Fatalf("%v, %v", postIDsOf(page), err)
	}
	if ready := n.readyPage(reader, 10); ready != nil {
		t.Errorf("a page that goes on behind deleted posts: %v is ready", postIDsOf(*ready))
	}
	n.wantPageNotReady("a last page with deleted posts", reader, 100)

	unheard := n.MakeUsers(1)[0]
	n.SetMode(unheard, services.AuthorHuge)
	n.Follow(unheard, reader)
	n.RunAllJobs(n.fan)
	n.wantPageNotReady("a huge author that the node does not know", reader, 100)
}

// A page that should have a post in flight is left to Page. A page that ends above the post is ready.
func TestPagesDuringAFanOut(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	one := posts.InFlightFanout{Post: n.InsertPosts(author, 1)[0], Author: author}
	n.Clock.Advance(time.Second)
	for range 5 {
		n.publish(author, "newer")
	}
	n.RunJobsAndReadLog() // includes the first read of the changelog, which empties the cache
	if page, err := n.Page(t.Context(), reader, services.MaxPostID, 20); err != nil || len(page.Items) != 5 || n.readyPage(reader, 20) == nil {
		t.Fatalf("%v, %v", postIDsOf(page), err)
	}
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		if err := posts.BeginFanout(ctx, tx, one, 1); err != nil {
			return err
		}
		return nodecache.FanoutChange{InFlightFanout: one}.Append(ctx, tx)
	})
	_, err := n.Caches.Changelog.RunOnce(t.Context())
	n.Must(err)
	if ready := n.readyPage(reader, 4); ready == nil || len(ready.Items) != 4 {
		t.Error("a page that ends above the post is not ready")
	}
	n.wantPageNotReady("a page that lacks a post in flight", reader, 20)
	if ready := n.readyPage(reader, 20); len(ready.Items) != 6 {
		t.Errorf("afterwards it has %v", postIDsOf(*ready))
	}
}

// A command has failed to update its user's document: ReadNewest leaves the user to Page until that is made up for.
func TestReadNewestLeavesReadersWithAnOwedUpdateToPage(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	n.World.Post(author)
	n.RunAllJobs(n.fan)
	if _, err := n.Page(t.Context(), reader, services.MaxPostID, 10); err != nil || n.readyPage(reader, 10) == nil {
		t.Fatalf("nothing is ready: %v", err)
	}
	missed := errors.New("missed")
	apply := func(context.Context, *sql.Tx) ([]string, error) { return nil, nil }
	cmd := &jobs.Command{Actor: reader, Name: "mark", Apply: apply, AfterCommit: func(context.Context) error { return missed }}
	n.Must(n.commit(cmd))
	if page := n.readyPage(reader, 10); page != nil {
		t.Errorf("a page that lacks an update: %v is ready", postIDsOf(*page))
	}
	missed = nil
	if left := n.fan.UpdateStaleProjections(t.Context()); left != 0 {
		t.Fatalf("%d users are still owed an update", left)
	}
	if n.readyPage(reader, 10) == nil {
		t.Error("nothing is ready after the update")
	}
	n.RedisServer.Kill()
	err := n.ReadNewest(t.Context(), []NewestRequest{{reader, 10}}, func(int, Page) { t.Error("a page without Redis") })
	if !services.IsUnavailable(err) {
		t.Errorf("without Redis: %v", err)
	}
}
