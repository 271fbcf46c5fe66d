package live

import (
	"errors"
	"fmt"
	"testing"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// Many changes of few shows are committed together, like changes of many shows, although each change takes a version and records
// a former position. A version that another change has taken meanwhile costs no further round trips.
func TestChangesOfTheSameShowsGoOutTogether(t *testing.T) {
	url, trips := sqltest.CountRoundTrips(t, sqltest.Postgres(t))
	b := &testDB{peopletest.NewTestDB(t, url)}
	const shows, changes = 12, 60
	errMine := errors.New("mine")
	host := b.MakeUsers("host")[0]
	for i := range shows {
		b.addShows(aShow(services.ShowID(i+1), host, ShowUpcoming, 1))
	}
	fns := make([]func(*sql.Tx) error, changes)
	for i := range fns {
		fns[i] = func(tx *sql.Tx) error {
			if _, err := changelog.LockLog(b.Ctx, tx, ChangelogKind); err != nil {
				return err
			}
			show, err := lockShow(b.Ctx, tx, services.ShowID(i%shows+1))
			if err != nil {
				return err
			}
			if i%7 == 3 { // some changes are refused
				return errMine
			}
			version, err := changelog.AppendLog(b.Ctx, tx, ChangelogKind, fmt.Sprint(i), nil)
			if err != nil {
				return err
			}
			former := &formerPosition{Show: show.ID, Host: show.Host, Status: show.Status, FromVersion: show.Version, UntilVersion: version, UntilAt: tx.Now}
			show.Version, show.UpdatedAt = version+1000, tx.Now
			return rewriteShow(b.Ctx, tx, show, former)
		}
	}
	trips.TakeRoundTrips()
	for i, err := range b.WriteAll(b.Ctx, fns) {
		if (i%7 == 3) != errors.Is(err, errMine) || i%7 != 3 && err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	const most = 30 // a change that is committed alone takes 6 round trips
	n := trips.TakeRoundTrips()
	t.Logf("%d round trips", n)
	if n > most {
		t.Errorf("%d changes of %d shows took %d round trips, want %d at most", changes, shows, n, most)
	}
	for i, entry := range sqltest.Must(changelog.LogAfter(b.Ctx, b.DB, ChangelogKind, 0, changes))(t) {
		if want := fmt.Sprint(i + (i+3)/6); entry.Key != want {
			t.Errorf("entry %d is of change %s, want %s", i, entry.Key, want)
		}
	}
}
