package fanout_test

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/redis"
	"tidings/services/sql"
	"tidings/services/trace"
)

// preparedPush is a push of a post that has taken its stamp and read the post and the follows (edges), and has not written yet.
type preparedPush struct {
	stamp redis.ClockStamp
	post  services.Post
	edges []services.FollowEdge
}

// preparePush does all reads of a push of a post to its author's followers.
func preparePush(w *fanouttest.World, id services.PostID) preparedPush {
	w.TB.Helper()
	ctx := w.TB.Context()
	stamp, err := w.Redis.Client.Now(ctx)
	w.Must(err)
	found, err := posts.ByID(ctx, w.DB, []services.PostID{id})
	w.Must(err)
	edges, err := people.Followers(ctx, w.DB, found[id].Author, 0, 100, fanouttest.StartTime.AddDate(-1, 0, 0))
	w.Must(err)
	if len(edges) == 0 {
		w.TB.Fatal("nobody is to be served")
	}
	return preparedPush{stamp, found[id], edges}
}

// write writes the post into the followers' inboxes.
func (h preparedPush) write(w *fanouttest.World) {
	w.TB.Helper()
	w.Must(w.Fanout.PushPost(w.TB.Context(), h.stamp, h.post, h.edges))
}

// A change between the reads of a push and its write wins over the push, because the push is older.
func TestAChangeDuringAPushWinsOverThePush(t *testing.T) {
	histories := []struct {
		name           string
		meanwhile      func(w *fanouttest.World, author, reader services.UserID, post services.PostID)
		listed, counts bool
	}{
		{"nothing", func(*fanouttest.World, services.UserID, services.UserID, services.PostID) {}, true, true},
		{"an unfollow", func(w *fanouttest.World, author, reader services.UserID, _ services.PostID) {
			w.Unfollow(author, reader)
		}, false, false},
		{"an unfollow and a new follow", func(w *fanouttest.World, author, reader services.UserID, _ services.PostID) {
			w.Unfollow(author, reader)
			w.Follow(author, reader)
		}, true, false},
		{"a deletion", func(w *fanouttest.World, _, _ services.UserID, post services.PostID) { w.Delete(post) }, false, false},
		{"another push of the same", func(w *fanouttest.World, _, _ services.UserID, post services.PostID) {
			preparePush(w, post).write(w)
		}, true, true},
		{"a loss of the document", func(w *fanouttest.World, _, reader services.UserID, _ services.PostID) {
			w.RedisServer.Flush()
			w.Must(w.Projector.Rebuild(w.TB.Context(), reader))
		}, true, true},
		{"an unfollow of somebody else", func(w *fanouttest.World, _, reader services.UserID, _ services.PostID) {
			other := w.MakeUsers(1)[0]
			w.Follow(other, reader)
			w.Unfollow(other, reader)
		}, true, true},
	}
	for _, history := range histories {
		t.Run(history.name, func(t *testing.T) {
			w := redisServerWorld(t, nil)
			users := w.MakeUsers(2)
			author, reader := users[0], users[1]
			w.Follow(author, reader)
			w.RunAllJobs(w.Fanout)
			post := w.Post(author)
			late := preparePush(w, post)
			history.meanwhile(w, author, reader, post)
			for _, job := range w.ClaimDueJobs() { // all jobs but the fan-out itself, which is late
				if job.Kind == "post.fanout" {
					continue
				}
				w.Must(w.Fanout.RunJobs(t.Context(), []jobs.Job{job}))
			}
			late.write(w)
			if listed, counts := inboxListsPost(w, reader, post); listed != history.listed || counts != history.counts {
				t.Errorf("listed %t, counts %t; want %t, %t", listed, counts, history.listed, history.counts)
			}
			w.CheckAgainstFacts(reader)
		})
	}
}

// The job of a deleted post visits only users who follow its author when the job runs. A user unfollows, and follows again before their
// feed was reconciled; in between the author deletes a post. The user still has the post: the follow must remove it, and keep the others.
func TestAFollowRemovesPostsDeletedMeanwhile(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(2)
		author, reader := users[0], users[1]
		w.Follow(author, reader)
		w.RunAllJobs(w.Fanout)
		deleted, kept := w.Post(author), w.Post(author)
		w.RunAllJobs(w.Fanout)
		w.Unfollow(author, reader)
		w.Delete(deleted)
		for _, job := range w.ClaimDueJobs() { // the removal, not yet the unfollow
			if job.Kind == "post.remove" {
				w.Must(w.Fanout.RunJobs(t.Context(), []jobs.Job{job}))
			}
		}
		if listed, counts := inboxListsPost(w, reader, deleted); !listed || !counts {
			t.Fatal("the removal has visited who does not follow: the history is another one")
		}
		w.Follow(author, reader)
		w.Must(w.Fanout.ReconcileFollow(t.Context(), reader, author)) // as the mutation does before its answer
		if listed, _ := inboxListsPost(w, reader, deleted); listed {
			t.Error("the deleted post is listed")
		}
		if listed, counts := inboxListsPost(w, reader, kept); !listed || counts {
			t.Errorf("the other post, from before the follow: listed %t, counts %t", listed, counts)
		}
		w.CheckAgainstFacts(reader)
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(reader)
	})
}

// A reader without a document gets none from a push or a follow: their next read builds it as a whole.
func TestUsersWithoutADocumentAreSkipped(t *testing.T) {
	w := newEmbeddedWorld(t, nil)
	author, reader := w.MakeUsers(1)[0], w.MakeNeverSeenUsers(1)[0]
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		if _, err := people.InsertFollow(ctx, tx, services.FollowEdge{Follower: reader, Followee: author, PostsCountAfter: services.PostID(w.IDs.Next())}); err != nil {
			return err
		}
		return people.MarkActive(ctx, tx, []services.UserID{reader})
	})
	w.Must(w.Fanout.ReconcileFollow(t.Context(), reader, author))
	w.Post(author)
	w.RunAllJobs(w.Fanout)
	w.Must(w.Fanout.ProjectSeen(t.Context(), reader))
	if document := w.Document(reader); document.Ready {
		t.Errorf("a document was made of a part: %+v", document)
	}
	w.Must(w.Projector.Rebuild(t.Context(), reader))
	w.CheckAgainstFacts(reader)
}

// An unfollow that leaves an inbox short, although older posts exist, refills it at once.
func TestAnUnfollowRefillsAShortInbox(t *testing.T) {
	w := newEmbeddedWorld(t, nil)
	users := w.MakeUsers(3)
	quiet, loud, reader := users[0], users[1], users[2]
	w.InsertPosts(quiet, services.FeedRetention+100)
	w.InsertPosts(loud, services.FeedRetention+100)
	w.Follow(quiet, reader)
	w.Follow(loud, reader)
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(reader)
	w.Unfollow(loud, reader)
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(reader)
	if entries := w.Inbox(reader); len(entries) != services.FeedRetention {
		t.Errorf("%d posts are listed, and older ones exist", len(entries))
	}
}

// A worker dies anywhere between a removal and the refill for which it asks. The repetition finds nothing to remove, and still
// refills.
func TestARepeatedRemovalStillRefills(t *testing.T) {
	w := newEmbeddedWorld(t, nil)
	for name, remove := range map[string]func(loud services.UserID, posts []services.PostID, reader services.UserID){
		"an unfollow": func(loud services.UserID, _ []services.PostID, reader services.UserID) { w.Unfollow(loud, reader) },
		"deletions": func(_ services.UserID, posts []services.PostID, _ services.UserID) {
			for _, post := range posts[len(posts)-20:] {
				w.Delete(post)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			fanouttest.CheckAfterEachCrash(t, w, func() (check func()) {
				users := w.MakeUsers(3)
				quiet, loud, reader := users[0], users[1], users[2]
				w.InsertPosts(quiet, services.FeedRetention+20)
				posts := w.InsertPosts(loud, 30)
				w.Follow(quiet, reader)
				w.Follow(loud, reader)
				w.RunAllJobs(w.Fanout)
				remove(loud, posts, reader)
				return func() {
					w.CheckAgainstFacts(reader)
					if entries := w.Inbox(reader); len(entries) < services.FeedRetention {
						t.Errorf("%d posts are listed, and older ones exist", len(entries))
					}
				}
			})
		})
	}
}

// fillInboxes fills the inboxes of readers with the posts of quiet, who has more than an inbox holds, and with new posts of author,
// which it returns. These are the newest.
func fillInboxes(w *fanouttest.World, quiet, author services.UserID, readers ...services.UserID) (newest []services.PostID) {
	w.TB.Helper()
	newest = w.InsertPosts(author, 40)
	w.Must(w.Projector.Rebuild(w.TB.Context(), author)) // the author's own inbox has the new posts too
	w.Follow(quiet, readers...)
	w.Follow(author, readers...)
	w.RunAllJobs(w.Fanout)
	_, _, err := w.Redis.TrimInboxes(w.TB.Context(), readers)
	w.Must(err)
	for _, reader := range readers {
		if entries, err := w.Redis.AuthorPostsInInbox(w.TB.Context(), reader, quiet); err != nil || len(entries) != services.FeedRetention-len(newest) {
			w.TB.Fatalf("%d entries of the author with many posts, %v", len(entries), err)
		}
	}
	return newest
}

// An unfollow has removed the author's posts and left the inbox short. Before it queues the refill, the user follows again: the
// follow refills the inbox, and does not bring back what the author deleted in between.
func TestAFollowRefillsAnInboxThatAnUnfollowLeftShort(t *testing.T) {
	w := newEmbeddedWorld(t, nil)
	users := w.MakeUsers(3)
	quiet, author, reader := users[0], users[1], users[2]
	w.InsertPosts(quiet, services.FeedRetention+100)
	newest := fillInboxes(w, quiet, author, reader)
	w.Unfollow(author, reader)
	result, err := w.Redis.DropFromInbox(t.Context(), reader, author)
	if w.Must(err); !result.RefillDue {
		t.Fatal("the inbox is not short")
	}
	w.Delete(newest[0])
	for _, job := range w.ClaimDueJobs() { // the deletion does not visit who does not follow
		if job.Kind == "post.remove" {
			w.Must(w.Fanout.RunJobs(t.Context(), []jobs.Job{job}))
		}
	}
	w.Follow(author, reader)
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(reader)
	if entries := w.Inbox(reader); len(entries) != services.FeedRetention {
		t.Errorf("%d posts are listed, and older ones exist", len(entries))
	}
}

// Deletions queue no refill for readers who are idle. Otherwise each further deletion, even of a post that their inbox lacks, would queue
// another refill, because the inbox stays short until they return.
func TestDeletionsQueueNoRefillsForIdleReaders(t *testing.T) {
	w := newEmbeddedWorld(t, nil)
	users := w.MakeUsers(4)
	quiet, author, idle, here := users[0], users[1], users[2], users[3]
	old := w.InsertPosts(quiet, services.FeedRetention+100)
	newest := fillInboxes(w, quiet, author, idle, here)
	w.Clock.Advance(9 * 24 * time.Hour)
	w.Must(w.Projector.Rebuild(t.Context(), here))
	_, _, err := w.Redis.TrimInboxes(t.Context(), []services.UserID{here})
	w.Must(err)
	refills := func(want int) {
		t.Helper()
		for _, job := range w.ClaimDueJobs() {
			if job.Kind == "post.remove" {
				w.Must(w.Fanout.RunJobs(t.Context(), []jobs.Job{job}))
			}
		}
		kinds, err := jobs.CountsByKind(t.Context(), w.DB)
		w.Must(err)
		queued := 0
		for _, kind := range kinds {
			if kind.Kind == "refill" {
				queued = kind.Waiting
			}
		}
		if queued != want {
			t.Errorf("%d refills are queued, want %d", queued, want)
		}
		w.RunAllJobs(w.Fanout)
	}
	w.Delete(newest[0])
	refills(1) // of the reader who is here
	for _, post := range old[:10] {
		w.Delete(post)
	}
	refills(0)
	w.CheckAgainstFacts(here)
	w.Must(w.Projector.Rebuild(t.Context(), idle))
	w.CheckAgainstFacts(idle)
}

// The deletion of many posts also refills an inbox that it leaves short, by a job of its own.
func TestMassDeletionRefills(t *testing.T) {
	w := newEmbeddedWorld(t, nil)
	users := w.MakeUsers(2)
	author, reader := users[0], users[1]
	posts := w.InsertPosts(author, services.FeedRetention+100)
	w.Follow(author, reader)
	w.RunAllJobs(w.Fanout)
	for _, post := range posts[len(posts)-40:] {
		w.Delete(post)
	}
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(reader)
	if entries := w.Inbox(reader); len(entries) != services.FeedRetention {
		t.Errorf("%d posts are listed, and older ones exist", len(entries))
	}
}

// The node where a reader is online gets a hint at once of everything that a follow, a mode and an unfollow change: the change does not
// wait for reconciliation.
func TestAnOnlineReadersNodeGetsHintsOfFollowChanges(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(2)
		author, reader := users[0], users[1]
		w.InsertPosts(author, 3)
		w.RunAllJobs(w.Fanout)
		w.Must(w.Redis.Presence.WriteOnlineLeases(t.Context(), []services.UserID{reader}, time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		hints, ready, ended := make(chan redis.Hint, 100), make(chan struct{}, 10), make(chan error, 1)
		go func() {
			ended <- w.Redis.Client.RunHints(ctx, redis.HintReceiver{
				DocumentsChanged: func(got []redis.Hint, _ trace.Cause) {
					for _, hint := range got {
						hints <- hint
					}
				},
				ChangelogGrown: func() {}, Resync: func() { ready <- struct{}{} },
			})
		}()
		defer func() {
			cancel()
			w.Must(<-ended)
		}()
		<-ready
		for _, step := range []struct {
			name string
			do   func()
		}{
			{"a follow", func() { w.Follow(author, reader) }},
			{"a post", func() { w.Post(author) }},
			{"a mode", func() { w.SetFollowMode(author, reader, services.FollowNone) }},
			{"another mode", func() { w.SetFollowMode(author, reader, services.FollowAll) }},
			{"an unfollow", func() { w.Unfollow(author, reader) }},
		} {
			step.do()
			w.RunAllJobs(w.Fanout)
			want := w.Document(reader).Version
			var last redis.Hint
			for len(hints) > 0 {
				last = <-hints
			}
			if last.User != reader || last.Version != want {
				t.Errorf("after %s the last hint is %+v, and the document is at %d", step.name, last, want)
			}
		}
	})
}
