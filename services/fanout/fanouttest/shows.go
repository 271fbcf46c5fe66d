package fanouttest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/store"
)

// Shows writes shows and makes lists of replays, as the service of services/live does, which lies above this package.
type Shows interface {
	LockLog(ctx context.Context, tx *store.Tx) error
	LockShow(ctx context.Context, tx *store.Tx, id services.PostID) (services.Show, error)
	AddShow(ctx context.Context, tx *store.Tx, show services.Show) (services.Show, error)
	ChangeShow(ctx context.Context, tx *store.Tx, before, after services.Show) (services.Show, error)
	RebuildReplays(ctx context.Context, user services.UserID) error
	HostsBy(ctx context.Context, user services.UserID) ([]services.FollowedAuthor, error)
	NewestReplays(ctx context.Context, user services.UserID, limit int) ([]services.Show, error)
}

// Schedule plans a show. On a host's first show it adds the job that names the host in the documents of their followers.
func (w *World) Schedule(host services.UserID, in time.Duration) services.PostID {
	w.TB.Helper()
	id := w.IDs.Next()
	w.Write(func(ctx context.Context, tx *store.Tx) error {
		if err := w.Shows.LockLog(ctx, tx); err != nil {
			return err
		}
		show, err := services.ScheduleShow(id, host, services.ShowDraft{Title: "a show", PlannedAt: w.Clock.Now().Add(in)}, w.Clock.Now())
		if err != nil {
			return err
		}
		_, err = w.Shows.AddShow(ctx, tx, show)
		return err
	})
	return id
}

// Start lets a show run from now on.
func (w *World) Start(ids ...services.PostID) {
	w.TB.Helper()
	w.MoveShows(ids, func(show services.Show, now time.Time) (services.Show, bool, error) { return show.Start(now, now) })
}

// End ends shows, with the jobs that fan out the replays.
func (w *World) End(ids ...services.PostID) {
	w.TB.Helper()
	w.MoveShows(ids, func(show services.Show, now time.Time) (services.Show, bool, error) { return show.End(now, "", now) })
}

// Replay is a show that has started and ended.
func (w *World) Replay(host services.UserID) services.PostID {
	w.TB.Helper()
	id := w.Schedule(host, time.Minute)
	w.Start(id)
	w.End(id)
	return id
}

// MoveShows changes shows in one transaction.
func (w *World) MoveShows(ids []services.PostID, move func(show services.Show, now time.Time) (services.Show, bool, error)) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *store.Tx) error {
		for _, id := range ids {
			before, err := w.Shows.LockShow(ctx, tx, id)
			if err != nil {
				return err
			}
			after, changed, err := move(before, w.Clock.Now())
			if err != nil || !changed {
				return err
			}
			if _, err := w.Shows.ChangeShow(ctx, tx, before, after); err != nil {
				return err
			}
		}
		return nil
	})
}

// Board is a user's board in Redis; its list of replays is made when it is missing and the user has hosts.
func (w *World) Board(user services.UserID) rdb.BoardRead {
	w.TB.Helper()
	ctx := w.TB.Context()
	for range 3 {
		read, err := w.Redis.Board(ctx, rdb.BoardQuery{Reader: user, Limit: services.Retention})
		w.Must(err)
		if !read.Ready || w.Fanout.AwaySince(read.Day) {
			w.Must(w.Fanout.Rebuild(ctx, user))
			continue
		}
		if read.Listed || len(read.Hosts) == 0 {
			return read
		}
		w.Must(w.Shows.RebuildReplays(ctx, user))
	}
	w.TB.Fatalf("the board of user %d cannot be read", user)
	return rdb.BoardRead{}
}

// boardShown is the part of a board that Redis holds, actual or expected.
type boardShown struct {
	Hosts   []services.FollowedAuthor // in the order of their numbers
	Replays []rdb.ReplayEntry
	Cut     bool   // there are older ones
	Seen    uint64 // the seen position of the board
}

// boards are a user's board as shown and according to the facts. A missing list counts as right.
func (w *World) boards(user services.UserID, document rdb.Document) (got, want boardShown) {
	w.TB.Helper()
	ctx := w.TB.Context()
	got.Hosts = sorted(document.Hosts)
	seen, err := w.Store.Position(ctx, user, store.LiveBoard, "")
	w.Must(err)
	got.Seen, want.Seen = document.LiveSeen, uint64(seen)
	if w.Shows == nil {
		return got, want
	}
	hosts, err := w.Shows.HostsBy(ctx, user)
	w.Must(err)
	want.Hosts = append(want.Hosts, hosts...)
	read, err := w.Redis.Board(ctx, rdb.BoardQuery{Reader: user, Limit: services.Retention})
	w.Must(err)
	if !read.Listed {
		return got, want
	}
	got.Replays, got.Cut = read.Replays, read.Floor.Replay
	shows, err := w.Shows.NewestReplays(ctx, user, services.Retention+1)
	w.Must(err)
	for _, show := range shows[:min(len(shows), services.Retention)] {
		want.Replays = append(want.Replays, rdb.ReplayEntry{Place: show.Place(), Host: show.Host})
	}
	want.Cut = len(shows) > services.Retention
	return got, want
}

func sorted(authors []services.FollowedAuthor) []services.FollowedAuthor {
	return slices.SortedFunc(slices.Values(authors), func(a, b services.FollowedAuthor) int { return cmp.Compare(a.Author, b.Author) })
}
