package feed

import (
	"context"
	"slices"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/nodecache"
	"tidings/services/posts"
	"tidings/services/sql"
)

// A post in flight that is older than the first page is on the page where it belongs.
func TestAPostInFlightIsBelowTheFirstPage(t *testing.T) {
	n := redisServerNode(t)
	reader, _, small := n.MakeReader()
	one := posts.InFlightFanout{Post: n.InsertPosts(small, 1)[0], Author: small} // without a job: no fan-out brings it
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		if err := posts.BeginFanout(ctx, tx, one, 2); err != nil {
			return err
		}
		return nodecache.FanoutChange{InFlightFanout: one}.Append(ctx, tx)
	})
	_, err := n.Caches.Changelog.RunOnce(t.Context())
	n.Must(err)
	want := []services.PostID{one.Post}
	for range 4 {
		want = append([]services.PostID{n.World.Post(small)}, want...)
	}
	n.RunAllJobs(n.fan)
	if got, _ := n.readWholeFeed(reader, 2); !slices.Equal(got, want) {
		t.Errorf("pages of 2: %v, want %v", got, want)
	}
	if got := n.Document(reader).FeedCount; got != len(want) {
		t.Errorf("%d are counted, want %d", got, len(want))
	}
}

// A post in flight below the end of the inbox is on no page. Reads of the last page leave the reader's document as it is.
func TestAPostInFlightBelowTheInboxIsNotMerged(t *testing.T) {
	n := redisServerNode(t)
	reader, _, small := n.MakeReader()
	ids := n.InsertPosts(small, services.FeedRetention+100)
	n.Must(n.World.Projector.RefillInbox(t.Context(), reader))
	one := posts.InFlightFanout{Post: ids[0], Author: small}
	n.Write(func(ctx context.Context, tx *sql.Tx) error {
		if err := posts.BeginFanout(ctx, tx, one, 2); err != nil {
			return err
		}
		return nodecache.FanoutChange{InFlightFanout: one}.Append(ctx, tx)
	})
	n.RunJobsAndReadLog()
	last := ids[len(ids)-290]
	was := n.Document(reader).Version
	for range 2 {
		page, err := n.Page(t.Context(), reader, last, 20)
		n.Must(err)
		if len(page.Items) != 10 || page.HasNext || page.End != services.EndOfRetention {
			t.Errorf("the last page has %d posts, further ones: %t, and ends for %v", len(page.Items), page.HasNext, page.End)
		}
		if now := n.Document(reader).Version; now != was {
			t.Errorf("a read of the last page moves the version from %d to %d", was, now)
		}
	}
}

// A fan-out reaches a reader and ends while their page is read, after the inbox was read. The page still has the post.
func TestAFanOutThatEndsDuringAPageIsOnIt(t *testing.T) {
	var during func()
	n := newNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded", Trace: func(statement string) {
		if now := during; statement == "pulled posts" && now != nil {
			during = nil
			now()
		}
	}}))
	reader, _, small := n.MakeReader()
	one := posts.InFlightFanout{Post: n.InsertPosts(small, 1)[0], Author: small}
	change := func(ended bool) {
		n.Write(func(ctx context.Context, tx *sql.Tx) error {
			if !ended {
				if err := posts.BeginFanout(ctx, tx, one, 1); err != nil {
					return err
				}
			} else if _, err := posts.EndFanoutChunk(ctx, tx, one.Post); err != nil {
				return err
			}
			return nodecache.FanoutChange{InFlightFanout: one, Ended: ended}.Append(ctx, tx)
		})
		_, err := n.Caches.Changelog.RunOnce(t.Context())
		n.Must(err)
	}
	change(false)
	// This author is not in the node cache yet, so the page asks SQL.
	unheard := n.MakeUsers(1)[0]
	n.SetMode(unheard, services.AuthorHuge)
	n.Follow(unheard, reader)
	n.RunAllJobs(n.fan)
	during = func() {
		_, err := n.fan.AddInFlightPosts(t.Context(), reader, []posts.InFlightFanout{one})
		n.Must(err)
		change(true)
	}
	page, err := n.Page(t.Context(), reader, services.MaxPostID, 10)
	if err != nil || during != nil || !slices.Equal(postIDsOf(page), []services.PostID{one.Post}) {
		t.Errorf("%v, %v; want %v. The fan-out did not end during the page: %t", postIDsOf(page), err, one.Post, during != nil)
	}
}
