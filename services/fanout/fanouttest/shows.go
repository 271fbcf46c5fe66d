package fanouttest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/fanout"
	"tidings/services/mirror"
	"tidings/services/rdb"
	"tidings/services/store"
)

// Schedule plans a show, with the job that lets his followers' documents name who had none before.
func (w *World) Schedule(host services.UserNumber, in time.Duration) services.PostID {
	w.TB.Helper()
	id := w.IDs.Next()
	w.Write(func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.LockLog(ctx, mirror.LogShow); err != nil {
			return err
		}
		show, err := services.ScheduleShow(id, host, services.ShowDraft{Title: "a show", PlannedAt: w.Clock.Now().Add(in)}, w.Clock.Now())
		if err != nil {
			return err
		}
		created, err := tx.PutHost(ctx, host)
		if err == nil && created {
			err = tx.Enqueue(ctx, fanout.HostJob(host))
		}
		if err != nil {
			return err
		}
		if show, err = publish(ctx, tx, services.Show{}, show, w.IDs); err != nil {
			return err
		}
		return tx.InsertShow(ctx, show, "")
	})
	return id
}

// Start lets a show run from now on.
func (w *World) Start(ids ...services.PostID) {
	w.TB.Helper()
	w.MoveShows(ids, func(show services.Show, now time.Time) (services.Show, bool, error) { return show.Start(now, now) })
}

// End ends shows, with the jobs that carry the replays.
func (w *World) End(ids ...services.PostID) {
	w.TB.Helper()
	w.MoveShows(ids, func(show services.Show, now time.Time) (services.Show, bool, error) { return show.End(now, "", now) })
}

// Replay is a show that has run and is over.
func (w *World) Replay(host services.UserNumber) services.PostID {
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
		if _, err := tx.LockLog(ctx, mirror.LogShow); err != nil {
			return err
		}
		for _, id := range ids {
			before, err := tx.ShowForUpdate(ctx, id)
			if err != nil {
				return err
			}
			after, changed, err := move(before, w.Clock.Now())
			if err != nil || !changed {
				return err
			}
			if after.Status == services.ShowReplay && before.Status != after.Status {
				mode, err := tx.AuthorMode(ctx, after.Host)
				if err != nil {
					return err
				}
				if after.Pull = mode == services.AuthorHuge; !after.Pull {
					if err := tx.Enqueue(ctx, fanout.EndJob(id)); err != nil {
						return err
					}
				}
			}
			if after, err = publish(ctx, tx, before, after, w.IDs); err != nil {
				return err
			}
			var former *store.ShowFormer
			if after.Version != before.Version && before.Version > 0 {
				former = &store.ShowFormer{
					Show: id, Host: before.Host, Version: before.Version, Until: after.Version, UntilAt: tx.Now, Status: before.Status, Score: before.Place().Score,
				}
			}
			if err := tx.UpdateShow(ctx, after, former); err != nil {
				return err
			}
		}
		return nil
	})
}

// publish writes a move into the log when boards have the host's shows.
func publish(ctx context.Context, tx *store.Tx, before, after services.Show, ids *services.IDClock) (services.Show, error) {
	named, stamp, _, err := tx.Host(ctx, after.Host)
	if err != nil || !named || !after.Moved(before) {
		return after, err
	}
	if (after.Status == services.ShowLive) != (before.Status == services.ShowLive) {
		if stamp, err = tx.RaiseHostStamp(ctx, after.Host); err != nil {
			return after, err
		}
	}
	if after.Status == services.ShowLive && after.LiveStamp == 0 {
		after.LiveStamp = ids.Next()
	}
	change := mirror.ShowChange{Show: after, Stamp: stamp}
	_, err = change.Append(ctx, tx)
	return change.Show, err
}

// Board is what Redis has of a user's board; its list of replays is made when it is missing and he has hosts.
func (w *World) Board(user services.UserNumber) rdb.BoardRead {
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
		w.Must(w.Fanout.RebuildReplays(ctx, user))
	}
	w.TB.Fatalf("the board of user %d cannot be read", user)
	return rdb.BoardRead{}
}

// boardShown is what of a board is in Redis, and what should be.
type boardShown struct {
	Hosts   []services.FollowedAuthor // in the order of their numbers
	Replays []rdb.ReplayEntry
	Cut     bool // there are older ones
}

// boards are what is shown of a board and what the facts have. A list that is not there shows nothing wrong.
func (w *World) boards(user services.UserNumber, document rdb.Document) (got, want boardShown) {
	w.TB.Helper()
	ctx := w.TB.Context()
	got.Hosts = sorted(document.Hosts)
	edges, err := w.Store.HostsBy(ctx, user)
	w.Must(err)
	for _, edge := range edges {
		want.Hosts = append(want.Hosts, services.FollowedAuthor{Author: edge.Followee, Since: edge.Since})
	}
	read, err := w.Redis.Board(ctx, rdb.BoardQuery{Reader: user, Limit: services.Retention})
	w.Must(err)
	if !read.Listed {
		return got, want
	}
	got.Replays, got.Cut = read.Replays, read.Floor.Replay
	shows, err := w.Store.ReplaysFeed(ctx, user, services.ShowPlace{}, services.Retention+1)
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
