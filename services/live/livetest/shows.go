package livetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/live"
	"tidings/services/rdb/rdbtest"
	"tidings/services/sql"
)

// New makes the live service of a world's node, with this node's own cache, for tests of other packages that need shows.
func New(w *fanouttest.World, limits live.ShowLimits) *live.Service {
	s := live.New(live.Config{
		DB: w.DB, Redis: w.Redis, Reader: w.Caches.Reader, Changelog: w.Caches.Changelog, Jobs: w.Fanout.Engine, Projector: w.Projector, Fanout: w.Fanout.Fanout, IDs: w.IDs, Clock: w.Clock,
		Settings: live.Settings{Limits: limits},
	})
	w.ShowService = s
	return s
}

// Service is the service that New made last.
func Service(w *fanouttest.World) *live.Service { return w.ShowService.(*live.Service) }

// Apply applies commands in one transaction, without their steps after the commit, and returns their IDs.
func Apply(w *fanouttest.World, commands ...*jobs.Command) (ids []string) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		// The function may run again.
		ids = nil
		for _, command := range commands {
			made, err := command.Apply(ctx, tx)
			if err != nil && !errors.Is(err, jobs.ErrUnchanged) {
				return err
			}
			ids = append(ids, made...)
		}
		return nil
	})
	return ids
}

// ScheduleShow plans a show to start after the time in, and returns its ID.
func ScheduleShow(w *fanouttest.World, host services.UserID, in time.Duration) services.ShowID {
	w.TB.Helper()
	made := Apply(w, Service(w).Schedule(host, live.ShowDraft{Title: "a show", PlannedAt: w.Clock.Now().Add(in)}))
	id, err := live.ParseShowID("id", made[0])
	w.Must(err)
	return id
}

// StartShows starts shows now.
func StartShows(w *fanouttest.World, ids ...services.ShowID) {
	w.TB.Helper()
	now := w.Clock.Now()
	applyToEachShow(w, ids, func(host services.UserID, id services.ShowID) *jobs.Command { return Service(w).Start(host, id, now) })
}

// EndShows ends shows at a time. Jobs fan out the replays.
func EndShows(w *fanouttest.World, at time.Time, ids ...services.ShowID) {
	w.TB.Helper()
	applyToEachShow(w, ids, func(host services.UserID, id services.ShowID) *jobs.Command { return Service(w).End(host, id, at, "") })
}

// applyToEachShow applies a command for each show, all in one transaction, as one batch of ingest would.
func applyToEachShow(w *fanouttest.World, ids []services.ShowID, command func(host services.UserID, id services.ShowID) *jobs.Command) {
	w.TB.Helper()
	shows, err := Service(w).Memory.Shows(w.TB.Context(), ids)
	w.Must(err)
	commands := make([]*jobs.Command, len(ids))
	for i, id := range ids {
		commands[i] = command(shows[id].Host, id)
	}
	Apply(w, commands...)
}

// ListedReplays returns the replays that boards show of a user's list in Redis, newest first. A missing list is made first.
func ListedReplays(w *fanouttest.World, user services.UserID) (ids []services.ShowID) {
	w.TB.Helper()
	_, err := Service(w).Board(w.TB.Context(), user, live.BoardRequest{First: services.FeedRetention})
	w.Must(err)
	// The first member of the stored list is no replay: it begins with "!" once the list is built. Then the replays follow, the oldest
	// first.
	members := rdbtest.Snapshot(w.TB, w.Redis, user).Lists["r"]
	for _, member := range slices.Backward(members) {
		if member[0] == '!' || len(ids) == services.FeedRetention {
			break
		}
		id, err := services.ParseSortableID(member[9:22]) // the ID follows the end time
		w.Must(err)
		ids = append(ids, services.ShowID(id))
	}
	return ids
}
