package main

import (
	database "database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/feed"
	"tidings/services/importer"
	"tidings/services/sql"
)

// The import and the raw INSERTs store the same posts with the same authors. Only the users' IDs may differ.
func TestRawInsertsStoreTheSamePostsAsTheImport(t *testing.T) {
	const count = 450
	folder := t.TempDir()
	file, raw, imported := filepath.Join(folder, "posts.jsonl"), filepath.Join(folder, "raw.db"), filepath.Join(folder, "imported.db")
	if err := writePostsFile(file, count); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines != count || !json.Valid([]byte(strings.SplitN(string(text), "\n", 2)[0])) {
		t.Fatalf("%d lines like %.200s", lines, text)
	}
	if took, err := measureRawInserts(t.Context(), raw, count); err != nil || took <= 0 {
		t.Fatalf("%v, %v", took, err)
	}
	s, err := sql.Open(t.Context(), sql.Config{URL: "sqlite:" + imported})
	if err != nil {
		t.Fatal(err)
	}
	ids := services.NewIDClock(services.SystemClock{}, 1)
	report, err := feed.ImportFile(t.Context(), s, ids, []services.PostKind{services.PostKindPost}, importer.Options{File: file, Quiet: true})
	if err != nil || report.NewItems != count {
		t.Fatalf("%+v, %v", report, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := storedPosts(t, raw), storedPosts(t, imported); got != want || strings.Count(got, "\n") != count {
		t.Errorf("raw are %.400s\nimported are %.400s", got, want)
	}
	if err := removeDatabase(raw); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(raw + "*"); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// storedPosts returns the posts of a database with their authors' keys, one per line.
func storedPosts(t *testing.T, path string) string {
	t.Helper()
	db, err := database.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), `SELECT p.id || ' ' || u.key || ' ' || p.kind || ' ' || p.off_feed || ' ' || p.body || ' ' || p.updated_at || ' ' || r.ref
		FROM posts p JOIN users u ON u.number = p.author JOIN refs r ON r.type = 'post' AND r.object = p.id AND r.owner = p.author ORDER BY p.id`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var text strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		text.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
