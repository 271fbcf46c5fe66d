package live

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/store"
	"tidings/services/store/storetest"
)

// Scheduled, live and ended shows are imported, with one statement for each status; new hosts are returned as unlisted.
func TestImportedShows(t *testing.T) {
	eachStore(t, func(b *bundle) {
		var shows []ImportedShow
		for i, status := range ShowStatuses {
			for _, host := range []services.UserID{3, 9} {
				show := aShow(services.PostID(10*i)+services.PostID(host), host, status, i)
				show.Version = map[services.UserID]uint64{3: 7}[host]
				show.LiveVersion, show.CoverURL, show.ReplayURL, show.Pull = min(show.LiveVersion, show.Version), "https://a.example/c", "https://a.example/r", host == 9
				shows = append(shows, ImportedShow{Show: show, ImportKey: show.Title})
			}
		}
		b.host(3)
		b.MustWrite(func(tx *store.Tx) error { _, err := publish(b.Ctx, tx.Tx, 3); return err })
		now := b.Clock.Now().UTC().Truncate(time.Microsecond)
		b.MustWrite(func(tx *store.Tx) error {
			storetest.Equal(b.T, storetest.Must(ImportHosts(b.Ctx, tx.Tx, []services.UserID{3, 9}))(b.T), map[services.UserID]bool{9: true})
			storetest.Equal(b.T, storetest.Must(ImportShows(b.Ctx, tx.Tx, shows))(b.T), 8)
			storetest.Equal(b.T, storetest.Must(ImportShows(b.Ctx, tx.Tx, shows[:2]))(b.T), 0)
			return nil
		})
		keys := []string{"none"}
		want := map[string]Show{}
		for _, show := range shows {
			keys = append(keys, show.ImportKey)
			want[show.ImportKey] = show.Show
		}
		storetest.Equal(b.T, storetest.Must(ImportedShows(b.Ctx, b.DB, keys))(b.T), want)
		storetest.Equal(b.T, len(storetest.Must(ImportedShows(b.Ctx, b.DB, nil))(b.T)), 0)
		// The replay was on no board before its version. The shows of the unlisted host are on no board yet.
		storetest.Equal(b.T, storetest.Must(database{b.DB}.ShowHistory(b.Ctx, now))(b.T), []Former{{Show: 23, Host: 3, Until: 7, UntilAt: now, Status: ShowCancelled}})
		storetest.Equal(b.T, idsOf(storetest.Must(database{b.DB}.ActiveShows(b.Ctx, 0, 10))(b.T)), []services.PostID{3, 13})

		scheduled := aShow(99, 3, ShowUpcoming, 1)
		b.show(scheduled)
		b.MustWrite(func(tx *store.Tx) error { return NameImportedShow(b.Ctx, tx.Tx, 99, "k99") })
		storetest.Equal(b.T, storetest.Must(ImportedShows(b.Ctx, b.DB, []string{"k99"}))(b.T), map[string]Show{"k99": scheduled})
	})
}
