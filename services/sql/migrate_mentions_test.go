package sql_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// A mention that was written before the column since existed, or by a node that does not know the column, has since 0: the post has
// mentioned the user since it was published.
func TestOldMentionsDateFromThePublication(t *testing.T) {
	for name, url := range map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "old.db"), "postgres": sqltest.NewServer(t).NewDatabase(t),
	} {
		t.Run(name, func(t *testing.T) {
			if err := sql.MigrateTo(t.Context(), url, 95, `INSERT INTO mentions (post, mentioned, listed) VALUES (5, 2, NULL), (5, 3, TRUE)`); err != nil {
				t.Fatal(err)
			}
			db := sqltest.Open(t, sql.Config{URL: url})
			if err := db.Write(t.Context(), func(tx *sql.Tx) error {
				_, err := sqltest.QueryLines(t.Context(), tx, `INSERT INTO mentions (post, mentioned, listed) VALUES (5, 4, FALSE)`)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			since, err := sql.ReadColumn[int64](t.Context(), db, sql.AdHoc("since", `SELECT since FROM mentions ORDER BY mentioned`))
			if err != nil || fmt.Sprint(since) != "[0 0 0]" {
				t.Errorf("the mentions are since %d, %v", since, err)
			}
		})
	}
}
