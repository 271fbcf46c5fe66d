package store_test

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/store"
)

// Scheduled, live and ended shows are imported, with one statement for each status; new hosts are returned as unlisted.
func TestImportedShows(t *testing.T) {
	each(t, func(b *bundle) {
		var shows []store.ImportedShow
		for i, status := range services.ShowStatuses {
			for _, host := range []services.UserID{3, 9} {
				show := aShow(services.PostID(10*i)+services.PostID(host), host, status, i)
				show.Version = map[services.UserID]uint64{3: 7}[host]
				show.LiveVersion, show.CoverURL, show.ReplayURL, show.Pull = min(show.LiveVersion, show.Version), "https://a.example/c", "https://a.example/r", host == 9
				shows = append(shows, store.ImportedShow{Show: show, ImportKey: show.Title})
			}
		}
		b.host(3)
		b.write(func(tx *store.Tx) error { _, err := tx.PublishShows(b.ctx, 3); return err })
		now := b.clock.Now().UTC().Truncate(time.Microsecond)
		b.write(func(tx *store.Tx) error {
			equal(b.t, must(tx.ImportHosts(b.ctx, []services.UserID{3, 9}))(b.t), map[services.UserID]bool{9: true})
			equal(b.t, must(tx.ImportShows(b.ctx, shows))(b.t), 8)
			equal(b.t, must(tx.ImportShows(b.ctx, shows[:2]))(b.t), 0)
			return nil
		})
		keys := []string{"none"}
		want := map[string]services.Show{}
		for _, show := range shows {
			keys = append(keys, show.ImportKey)
			want[show.ImportKey] = show.Show
		}
		equal(b.t, must(b.ImportedShows(b.ctx, keys))(b.t), want)
		equal(b.t, len(must(b.ImportedShows(b.ctx, nil))(b.t)), 0)
		// The replay was on no board before its version. The shows of the unlisted host are on no board yet.
		equal(b.t, must(b.ShowHistory(b.ctx, now))(b.t), []store.ShowFormer{{Show: 23, Host: 3, Until: 7, UntilAt: now, Status: services.ShowCancelled}})
		equal(b.t, idsOf(must(b.ActiveShows(b.ctx, 0, 10))(b.t)), []services.PostID{3, 13})

		scheduled := aShow(99, 3, services.ShowUpcoming, 1)
		b.show(scheduled)
		b.write(func(tx *store.Tx) error { return tx.NameImportedShow(b.ctx, 99, "k99") })
		equal(b.t, must(b.ImportedShows(b.ctx, []string{"k99"}))(b.t), map[string]services.Show{"k99": scheduled})
	})
}
