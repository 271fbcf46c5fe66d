package live

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/nodecache"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// showWriter writes a host's shows the way mutations do.
type showWriter struct {
	*testing.T
	*sql.DB
	now time.Time // the time of the last change; each change is a minute later
}

// Now makes the writer the clock of the database and of the caches.
func (h *showWriter) Now() time.Time { return h.now }

// writeChange writes a show in a transaction, with its log entry and its former position, and returns it.
func (h *showWriter) writeChange(before, after Show) Show {
	h.Helper()
	ctx := h.Context()
	h.now = h.now.Add(time.Minute)
	after.UpdatedAt = h.now
	err := h.Write(ctx, func(tx *sql.Tx) error {
		if _, err := changelog.LockLog(ctx, tx, ChangelogKind); err != nil {
			return err
		}
		if _, err := putHost(ctx, tx, after.Host); err != nil {
			return err
		}
		change := loggedChange{Show: after}
		if (after.Status == ShowLive) != (before.Status == ShowLive) {
			change.Show.LiveStamp = services.SortableIDAt(h.now)
			change.Live = true
		}
		version, err := change.appendMove(ctx, tx)
		if err != nil {
			return err
		}
		if change.Live {
			if err := recordHostLiveVersion(ctx, tx, after.Host, version); err != nil {
				return err
			}
		}
		after = change.Show
		if before.ID == 0 {
			return putShow(ctx, tx, after)
		}
		return rewriteShow(ctx, tx, after, &formerPosition{
			Show: before.ID, Host: before.Host, FromVersion: before.Version, UntilVersion: version, UntilAt: h.now, Status: before.Status, Score: before.Position().Score,
		})
	})
	if err != nil {
		h.Fatal(err)
	}
	return after
}

// wholeBoard is a board at one version of the log.
type wholeBoard struct {
	Active, Replays []Show
	HasMoreActive   bool
}

// readWholeBoardAt reads the board of four hosts at a version.
func readWholeBoardAt(m *Memory, version uint64) (all wholeBoard) {
	hosts := []services.FollowedAuthor{{Author: 7}, {Author: 8}, {Author: 9}, {Author: 10}}
	all.Active, all.HasMoreActive = m.activeAt(hosts, version, ShowPosition{}, 100)
	all.Replays, _ = m.replaysAt(hosts, version, ShowPosition{}, 100)
	return all
}

// A node that starts late loads from SQL the state that another node has built from the log: every board of every version,
// and counts with the same versions.
func TestANodeThatStartsLateHasTheSameBoards(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		h := &showWriter{T: t, now: time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)}
		h.DB = sqltest.Open(t, sql.Config{URL: url, Clock: h})
		node := func() *Memory {
			return newMemory(changelog.New(changelog.Config{Log: nodecache.SQL{DB: h.DB}, Logger: slog.New(slog.DiscardHandler), Clock: h}), database{h.DB}, 13*time.Hour)
		}
		early := node()
		catchUp := func(m *Memory, version uint64) {
			t.Helper()
			if err := m.catchUp(context.WithoutCancel(t.Context()), version); err != nil || m.Version() != version {
				t.Fatalf("at %d of %d: %v", m.Version(), version, err)
			}
		}
		catchUp(early, 0)
		var shows []Show
		for i := range 12 {
			shows = append(shows, h.writeChange(Show{}, Show{
				ID: services.ShowID(1000 + i), Host: services.UserID(7 + i%4), Title: "Ночь", CoverURL: "https://example.org/c",
				Status: ShowUpcoming, PlannedAt: h.now.Add(time.Duration(30+7*(i%5)) * time.Minute),
			}))
		}
		for round := range 4 {
			for i, one := range shows {
				next := one
				switch {
				case one.Status == ShowUpcoming && (i+round)%4 == 0:
					next.PlannedAt = next.PlannedAt.Add(time.Duration(i) * time.Minute)
				case one.Status == ShowUpcoming && i == 11:
					next.Status, next.CancelledAt = ShowCancelled, h.now
				case one.Status == ShowUpcoming && (i+round)%2 == 0:
					next.Status, next.StartedAt = ShowLive, h.now
				case one.Status == ShowLive:
					next.Status, next.EndedAt, next.Pull = ShowReplay, h.now, one.Host == 9
				default:
					continue
				}
				shows[i] = h.writeChange(one, next)
			}
		}
		version := uint64(0)
		for _, one := range shows {
			version = max(version, one.Version)
		}
		late := node()
		catchUp(early, version)
		catchUp(late, version)
		for at := range version + 1 {
			if diff := cmp.Diff(readWholeBoardAt(early, at), readWholeBoardAt(late, at)); diff != "" {
				t.Fatalf("the boards at %d (-of a node that followed +of one that starts):\n%s", at, diff)
			}
		}
		if last := readWholeBoardAt(late, version); len(last.Active) == 0 || len(last.Replays) == 0 || last.HasMoreActive {
			t.Errorf("the last board is %+v", last)
		}
		hosts := []services.FollowedAuthor{{Author: 7}, {Author: 8}, {Author: 9}, {Author: 10}}
		if a, b := early.CountLive(hosts, 0), late.CountLive(hosts, 0); a != b || a.VersionSum == 0 || a.CacheNotLoaded {
			t.Errorf("they count %+v and %+v", a, b)
		}
		h.now = h.now.Add(24 * time.Hour)
		later := node()
		catchUp(later, version)
		if replays := readWholeBoardAt(later, version).Replays; len(replays) == 0 || replays[0].Host != 9 {
			t.Errorf("a day later the replays are %+v, want those that are in nobody's list", replays)
		}
	})
}
