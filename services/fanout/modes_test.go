package fanout_test

import (
	"context"
	"fmt"
	"testing"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// A push may have read the follow before the follow's mode changed. The post that the push adds late counts by the present mode: it does
// not count if the reader has set another mode, and counts again if they have taken that back.
func TestAChangedFollowModeWinsOverAnOlderPush(t *testing.T) {
	for name, modes := range map[string][]services.FollowMode{
		"set": {services.FollowLiveOnly}, "set again": {services.FollowNone, services.FollowLiveOnly}, "taken back": {services.FollowNone, services.FollowAll},
	} {
		t.Run(name, func(t *testing.T) {
			w := redisServerWorld(t, nil)
			users := w.MakeUsers(2)
			author, reader := users[0], users[1]
			w.Follow(author, reader)
			w.RunAllJobs(w.Fanout)
			late := preparePush(w, w.Post(author))
			counts := 0
			for _, mode := range modes {
				w.SetFollowMode(author, reader, mode)
				w.Must(w.Fanout.ReconcileFollow(t.Context(), reader, author))
				counts = map[bool]int{true: 1}[mode == services.FollowAll]
			}
			late.write(w)
			if got := w.Document(reader); got.FeedCount != counts || got.FeedCountAtLeast {
				t.Errorf("%d are new, more %v, want %d", got.FeedCount, got.FeedCountAtLeast, counts)
			}
			w.RunAllJobs(w.Fanout)
			w.CheckAgainstFacts(reader)
		})
	}
}

// The inbox has trimmed posts of an author that still counted, so its count is a lower bound. The reader then sets a mode of the follow
// that takes the author's posts out of the count. The count is exact again, because the inbox is rebuilt, once.
func TestTrimmedPostsThatAFollowModeExcludesDoNotCount(t *testing.T) {
	w := redisServerWorld(t, nil)
	users := w.MakeUsers(3)
	author, other, reader := users[0], users[1], users[2]
	w.Follow(author, reader)
	w.Follow(other, reader)
	w.RunAllJobs(w.Fanout)
	w.InsertPosts(author, 400)
	w.Post(other)
	w.Must(w.Projector.Rebuild(t.Context(), reader))
	w.RunAllJobs(w.Fanout)
	if got := w.Document(reader); got.FeedCount != services.FeedRetention || !got.FeedCountAtLeast {
		t.Fatalf("at first %d are new, more %v", got.FeedCount, got.FeedCountAtLeast)
	}
	w.SetFollowMode(author, reader, services.FollowLiveOnly)
	begun := w.Projector.RebuildStats().Begun
	for range 2 {
		w.Must(w.Fanout.ReconcileFollow(t.Context(), reader, author))
		if got := w.Document(reader); got.FeedCount != 1 || got.FeedCountAtLeast {
			t.Errorf("%d are new, more %v, want the other's post", got.FeedCount, got.FeedCountAtLeast)
		}
	}
	if again := w.Projector.RebuildStats().Begun - begun; again != 1 {
		t.Errorf("the inbox was read again %d times, want once", again)
	}
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(reader)
	w.SetFollowMode(author, reader, services.FollowAll)
	w.Must(w.Fanout.ReconcileFollow(t.Context(), reader, author))
	if got := w.Document(reader); got.FeedCount != services.FeedRetention || !got.FeedCountAtLeast {
		t.Errorf("with all posts again %d are new, more %v", got.FeedCount, got.FeedCountAtLeast)
	}
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(reader)
}

// A late push of a post that is older than all posts of the inbox adds no entry. It does not make the count a lower bound either.
func TestAChangedFollowModeWinsOverAnOlderPushOfATrimmedPost(t *testing.T) {
	w := redisServerWorld(t, nil)
	users := w.MakeUsers(2)
	author, reader := users[0], users[1]
	w.Follow(author, reader)
	w.RunAllJobs(w.Fanout)
	post := w.Post(author)
	late := preparePush(w, post)
	w.InsertPosts(reader, 400) // the reader's own posts do not count
	w.Must(w.Projector.Rebuild(t.Context(), reader))
	w.SetFollowMode(author, reader, services.FollowNone)
	w.Must(w.Fanout.ReconcileFollow(t.Context(), reader, author))
	late.write(w)
	if got := w.Document(reader); got.FeedCount != 0 || got.FeedCountAtLeast {
		t.Errorf("%d are new, more %v", got.FeedCount, got.FeedCountAtLeast)
	}
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(reader)
}

// A follow's mode is in two tables: follow_modes, where it is stored, and follows, from which all other reads take it. A recount
// finds a mode that only follow_modes has: for an author whose posts are pushed, and for one whose posts are pulled.
func TestARecountReadsTheFollowModeTable(t *testing.T) {
	for _, way := range []services.AuthorMode{services.AuthorSmall, services.AuthorHuge} {
		t.Run(fmt.Sprint(way), func(t *testing.T) {
			w := redisServerWorld(t, nil)
			users := w.MakeUsers(2)
			author, reader := users[0], users[1]
			w.Must(w.Fanout.PinMode(t.Context(), author, &way))
			w.Follow(author, reader)
			w.Post(author)
			w.RunAllJobs(w.Fanout)
			if pulled := len(w.Document(reader).PulledAuthors) == 1; pulled != (way == services.AuthorHuge) {
				t.Fatalf("the author is pulled: %v", pulled)
			}
			w.Write(func(ctx context.Context, tx *sql.Tx) error {
				_, err := sqltest.QueryLines(ctx, tx, `INSERT INTO follow_modes (follower, followee, followed, mode) SELECT follower, followee, since, 2 FROM follows`)
				return err
			})
			differed, err := w.Projector.Recount(t.Context(), reader)
			w.Must(err)
			if len(differed) != 1 || differed[0] != "home feed: modes of follows" {
				t.Errorf("%q differed", differed)
			}
		})
	}
}
