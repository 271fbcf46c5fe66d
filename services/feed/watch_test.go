package feed

import (
	"context"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/sql"
)

// insertPostWithID commits a post whose ID was made earlier.
func (n node) insertPostWithID(author services.UserID, id services.PostID) {
	n.TB.Helper()
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		mode, err := posts.ModeOf(ctx, tx.Runner, author)
		if err != nil {
			return err
		}
		post := services.Post{ID: id, Author: author, Kind: services.PostKindPost, Body: "late", Pulled: mode == services.AuthorHuge}
		_, err = insert(ctx, tx, &post)
		return err
	})
}

// waitForChange waits a while for the next change, and returns it.
func waitForChange(t *testing.T, changes <-chan FeedChange) FeedChange {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	select {
	case change, open := <-changes:
		if !open {
			t.Fatal("the channel was closed")
		}
		return change
	case <-deadline.C:
		t.Fatal("no change came")
	}
	return FeedChange{}
}

// A watcher gets the state and then only its changes: the number of new posts, the newest, and their authors.
func TestAWatcherGetsTheAuthorsOfNewPosts(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, small := n.MakeReader()
	badges := make(chan *services.Badges, 1)
	ctx, cancel := context.WithCancel(t.Context())
	changes := n.Watch(ctx, reader, badges)
	show := func(version string, count int) {
		badges <- &services.Badges{Version: version, HomeFeed: services.NewCount(count, services.Exact, time.Time{})}
	}
	show("1", 0)
	if first := waitForChange(t, changes); first.NewPosts.Value != 0 || first.NewestUnseen != 0 || len(first.NewestAuthors) != 0 || first.Badges.Version != "1" {
		t.Errorf("first: %+v", first)
	}
	show("2", 0) // something else has changed
	n.publish(small, "1")
	last := n.publish(huge, "2")
	n.RunJobsAndReadLog()
	show("3", 2)
	event := waitForChange(t, changes)
	if event.NewPosts.Value != 2 || event.NewestUnseen != last || !slices.Equal(event.NewestAuthors, []services.UserID{huge, small}) || event.Badges.Version != "3" {
		t.Errorf("the change is %+v", event)
	}
	page, err := n.Page(t.Context(), reader, services.MaxPostID, 10)
	if err != nil || len(page.Items) != 2 || page.Items[0].Post.ID != event.NewestUnseen {
		t.Errorf("the page afterwards: %v, %v", postIDsOf(page), err)
	}
	n.publish(reader, "own posts are nobody's news")
	n.Must(n.commit(n.Service.MarkSeen(reader, event.NewestUnseen)))
	n.RunJobsAndReadLog()
	show("4", 0)
	if event = waitForChange(t, changes); event.NewPosts.Value != 0 || event.NewestUnseen != 0 || len(event.NewestAuthors) != 0 {
		t.Errorf("when all is seen: %+v", event)
	}
	cancel()
	for range changes { // it ends
	}
}

// A reader's own posts do not hide the authors of new posts.
func TestOwnPostsDoNotHideTheAuthorsOfNewPosts(t *testing.T) {
	n := redisServerNode(t)
	author, reader := n.newAuthorAndReader()
	last := n.publish(author, "new")
	n.InsertPosts(reader, services.FeedRetention+maxSearchedEntries)
	n.Must(n.fan.Projector.RefillInbox(t.Context(), reader))
	n.RunAllJobs(n.fan)
	newest, authors, err := n.newestUnseen(t.Context(), reader)
	if err != nil || newest != last || !slices.Equal(authors, []services.UserID{author}) {
		t.Errorf("the newest is %s of %v, %v; want %s", newest, authors, err, last)
	}
}

// Posts that are too old to count are not new: their authors are not named.
func TestAWatcherGetsNoAuthorsOfExpiredPosts(t *testing.T) {
	ages := services.SourceExpiry{services.SourceHomeFeed: 1}
	n := newNode(fanouttest.New(t, fanouttest.Options{Projector: func(cfg *projector.Config) { cfg.Expiry = ages }}))
	users := n.MakeUsers(4)
	old, yesterday, today, reader := users[0], users[1], users[2], users[3]
	for _, author := range []services.UserID{old, yesterday, today} {
		n.Follow(author, reader)
	}
	n.RunAllJobs(n.fan)
	var last services.PostID
	for _, author := range []services.UserID{old, yesterday, today} {
		last = n.publish(author, "hello")
		n.RunAllJobs(n.fan)
		if author != today {
			n.Clock.Advance(24 * time.Hour)
		}
	}
	wants := func(when string) {
		t.Helper()
		newest, authors, err := n.newestUnseen(t.Context(), reader)
		if err != nil || newest != last || !slices.Equal(authors, []services.UserID{today, yesterday}) {
			t.Errorf("%s the newest is %s of %v, %v; want %s of %v", when, newest, authors, err, last, []services.UserID{today, yesterday})
		}
	}
	wants("by the inbox")
	n.RedisServer.Kill()
	wants("by the facts")
}

// A slow watcher gets the latest state, once. The channel is closed when the badges' channel is.
func TestASlowWatcherGetsTheLatest(t *testing.T) {
	n := redisServerNode(t)
	reader, huge, _ := n.MakeReader()
	badges := make(chan *services.Badges)
	changes := n.Watch(t.Context(), reader, badges)
	n.RedisServer.Kill() // the changes then come from the facts, and do not differ
	for i := range 30 {
		n.publish(huge, "x")
		badges <- &services.Badges{Version: "x", HomeFeed: services.NewCount(i+1, services.Exact, time.Time{})}
	}
	for event := waitForChange(t, changes); event.NewPosts.Value != 30; event = waitForChange(t, changes) {
		if len(event.NewestAuthors) != 1 {
			t.Fatalf("the change is %+v", event)
		}
	}
	close(badges)
	for range changes {
	}
}
