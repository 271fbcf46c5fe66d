package fanout_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/nodecache"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/sql"
)

// lowModeThresholds lets a few followers make an author big, and huge.
func lowModeThresholds(cfg *fanout.Config) {
	smallChunks(cfg)
	cfg.BigFollowers, cfg.HugeFollowers = 3, 5
}

// follow makes readers follow an author, and queues the jobs that the mutation queues.
func follow(w *fanouttest.World, author services.UserID, readers ...services.UserID) {
	w.TB.Helper()
	w.Follow(author, readers...)
	enqueue(w, fanout.UpdateModeJob(author, w.Clock.Now()))
}

// unfollow ends readers' follows of an author, and queues the jobs that the mutation queues.
func unfollow(w *fanouttest.World, author services.UserID, readers ...services.UserID) {
	w.TB.Helper()
	w.Unfollow(author, readers...)
	enqueue(w, fanout.UpdateModeJob(author, w.Clock.Now()))
}

// modeInSQL is the mode of an author in SQL.
func modeInSQL(w *fanouttest.World, author services.UserID) services.AuthorMode {
	w.TB.Helper()
	mode, err := posts.ModeOf(w.TB.Context(), w.DB.Runner, author)
	w.Must(err)
	return mode
}

// documentNamesAuthor reports whether a reader's document has an author among its pulled authors.
func documentNamesAuthor(w *fanouttest.World, reader, author services.UserID) bool {
	w.TB.Helper()
	return slices.ContainsFunc(w.Document(reader).PulledAuthors, func(p services.FollowedAuthor) bool { return p.Author == author })
}

// An author's mode follows their number of followers: up at a threshold, and down below 80 % of it. Documents still name authors who were
// huge once among the pulled authors.
func TestAModeFollowsTheNumberOfFollowers(t *testing.T) {
	fanouttest.EachEnginePair(t, lowModeThresholds, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(7)
		author, readers := users[0], users[1:]
		at := func(followers int, want services.AuthorMode, pull bool) {
			t.Helper()
			w.RunAllJobs(w.Fanout)
			known, err := posts.Authors(t.Context(), w.DB, []services.UserID{author})
			w.Must(err)
			if got := known[author]; got.Mode != want || got.NamedInFollowerDocuments != pull || got.FollowerChunksToName != 0 || got.Version > 0 && got.Followers != min(followers, 5) {
				t.Fatalf("with %d followers: %+v, want mode %d, pull %v", followers, got, want, pull)
			}
			for i, reader := range readers {
				if got, want := documentNamesAuthor(w, reader, author), pull && i < followers; got != want {
					t.Errorf("with %d followers the document of number %d names the author: %v, want %v", followers, i, got, want)
				}
			}
		}
		for i, want := range []services.AuthorMode{services.AuthorSmall, services.AuthorSmall, services.AuthorBig, services.AuthorBig, services.AuthorHuge, services.AuthorHuge} {
			follow(w, author, readers[i])
			at(i+1, want, want == services.AuthorHuge)
		}
		unfollow(w, author, readers[4:]...) // 80 % of 5 stay
		at(4, services.AuthorHuge, true)
		unfollow(w, author, readers[3])
		at(3, services.AuthorBig, true)
		unfollow(w, author, readers[2])
		at(2, services.AuthorSmall, true) // less than 80 % of 3
		follow(w, author, readers[2:]...)
		at(6, services.AuthorHuge, true)
	})
}

// Follows of one moment cause one count, and an author's followers are counted at most once a minute if they are thousands.
func TestManyFollowersAreNotCountedAgainAtOnce(t *testing.T) {
	w := newEmbeddedWorld(t, lowModeThresholds)
	users := w.MakeUsers(4)
	author := users[0]
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := posts.PutAuthor(ctx, tx, services.Author{ID: author, Followers: 20_000, Mode: services.AuthorBig, CountedAt: w.Clock.Now()})
		return err
	})
	w.Must(w.Fanout.UpdateAuthorMode(t.Context(), author))
	if modeInSQL(w, author) != services.AuthorBig {
		t.Fatal("the followers were counted again at once")
	}
	w.Clock.Advance(time.Minute)
	w.RunDueJobs(w.Fanout)
	if modeInSQL(w, author) != services.AuthorSmall {
		t.Error("the followers were not counted after a minute")
	}
	for _, follower := range users[1:] {
		follow(w, author, follower)
	}
	w.Clock.Advance(5 * time.Second)
	modes := 0
	for _, job := range w.ClaimDueJobs() {
		if job.Kind == "author.mode" {
			modes++
		}
	}
	if modes != 1 {
		t.Errorf("three follows at once are counted %d times", modes)
	}
}

func TestAPinHoldsForAnyNumberOfFollowers(t *testing.T) {
	fanouttest.EachEnginePair(t, lowModeThresholds, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(4)
		author := users[0]
		follow(w, author, users[1:]...)
		w.RunAllJobs(w.Fanout)
		pin := func(mode services.AuthorMode) {
			t.Helper()
			w.Must(w.Fanout.PinMode(t.Context(), author, &mode))
			got, err := w.Fanout.Author(t.Context(), author)
			w.Must(err)
			if got.Pinned == nil || *got.Pinned != mode || got.Followers != 3 {
				t.Fatalf("after the pin the author is %+v", got)
			}
		}
		pin(services.AuthorSmall)
		if modeInSQL(w, author) != services.AuthorSmall {
			t.Error("a pinned mode that needs nothing does not hold at once")
		}
		pin(services.AuthorHuge)
		if modeInSQL(w, author) == services.AuthorHuge {
			t.Error("an author is huge before their followers' documents name them")
		}
		w.RunAllJobs(w.Fanout)
		if modeInSQL(w, author) != services.AuthorHuge || !documentNamesAuthor(w, users[1], author) {
			t.Error("a pinned author did not become huge")
		}
		unfollow(w, author, users[1:]...)
		w.RunAllJobs(w.Fanout)
		if modeInSQL(w, author) != services.AuthorHuge {
			t.Error("a pinned mode changed with the number of followers")
		}
		w.Must(w.Fanout.PinMode(t.Context(), author, nil))
		if modeInSQL(w, author) != services.AuthorSmall {
			t.Error("a mode that is no longer pinned does not follow the number of followers")
		}
	})
}

// Thresholds that an admin sets hold for all authors, on every node, and the modes follow.
func TestThresholdsAreSetWhileItRuns(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(6)
		w.Follow(users[0], users[1:]...)
		w.Follow(users[1], users[2:5]...)
		w.RunAllJobs(w.Fanout)
		if got, err := w.Fanout.Thresholds(t.Context()); err != nil || got != (services.FollowerThresholds{Big: 5000, Huge: 1_000_000}) {
			t.Fatalf("the thresholds are %v, %v", got, err)
		}
		for _, step := range []struct {
			services.FollowerThresholds
			first, second services.AuthorMode
		}{
			{services.FollowerThresholds{Big: 2, Huge: 4}, services.AuthorHuge, services.AuthorBig},
			{services.FollowerThresholds{Big: 4, Huge: 400}, services.AuthorBig, services.AuthorSmall},
			{services.FollowerThresholds{Big: 100, Huge: 100}, services.AuthorSmall, services.AuthorSmall},
			{services.FollowerThresholds{Big: 1, Huge: 1}, services.AuthorHuge, services.AuthorHuge},
		} {
			w.Must(w.Fanout.SetThresholds(t.Context(), step.FollowerThresholds))
			if got, err := w.AnotherFanout().Thresholds(t.Context()); err != nil || got != step.FollowerThresholds {
				t.Fatalf("another node has the thresholds %v, %v", got, err)
			}
			w.RunAllJobs(w.Fanout)
			if first, second := modeInSQL(w, users[0]), modeInSQL(w, users[1]); first != step.first || second != step.second {
				t.Errorf("%v: modes %d and %d, want %d and %d", step.FollowerThresholds, first, second, step.first, step.second)
			}
		}
		if err := w.Fanout.SetThresholds(t.Context(), services.FollowerThresholds{Big: 2, Huge: 1}); services.CodeOf(err) != services.Invalid {
			t.Errorf("unfit thresholds: %v", err)
		}
	})
}

// After an import one job finds every author with enough followers.
func TestOneJobSetsTheModesAfterAnImport(t *testing.T) {
	w := newEmbeddedWorld(t, lowModeThresholds)
	users := w.MakeUsers(9)
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		var edges []services.FollowEdge
		for _, reader := range users[3:] {
			edges = append(edges, services.FollowEdge{Follower: reader, Followee: users[0]}, services.FollowEdge{Follower: reader, Followee: users[1]})
		}
		_, err := people.ImportFollows(ctx, tx, append(edges, services.FollowEdge{Follower: users[3], Followee: users[2]}))
		return err
	})
	w.Must(fanout.QueueUpdateAllModes(t.Context(), w.DB))
	if waiting, _ := w.CountJobs(); waiting != 1 {
		t.Fatalf("%d jobs after an import", waiting)
	}
	w.RunAllJobs(w.Fanout)
	if got := []services.AuthorMode{modeInSQL(w, users[0]), modeInSQL(w, users[1]), modeInSQL(w, users[2])}; !slices.Equal(got, []services.AuthorMode{services.AuthorHuge, services.AuthorHuge, services.AuthorSmall}) {
		t.Errorf("the modes are %v", got)
	}
}

// A user begins to follow and another returns, at any moment while an author becomes huge: in the end every follower's document has the
// author among its pulled authors.
func TestEveryDocumentNamesANewHugeAuthor(t *testing.T) {
	fanouttest.EachEnginePair(t, lowModeThresholds, func(t *testing.T, w *fanouttest.World) {
		for moment := range 6 {
			t.Run(fmt.Sprint(moment), func(t *testing.T) {
				users := w.MakeUsers(7)
				author, newcomer := users[0], users[6]
				returning := w.MakeNeverSeenUsers(1)[0]
				w.Follow(author, append(users[1:6], returning)...)
				w.RunAllJobs(w.Fanout)
				enqueue(w, fanout.UpdateModeJob(author, w.Clock.Now()))
				w.Clock.Advance(5 * time.Second)
				for step := 0; modeInSQL(w, author) != services.AuthorHuge; step++ {
					if step == moment {
						w.Follow(author, newcomer)
						w.Must(w.Fanout.ReconcileFollow(t.Context(), newcomer, author))
						w.Must(w.Projector.Rebuild(t.Context(), returning))
					}
					if step > 50 {
						t.Fatal("the author never becomes huge")
					}
					jobs, err := jobs.Claim(t.Context(), w.DB, w.Fanout.Kinds(), 1, 30*time.Second, 0)
					w.Must(err)
					w.Must(w.Fanout.RunJobs(t.Context(), jobs))
				}
				w.RunAllJobs(w.Fanout)
				w.Must(w.Projector.Rebuild(t.Context(), returning))
				followers, err := people.Followers(t.Context(), w.DB, author, 0, 100, time.Time{})
				w.Must(err)
				for _, edge := range followers {
					if !documentNamesAuthor(w, edge.Follower, author) {
						t.Errorf("the document of user %d does not name the huge author", edge.Follower)
					}
				}
			})
		}
	})
}

// logEntries returns the changelog's entries of one kind.
func logEntries(w *fanouttest.World, kind string) []changelog.Entry {
	w.TB.Helper()
	entries, err := changelog.LogAfter(w.TB.Context(), w.DB, kind, 0, 1000)
	w.Must(err)
	return entries
}

// A node learns of an author before it learns of the first of their pulled posts, and it learns of each pulled post.
func TestTheLogHasAnAuthorBeforeTheirPulledPosts(t *testing.T) {
	w := newEmbeddedWorld(t, lowModeThresholds)
	users := w.MakeUsers(7)
	follow(w, users[0], users[1:]...)
	pushed := w.Post(users[0])
	w.RunAllJobs(w.Fanout)
	pulled := w.Post(users[0])
	w.Delete(pushed)
	w.Delete(pulled)
	w.RunAllJobs(w.Fanout)
	var got []nodecache.PullChange
	for _, entry := range logEntries(w, nodecache.PullChangelogKind) {
		change, err := nodecache.ParsePullChange(entry)
		w.Must(err)
		got = append(got, change)
	}
	want := []nodecache.PullChange{{Author: users[0]}, {Author: users[0], Post: pulled}, {Author: users[0], Post: pulled, Deleted: true}}
	if !slices.Equal(got, want) {
		t.Errorf("the log says %v, want %v", got, want)
	}
}

// A pulled post is in no inbox but its author's, and leaves that inbox when it is deleted.
func TestAPulledPostIsInItsAuthorsInboxAlone(t *testing.T) {
	fanouttest.EachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(6)
		author := users[0]
		w.Follow(author, users[1:]...)
		w.SetMode(author, services.AuthorHuge)
		w.RunAllJobs(w.Fanout)
		post := w.Post(author)
		w.RunAllJobs(w.Fanout)
		for _, user := range users {
			w.Must(w.Projector.RefillInbox(t.Context(), user))
			if listed, counts := inboxListsPost(w, user, post); listed != (user == author) || counts {
				t.Errorf("user %d: listed %v, counts %v", user, listed, counts)
			}
		}
		w.SetMode(author, services.AuthorSmall) // the post keeps its mode
		w.Unfollow(author, users[1])
		w.Follow(author, users[1])
		w.RunAllJobs(w.Fanout)
		if listed, _ := inboxListsPost(w, users[1], post); listed {
			t.Error("a pulled post was pushed by a follow")
		}
		w.Delete(post)
		w.RunAllJobs(w.Fanout)
		if listed, _ := inboxListsPost(w, author, post); listed {
			t.Error("a deleted post stays in its author's inbox")
		}
	})
}

// If something was removed from a follower's feed after the follows of a chunk were read, that follower's follow alone is read again.
// Their document names the author if they still follow.
func TestAFollowerWhoChangesDuringAChunkIsReadAgain(t *testing.T) {
	fanouttest.EachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(4)
		author, stays, leaves, other := users[0], users[1], users[2], users[3]
		w.Follow(author, stays, leaves)
		w.Follow(other, stays)
		w.RunAllJobs(w.Fanout)
		w.SetMode(author, services.AuthorHuge)
		stamp, err := w.Redis.Client.Now(t.Context())
		w.Must(err)
		edges, err := people.Followers(t.Context(), w.DB, author, 0, 10, time.Time{})
		w.Must(err)
		w.Unfollow(author, leaves)
		w.Unfollow(other, stays)
		w.RunAllJobs(w.Fanout)
		w.Must(w.Fanout.AddAuthorToDocuments(t.Context(), stamp, edges))
		if !documentNamesAuthor(w, stays, author) {
			t.Error("a follower from whose feed another author went is not named")
		}
		if documentNamesAuthor(w, leaves, author) {
			t.Error("who no longer follows is named by what was read before")
		}
	})
}

// An author who is pinned during a count of their followers gets the mode of the pin, although the count began before.
func TestAPinDuringACountOfFollowersWins(t *testing.T) {
	var pin func()
	w := fanouttest.New(t, fanouttest.Options{
		RedisURL: "embedded",
		Fanout:   func(cfg *fanout.Config) { cfg.BigFollowers, cfg.HugeFollowers = 1, 1000 },
		Trace: func(statement string) {
			if now := pin; statement == "count followers" && now != nil {
				pin = nil
				now()
			}
		},
	})
	users := w.MakeUsers(2)
	w.Follow(users[0], users[1])
	pin = func() {
		w.Write(func(ctx context.Context, tx *sql.Tx) error {
			author, err := posts.LockAuthor(ctx, tx, users[0])
			if err != nil {
				return err
			}
			big := services.AuthorBig
			author.Pinned = &big
			_, err = posts.PutAuthor(ctx, tx, author)
			return err
		})
	}
	w.Must(w.Fanout.UpdateAuthorMode(t.Context(), users[0]))
	if mode, err := posts.ModeOf(t.Context(), w.DB.Runner, users[0]); mode != services.AuthorBig || err != nil {
		t.Errorf("the mode is %v, %v; want that of the pin", mode, err)
	}
}
