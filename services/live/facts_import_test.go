package live

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// Shows of every status are imported, with one statement for each status; new hosts are returned as hosts that not all documents name.
func TestImportedShows(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		var shows []Show
		for i, status := range ShowStatuses {
			for _, host := range []services.UserID{3, 9} {
				show := aShow(services.ShowID(10*i)+services.ShowID(host), host, status, i)
				show.Version = map[services.UserID]uint64{3: 7}[host]
				show.LiveVersion, show.CoverURL, show.ReplayURL, show.Pull = min(show.LiveVersion, show.Version), "https://a.example/c", "https://a.example/r", host == 9
				shows = append(shows, show)
			}
		}
		b.addHosts(3)
		b.MustWrite(func(tx *sql.Tx) error { _, err := recordHostInDocuments(b.Ctx, tx, 3); return err })
		now := b.Clock.Now().UTC().Truncate(time.Microsecond)
		b.MustWrite(func(tx *sql.Tx) error {
			sqltest.Equal(b.T, sqltest.Must(insertImportedHosts(b.Ctx, tx, []services.UserID{3, 9}))(b.T), map[services.UserID]bool{9: true})
			sqltest.Equal(b.T, sqltest.Must(insertImportedShows(b.Ctx, tx, shows))(b.T), 8)
			sqltest.Equal(b.T, sqltest.Must(insertImportedShows(b.Ctx, tx, shows[:2]))(b.T), 0)
			return nil
		})
		var ids []services.ShowID
		want := map[services.ShowID]Show{}
		for _, show := range shows {
			ids = append(ids, show.ID)
			want[show.ID] = show
		}
		sqltest.Equal(b.T, sqltest.Must(database{b.DB}.showsByID(b.Ctx, ids))(b.T), want)
		// The replay was on no board before its version. The shows of the host that not all documents name are on no board yet.
		sqltest.Equal(b.T, sqltest.Must(database{b.DB}.showHistory(b.Ctx, now))(b.T), []formerPosition{{Show: 23, Host: 3, UntilVersion: 7, UntilAt: now, Status: ShowCancelled}})
		sqltest.Equal(b.T, idsOf(sqltest.Must(database{b.DB}.activeShows(b.Ctx, 0, 10))(b.T)), []services.ShowID{3, 13})
	})
}
