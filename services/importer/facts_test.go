package importer

import (
	"testing"

	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

func TestImportProgress(t *testing.T) {
	sqltest.EachEngine(t, func(t *testing.T, open func() *sql.DB) {
		db := open()
		sqltest.Equal(t, sqltest.Must(readProgress(t.Context(), db, "file"))(t), int64(0))
		for _, line := range []int64{1000, 2000} {
			if err := db.Write(t.Context(), func(tx *sql.Tx) error { return setProgress(t.Context(), tx, "file", line) }); err != nil {
				t.Fatal(err)
			}
			sqltest.Equal(t, sqltest.Must(readProgress(t.Context(), db, "file"))(t), line)
		}
		sqltest.Equal(t, sqltest.Must(readProgress(t.Context(), db, "another"))(t), int64(0))
	})
}
