package live

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/fanout/fanouttest"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/sql"
)

// replaysOf are the shows that a user's board lists as replays.
func replaysOf(w *fanouttest.World, user services.UserID) (ids []services.ShowID) {
	w.TB.Helper()
	for _, entry := range readOrRebuildBoard(w, user).Replays {
		ids = append(ids, entry.Position.ID)
	}
	return ids
}

// An ended show enters the existing lists, in every chunk of followers; follows, unfollows and restrictions between users
// add a host's replays and remove them.
func TestReplaysFollowTheFollows(t *testing.T) {
	eachEnginePair(t, smallChunks, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(7)
		host, other, readers := users[0], users[1], users[2:]
		w.Follow(host, readers...)
		w.Follow(other, readers[:2]...)
		first, second := newReplay(w, host), newReplay(w, other)
		w.RunAllJobs(w.Fanout)
		want := func(user services.UserID, ids ...services.ShowID) {
			t.Helper()
			if got := replaysOf(w, user); !slices.Equal(got, ids) {
				t.Errorf("user %d has the replays %v, want %v", user, got, ids)
			}
		}
		for _, reader := range readers[:4] { // the fifth has no list
			readOrRebuildBoard(w, reader)
		}
		w.Clock.Advance(time.Minute)
		third := newReplay(w, host)
		w.RunAllJobs(w.Fanout)
		want(readers[0], third, second, first)
		want(readers[2], third, first)
		want(readers[4], third, first)
		want(host)
		w.Follow(other, readers[2])
		w.Unfollow(host, readers[0])
		w.RunAllJobs(w.Fanout)
		want(readers[2], third, second, first)
		want(readers[0], second)
		w.Follow(host, readers[0])
		w.RunAllJobs(w.Fanout)
		want(readers[0], third, second, first)
		for _, kind := range []services.RestrictionKind{services.Mute, services.Hide} {
			restriction := services.Restriction{Kind: kind, Owner: readers[1], Other: host, MadeAt: w.IDs.Next()}
			if kind == services.Hide {
				restriction.Owner, restriction.Other = host, readers[1]
			}
			setRestriction(w, restriction, false)
			want(readers[1], second)
			w.CheckAgainstFacts(users...)
			setRestriction(w, restriction, true)
			want(readers[1], third, second, first)
		}
		w.CheckAgainstFacts(users...)
	})
}

// replaysDelivered counts a replay once for each list that it is put into. The rebuild of a list counts as a rebuild, and waits for a
// free slot like the rebuild of a document.
func TestListsOfReplaysAreCounted(t *testing.T) {
	options := fanouttest.Options{Fanout: smallChunks, Projector: func(cfg *projector.Config) { cfg.MaxParallelRebuilds = 1 }}
	fanouttest.EachEnginePairWith(t, options, func(t *testing.T, w *fanouttest.World) {
		installShowService(w)
		users := w.MakeUsers(4)
		host, readers := users[0], users[1:]
		w.Follow(host, readers...)
		newReplay(w, host)
		w.RunAllJobs(w.Fanout)
		for _, reader := range readers {
			readOrRebuildBoard(w, reader)
		}
		delivered, rebuilt := showServiceOf(w).replaysDelivered.Load(), w.Projector.RebuildStats().Begun
		deleteReplayLists(w, readers[0])
		show := newReplay(w, host)
		w.RunAllJobs(w.Fanout)
		enqueue(w, fanOutReplayJob(show))
		w.RunAllJobs(w.Fanout) // no list lacks a replay
		if got := showServiceOf(w).replaysDelivered.Load() - delivered; got != 2 {
			t.Errorf("%d replays are put into lists, want one into each of 2", got)
		}
		deleteReplayLists(w, readers...)
		var together sync.WaitGroup
		for _, reader := range readers {
			together.Go(func() {
				if err := showServiceOf(w).rebuildReplays(t.Context(), reader); err != nil {
					t.Errorf("the list of %d: %v", reader, err)
				}
			})
		}
		together.Wait()
		after := w.Projector.RebuildStats()
		if got := after.Begun - rebuilt; got != uint64(len(readers)) || after.MostRunning != 1 || after.Running != 0 {
			t.Errorf("%d lists are made anew as %d rebuilds: %+v", len(readers), got, after)
		}
		w.CheckAgainstFacts(users...)
	})
}

// Big hosts' replays are pushed to active followers, and idle followers get them when they return; replays of huge hosts are in
// no list.
func TestReplaysOfBigAndHugeHosts(t *testing.T) {
	eachEnginePair(t, lowModeThresholds, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(4)
		host, idle := users[0], users[3]
		w.Follow(host, users[1:]...)
		first := newReplay(w, host)
		w.RunAllJobs(w.Fanout)
		pin := func(mode services.AuthorMode) {
			w.Must(w.Fanout.PinMode(t.Context(), host, &mode))
			w.RunAllJobs(w.Fanout)
		}
		pin(services.AuthorBig)
		for _, user := range users {
			readOrRebuildBoard(w, user)
		}
		w.Clock.Advance(10 * 24 * time.Hour)
		for _, user := range users[:3] {
			w.Must(w.Projector.Rebuild(t.Context(), user))
			readOrRebuildBoard(w, user)
		}
		second := newReplay(w, host)
		w.RunAllJobs(w.Fanout)
		read := readBoard(w, idle)
		if len(read.Replays) != 1 || !w.Projector.IsIdleIfSeenOn(read.LastActiveDay) {
			t.Errorf("who is idle was pushed %+v", read)
		}
		both := []services.ShowID{second, first}
		for _, user := range users[1:] {
			if got := replaysOf(w, user); !slices.Equal(got, both) {
				t.Errorf("user %d has the replays %v, want %v", user, got, both)
			}
		}
		w.CheckAgainstFacts(users...)
		pin(services.AuthorHuge)
		newReplay(w, host)
		w.RunAllJobs(w.Fanout)
		for _, user := range users[1:] {
			if got := replaysOf(w, user); !slices.Equal(got, both) {
				t.Errorf("user %d has the replays %v, want %v: that of a huge host is pulled", user, got, both)
			}
		}
		w.CheckAgainstFacts(users...)
	})
}

// A list keeps the newest 300 replays and the floor below which it is incomplete. The cleaner trims the list to these replays.
// After an unfollow the list is rebuilt if older replays must fill it.
func TestLongListsOfReplays(t *testing.T) {
	eachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(3)
		reader, host, other := users[0], users[1], users[2]
		w.Follow(host, reader)
		w.Follow(other, reader)
		w.RunAllJobs(w.Fanout)
		many := func(host services.UserID, count int) {
			ids := make([]services.ShowID, count)
			for i := range ids {
				ids[i] = planShow(w, host, time.Minute)
			}
			w.RunAllJobs(w.Fanout)
			startShows(w, ids...)
			endShows(w, ids...) // at the same time: their IDs decide the order
			w.Clock.Advance(time.Second)
		}
		many(other, 40)
		many(host, 310)
		readOrRebuildBoard(w, reader)
		w.RunDueJobs(w.Fanout)
		w.CheckAgainstFacts(users...)
		many(other, 5)
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(users...)
		if read := readOrRebuildBoard(w, reader); len(read.Replays) != services.FeedRetention || !read.Floor.Replay {
			t.Errorf("%d are listed, the floor is %v", len(read.Replays), read.Floor)
		}
		before := readReplayList(w, reader)
		runCleaner(w)
		if after := readReplayList(w, reader); len(after.entries) != services.FeedRetention || len(before.entries) <= services.FeedRetention {
			t.Errorf("the cleaner left %d of %d", len(after.entries), len(before.entries))
		}
		w.CheckAgainstFacts(users...)
		w.Unfollow(host, reader)
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(users...)
		if read := readOrRebuildBoard(w, reader); len(read.Replays) != 45 || read.Floor.Replay {
			t.Errorf("after an unfollow %d are listed, the floor is %v", len(read.Replays), read.Floor)
		}
		w.CheckAgainstFacts(users...)
	})
}

// Concurrent readers, and readers after every kind of loss, find one complete list.
func TestMissingListsOfReplaysAreRebuilt(t *testing.T) {
	eachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(2)
		w.Follow(users[0], users[1])
		ids := []services.ShowID{newReplay(w, users[0])}
		w.RunAllJobs(w.Fanout)
		w.Must(showServiceOf(w).rebuildReplays(t.Context(), 99)) // a user without a document has no list
		done := make(chan error)
		for range 8 {
			go func() { done <- showServiceOf(w).rebuildReplays(t.Context(), users[1]) }()
		}
		for range 8 {
			w.Must(<-done)
		}
		for what, lose := range map[string]func(){
			"nothing":        func() {},
			"the list":       func() { deleteReplayLists(w, users...) },
			"the projection": func() { w.Must(w.Redis.ResetUserData(t.Context(), users[1])) },
			"a begun list": func() {
				deleteReplayLists(w, users...)
				_, err := showServiceOf(w).redis.beginReplays(t.Context(), users)
				w.Must(err)
			},
		} {
			lose()
			w.Clock.Advance(time.Minute)
			ids = slices.Insert(ids, 0, newReplay(w, users[0]))
			w.RunAllJobs(w.Fanout)
			if got := replaysOf(w, users[1]); !slices.Equal(got, ids) {
				t.Errorf("%s was lost: the replays are %v, want %v", what, got, ids)
			}
		}
		enqueue(w, fanOutReplayJob(ids[0]))
		w.RunAllJobs(w.Fanout)
		w.CheckAgainstFacts(users...)
	})
}

// setRestriction sets or removes a restriction between two users, and runs its jobs.
func setRestriction(w *fanouttest.World, restriction services.Restriction, remove bool) {
	w.TB.Helper()
	reader, author := restriction.Owner, restriction.Other
	if restriction.Kind == services.Hide {
		reader, author = author, reader
	}
	w.Write(func(ctx context.Context, tx *sql.Tx) (err error) {
		if remove {
			_, err = people.Unrestrict(ctx, tx, restriction)
		} else {
			_, err = people.Restrict(ctx, tx, restriction)
		}
		return err
	})
	enqueue(w, fanout.FollowJob(reader, author))
	w.RunAllJobs(w.Fanout)
}

// runCleaner runs a cleaner once.
func runCleaner(w *fanouttest.World) {
	w.TB.Helper()
	c := projector.NewCleaner(w.Projector, 10*time.Minute)
	w.Must(c.AskForRun(w.TB.Context()))
	for {
		took, err := c.RunOnce(w.TB.Context())
		w.Must(err)
		if state, err := c.LatestRun(w.TB.Context()); err != nil || !state.RunningOrDue {
			w.Must(err)
			return
		}
		if !took {
			w.TB.Fatal("a run is due and nobody takes it")
		}
	}
}

// Data that was read before an unfollow is refused, and the follow is read again for that follower alone. A user who unfollowed
// gets neither the replay nor the host. Users who follow again, or never unfollowed, get both.
func TestRefusedReplaysAreReadAgain(t *testing.T) {
	eachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(4)
		host, readers := users[0], users[1:]
		w.Follow(host, readers...)
		first := newReplay(w, host)
		w.RunAllJobs(w.Fanout)
		for _, reader := range readers {
			readOrRebuildBoard(w, reader)
		}
		stamp, err := w.Redis.Client.Now(t.Context())
		w.Must(err)
		edges, err := people.Followers(t.Context(), w.DB, host, 0, 10, time.Time{})
		w.Must(err)
		second := newReplay(w, host) // its own job comes later
		w.Unfollow(host, readers[:2]...)
		for _, reader := range readers[:2] {
			w.Must(w.Fanout.ReconcileFollow(t.Context(), reader, host))
		}
		w.Write(func(ctx context.Context, tx *sql.Tx) error {
			_, err := people.InsertFollow(ctx, tx, services.FollowEdge{Follower: readers[1], Followee: host, PostsCountAfter: services.PostID(w.IDs.Next())})
			return err
		})
		shows, err := readShows(t.Context(), w.DB.Runner, []services.ShowID{second})
		w.Must(err)
		w.Must(showServiceOf(w).pushEntries(t.Context(), stamp, entriesOf([]Show{shows[second]}), edges))
		for i, want := range [][]services.ShowID{nil, {second}, {second, first}} {
			if got := replaysOf(w, readers[i]); !slices.Equal(got, want) {
				t.Errorf("follower %d has the replays %v, want %v", i, got, want)
			}
		}
		w.Must(w.Fanout.NameAuthorsInDocuments(t.Context(), rdb.HostsField, stamp, edges))
		for i, want := range [][]services.ShowID{nil, {second, first}, {second, first}} {
			if got := replaysOf(w, readers[i]); !slices.Equal(got, want) || documentNamesHost(w, readers[i], host) != (want != nil) {
				t.Errorf("follower %d has the replays %v, want %v; named %v", i, got, want, documentNamesHost(w, readers[i], host))
			}
		}
	})
}
