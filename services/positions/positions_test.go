package positions_test

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/positions"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

func TestReadPositionNeverRegresses(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		sqltest.Equal(b.T, sqltest.Must(positions.Of[services.SortableID](b.Ctx, b.DB, 1, positions.HomeFeedView))(b.T), services.SortableID(0))
		for _, step := range []struct{ to, stands services.SortableID }{{7, 7}, {5, 7}, {7, 7}, {9, 9}, {0, 9}, {services.MaxSortableID, services.MaxSortableID}} {
			b.Clock.Advance(time.Second)
			var stands services.SortableID
			b.MustWrite(func(tx *sql.Tx) (err error) {
				stands, err = positions.Advance(b.Ctx, tx, 1, positions.HomeFeedView, step.to)
				return err
			})
			sqltest.Equal(b.T, stands, step.stands)
			sqltest.Equal(b.T, sqltest.Must(positions.Of[services.SortableID](b.Ctx, b.DB, 1, positions.HomeFeedView))(b.T), step.stands)
		}
		sqltest.Equal(b.T, sqltest.Must(positions.Of[services.SortableID](b.Ctx, b.DB, 2, positions.HomeFeedView))(b.T), services.SortableID(0))
		sqltest.Equal(b.T, sqltest.Must(positions.Of[services.SortableID](b.Ctx, b.DB, 1, "topic"))(b.T), services.SortableID(0))
		rows := sqltest.Must(sqltest.QueryLines(b.Ctx, b, "SELECT last_access_at - $1 FROM user_access_log", b.Clock.Now()))(b.T)
		sqltest.Equal(b.T, rows, []string{"0"}) // a late report is an access too
	})
}
