package importer

import (
	"testing"

	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

func TestImportProgress(t *testing.T) {
	peopletest.EachTestStore(t, func(b *peopletest.TestStore) {
		sqltest.Equal(b.T, sqltest.Must(readProgress(b.Ctx, b.DB, "file"))(b.T), int64(0))
		for _, line := range []int64{1000, 2000} {
			b.MustWrite(func(tx *sql.Tx) error { return setProgress(b.Ctx, tx, "file", line) })
			sqltest.Equal(b.T, sqltest.Must(readProgress(b.Ctx, b.DB, "file"))(b.T), line)
		}
		sqltest.Equal(b.T, sqltest.Must(readProgress(b.Ctx, b.DB, "another"))(b.T), int64(0))
	})
}
