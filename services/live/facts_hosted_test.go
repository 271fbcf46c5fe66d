package live

import (
	"testing"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// The shows of five users are read page by page, in every status. Two hosts, one who hides from the viewer and one who blocks the
// viewer, have an empty list.
func TestHostedShowsAreWalkedToTheirEnd(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const viewer services.UserID = 5
		b.MakeUsers("a", "b", "hider", "blocker", "viewer")
		b.addShows(aShow(10, 1, ShowUpcoming, 1), aShow(11, 1, ShowLive, 2), aShow(12, 2, ShowLive, 3), aShow(13, 1, ShowReplay, 4),
			aShow(14, 1, ShowCancelled, 5), aShow(15, 3, ShowLive, 6), aShow(16, 4, ShowLive, 7))
		b.MustWrite(func(tx *sql.Tx) error {
			if _, err := sqltest.QueryLines(b.Ctx, tx, `INSERT INTO hides (author, follower, made) VALUES (3, 5, 1)`); err != nil {
				return err
			}
			_, err := sqltest.QueryLines(b.Ctx, tx, `INSERT INTO blocks (blocker, blocked, made) VALUES (4, 5, 1)`)
			return err
		})
		for size := 1; size <= 5; size++ {
			walked, _ := peopletest.WalkUserLists(b.T, size, []services.UserID{1, 2, 3, 4, 5}, func(show Show) uint64 { return uint64(show.ID) },
				func(pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[Show], error) {
					return hostedBy(b.Ctx, b.DB, viewer, pages)
				})
			sqltest.Equal(b.T, walked, map[services.UserID][]uint64{1: {14, 13, 11, 10}, 2: {12}})
		}
	})
}
