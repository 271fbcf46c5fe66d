package sql_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// The migration makes the key of an imported object its ref if the key is a valid ref, the object has no ref, and no other object
// of its type has that ref. Other keys stay in import_key alone.
func TestKeysOfImportsBecomeRefs(t *testing.T) {
	for name, url := range map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "old.db"), "postgres": sqltest.NewServer(t).NewDatabase(t),
	} {
		t.Run(name, func(t *testing.T) {
			err := sql.MigrateTo(t.Context(), url, 74,
				`INSERT INTO posts (id, author, kind, off_feed, body, updated_at, deleted_at, import_key) VALUES
					(1, 7, 'POST', FALSE, 'b', 0, NULL, 'article-1'), (2, 8, 'POST', FALSE, 'b', 0, 1, '文章 2'), (3, 8, 'POST', FALSE, 'b', 0, NULL, ''),
					(4, 7, 'POST', FALSE, 'b', 0, NULL, ' space'), (5, 7, 'POST', FALSE, 'b', 0, NULL, 'a`+"\u0301"+`'), (6, 7, 'POST', FALSE, 'b', 0, NULL, 'tab`+"\t"+`'),
					(10, 7, 'POST', FALSE, 'b', 0, NULL, 'labelled'), (11, 7, 'POST', FALSE, 'b', 0, NULL, 'labelled '), (12, 7, 'POST', FALSE, 'b', 0, NULL, 'claimed'),
					(13, 7, 'POST', FALSE, 'b', 0, NULL, 'renamed'), (14, 7, 'POST', FALSE, 'b', 0, NULL, 'held'), (20, 9, 'POST', FALSE, 'b', 0, NULL, ''), (21, 9, 'POST', FALSE, 'b', 0, NULL, '')`,
				`INSERT INTO refs (type, object, ref, owner, url, data) VALUES ('post', 10, '', 7, 'https://example.com', '{}'), ('post', 11, '', 7, '', '{}'),
					('post', 20, 'claimed', 9, '', ''), ('post', 13, 'other', 7, '', ''), ('post', 21, 'held', 9, '', ''), ('post', 14, '', 7, '', '{"a":1}'), ('show', 30, 'article-1', 9, '', '')`,
				`INSERT INTO shows (id, import_key, host, title, cover_url, replay_url, status, planned_at, ver, live_ver, live_stamp, pull, updated_at) VALUES
					(1, 'article-1', 7, 't', '', '', 0, 0, 0, 0, 0, FALSE, 0), (2, 'show/2', 8, 't', '', '', 0, 0, 0, 0, 0, FALSE, 0), (3, '', 8, 't', '', '', 0, 0, 0, 0, 0, FALSE, 0)`,
				`INSERT INTO site_messages (id, import_key, type, title, content, created_at, updated_at) VALUES (1, 'spring', 'general', 't', '', 0, 0), (2, '', 'general', 't', '', 0, 0)`)
			if err != nil {
				t.Fatal(err)
			}
			db := sqltest.Open(t, sql.Config{URL: url})
			texts, err := sql.ReadColumn[string](t.Context(), db, sql.AdHoc("refs",
				`SELECT type || ' ' || object || ' ' || ref || ' of ' || owner || ' ' || url || ' ' || data FROM refs ORDER BY type, object`))
			want := []string{
				"post 1 article-1 of 7  ", "post 2 文章 2 of 8  ", "post 10 labelled of 7 https://example.com {}", "post 11  of 7  {}", "post 13 other of 7  ",
				`post 14  of 7  {"a":1}`, "post 20 claimed of 9  ", "post 21 held of 9  ", "show 2 show/2 of 8  ", "show 30 article-1 of 9  ", "siteMessage 1 spring of 0  ",
			}
			if diff := cmp.Diff(want, texts); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			kept, err := sql.ReadColumn[string](t.Context(), db, sql.AdHoc("keys", `SELECT import_key FROM posts WHERE id IN (4, 5, 6) ORDER BY id`))
			if fmt.Sprintf("%q", kept) != `[" space" "a`+"\u0301"+`" "tab\t"]` || err != nil {
				t.Errorf("the other keys are %q, %v", kept, err)
			}
		})
	}
}
