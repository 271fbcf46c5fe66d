package live

import (
	"context"
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/positions"
	"tidings/services/rdb"
	"tidings/services/rdb/rdbtest"
	"tidings/services/sql"
)

// planShow schedules a show that is to start when the duration in has passed. On a host's first show it adds the job that names the
// host in the documents of their followers.
func planShow(w *fanouttest.World, host services.UserID, in time.Duration) services.ShowID {
	w.TB.Helper()
	id := services.ShowID(w.IDs.Next())
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		if err := showServiceOf(w).lockLog(ctx, tx); err != nil {
			return err
		}
		show, err := scheduleShow(id, host, ShowDraft{Title: "a show", PlannedAt: w.Clock.Now().Add(in)}, w.Clock.Now())
		if err != nil {
			return err
		}
		_, err = showServiceOf(w).addShow(ctx, tx, show)
		return err
	})
	return id
}

// startShows starts shows now.
func startShows(w *fanouttest.World, ids ...services.ShowID) {
	w.TB.Helper()
	changeShows(w, ids, func(show Show, now time.Time) (Show, bool, error) { return show.start(now, now) })
}

// endShows ends shows now. Jobs fan out the replays.
func endShows(w *fanouttest.World, ids ...services.ShowID) {
	w.TB.Helper()
	changeShows(w, ids, func(show Show, now time.Time) (Show, bool, error) { return show.end(now, "", now) })
}

// newReplay returns a new show of a host that has started and ended.
func newReplay(w *fanouttest.World, host services.UserID) services.ShowID {
	w.TB.Helper()
	id := planShow(w, host, time.Minute)
	startShows(w, id)
	endShows(w, id)
	return id
}

// changeShows changes shows by a transition, such as Show.start, in one transaction.
func changeShows(w *fanouttest.World, ids []services.ShowID, move func(show Show, now time.Time) (Show, bool, error)) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		for _, id := range ids {
			before, err := showServiceOf(w).lockAndRead(ctx, tx, id)
			if err != nil {
				return err
			}
			after, changed, err := move(before, w.Clock.Now())
			if err != nil || !changed {
				return err
			}
			if _, err := showServiceOf(w).changeShow(ctx, tx, before, after); err != nil {
				return err
			}
		}
		return nil
	})
}

// readOrRebuildBoard is a user's board in Redis; its list of replays is made when it is missing and the user has hosts.
func readOrRebuildBoard(w *fanouttest.World, user services.UserID) redisBoard {
	w.TB.Helper()
	ctx := w.TB.Context()
	for range 3 {
		read := readBoard(w, user)
		if !read.Ready || w.Projector.IsIdleIfSeenOn(read.LastActiveDay) {
			w.Must(w.Projector.Rebuild(ctx, user))
			continue
		}
		if read.ListReady || len(read.Hosts) == 0 {
			return read
		}
		w.Must(showServiceOf(w).rebuildReplays(ctx, user))
	}
	w.TB.Fatalf("the board of user %d cannot be read", user)
	return redisBoard{}
}

// readBoard is a user's board as Redis has it.
func readBoard(w *fanouttest.World, user services.UserID) redisBoard {
	w.TB.Helper()
	read, err := projection{w.Redis}.readBoard(w.TB.Context(), boardQuery{Reader: user, Limit: services.FeedRetention})
	w.Must(err)
	return read
}

// readReplayList is a user's whole list of replays, with the members that boards do not list.
func readReplayList(w *fanouttest.World, user services.UserID) redisReplays {
	w.TB.Helper()
	return parseReplays(rdbtest.Snapshot(w.TB, w.Redis, user).Lists[replaysList.KeyPart])
}

// deleteReplayLists deletes users' lists of replays: the next reader of a list rebuilds it.
func deleteReplayLists(w *fanouttest.World, users ...services.UserID) {
	w.TB.Helper()
	for _, user := range users {
		w.Must(w.Redis.Client.Delete(w.TB.Context(), replaysKey(user)))
	}
}

// comparedBoard is the part of a board that Redis holds, actual or expected.
type comparedBoard struct {
	Hosts           []services.FollowedAuthor // in order of ID
	Replays         []replayEntry
	OlderReplaysCut bool   // older replays exist
	SeenPosition    uint64 // the seen position of the board
}

// diffBoardWithFacts is the difference between a user's board as shown and according to the facts. A missing list counts as right.
func diffBoardWithFacts(w *fanouttest.World, user services.UserID, document rdb.Document) string {
	w.TB.Helper()
	ctx := w.TB.Context()
	got := comparedBoard{Hosts: fanouttest.SortedByAuthor(document.Hosts), SeenPosition: document.LiveSeenUpTo}
	seen, err := positions.Of[uint64](ctx, w.DB, user, positions.LiveBoardView)
	w.Must(err)
	hosts, err := showServiceOf(w).followedHosts(ctx, user)
	w.Must(err)
	want := comparedBoard{Hosts: slices.Clip(hosts), SeenPosition: seen}
	if read := readBoard(w, user); read.ListReady {
		got.Replays, got.OlderReplaysCut = read.Replays, read.Floor.Replay
		shows, err := replaysOfFollowedHosts(ctx, w.DB, user, ShowPosition{}, services.FeedRetention+1)
		w.Must(err)
		want.Replays = entriesOf(shows[:min(len(shows), services.FeedRetention)])
		want.OlderReplaysCut = len(shows) > services.FeedRetention
	}
	return gocmp.Diff(want, got, cmpopts.EquateEmpty())
}
