package main

import (
	"bufio"
	"context"
	database "database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

const (
	postAuthorCount       = 2000                   // how many authors share the posts
	rawRowsPerTransaction = 20_000                 // rows of one transaction: as many as in a batch of an import
	rawRowsPerInsert      = 200                    // rows of each INSERT
	firstPostTime         = "2025-01-01T00:00:00Z" // the time of the first post
	postInterval          = 7 * time.Millisecond   // from one post to the next
	importPostsLabel      = "import of posts"      // names the measurement in the report
)

// measureImportPosts imports a file of posts, each time into a fresh database. To compare, it inserts the same rows, which are
// ready in memory, by multi-row INSERTs into a database with the same tables and settings.
func (b *bench) measureImportPosts(ctx context.Context) error {
	folder := filepath.Join(b.dataFolder, "import-posts")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	count := b.sizes.importedPosts
	file := filepath.Join(folder, "posts.jsonl")
	if err := writePostsFile(file, count); err != nil {
		return err
	}
	var ours, raw, busyMicros []float64
	for round := range b.importRounds {
		b.printProgress("import-posts: round %d of %d", round+1, b.importRounds)
		data := filepath.Join(folder, "data")
		begin := time.Now()
		_, busy, err := runForCPUTime(ctx, ".", filepath.Join(binFolder, "tidings"), "import", "posts", file, "--quiet", "--data", data)
		if err != nil {
			return err
		}
		ours, busyMicros = append(ours, float64(count)/time.Since(begin).Seconds()), append(busyMicros, 1e6*busy.Seconds()/float64(count))
		took, err := measureRawInserts(ctx, filepath.Join(folder, "raw.db"), count)
		if err != nil {
			return err
		}
		raw = append(raw, float64(count)/took.Seconds())
		if err := errors.Join(os.RemoveAll(data), removeDatabase(filepath.Join(folder, "raw.db"))); err != nil {
			return err
		}
	}
	b.report.resultLines = append(b.report.resultLines, resultLine{
		measurement: fmt.Sprintf("%s, %s", importPostsLabel, formatFigure(float64(count))), reference: "the same rows by INSERTs of 200 rows",
		ourFigure: formatFigure(median(ours)) + "/s, " + formatFigure(median(busyMicros)) + " us", referenceFigure: formatFigure(median(raw)) + "/s", value: median(ours) / median(raw), unit: "x",
	})
	return os.RemoveAll(folder)
}

// benchPost returns the i-th post of the file to import: the ID of its author, its text, its ref and its time.
func benchPost(i int) (author int, body, key string, at time.Time) {
	began, _ := time.Parse(time.RFC3339, firstPostTime)
	body = fmt.Sprintf("This is what I say in number %d, and it is so many words long that it is like a post.", i)
	return i*7919%postAuthorCount + 1, body, fmt.Sprint("post-", i), began.Add(time.Duration(i) * postInterval)
}

// writePostsFile writes a file of posts to import.
func writePostsFile(path string, count int) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	for i := range count {
		author, body, key, at := benchPost(i)
		_, _ = fmt.Fprintf(out, `{"key":%q,"author":"author-%d","at":%q,"body":%q}`+"\n", key, author, at.Format(time.RFC3339Nano), body) // Flush returns the error
	}
	return errors.Join(out.Flush(), file.Close())
}

// measureRawInserts puts the posts of the file and their authors into a new database, and returns how long the INSERTs took. The time
// to create the tables does not count.
func measureRawInserts(ctx context.Context, path string, count int) (took time.Duration, err error) {
	tables, err := sql.Open(ctx, sql.Config{URL: "sqlite:" + path})
	if err != nil {
		return 0, err
	}
	if err := tables.Close(); err != nil {
		return 0, err
	}
	db, err := openRawSQLite(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, names := make([][]any, count), make([][]any, count)
	for i := range rows {
		author, body, key, at := benchPost(i)
		id := int64(services.SortableIDAt(at))
		rows[i] = []any{id, author, "POST", false, body, at.UnixMicro()}
		names[i] = []any{"post", id, key, author, "", ""}
	}
	authors := make([][]any, postAuthorCount)
	for i := range authors {
		authors[i] = []any{i + 1, fmt.Sprint("author-", i+1)}
	}
	begin := time.Now()
	if err := insertMany(ctx, db, `INSERT INTO users (number, key) VALUES `, authors); err != nil {
		return 0, err
	}
	if err := insertMany(ctx, db, `INSERT INTO posts (id, author, kind, off_feed, body, updated_at) VALUES `, rows); err != nil {
		return 0, err
	}
	err = insertMany(ctx, db, `INSERT INTO refs (type, object, ref, owner, url, data) VALUES `, names)
	return time.Since(begin), err
}

// openRawSQLite opens a SQLite file with the settings that Tidings has, and with one connection.
func openRawSQLite(path string) (*database.DB, error) {
	pragmas := url.Values{"_pragma": {
		"journal_mode(WAL)", "synchronous(FULL)", "cache_size(-65536)", "temp_store(MEMORY)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)",
	}}
	db, err := database.Open("sqlite", "file:"+path+"?"+pragmas.Encode())
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// insertMany inserts rows: rawRowsPerInsert with each statement, and rawRowsPerTransaction in each transaction.
func insertMany(ctx context.Context, db *database.DB, head string, rows [][]any) error {
	for len(rows) > 0 {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		for done := 0; done < rawRowsPerTransaction && len(rows) > 0; done += rawRowsPerInsert {
			part := rows[:min(rawRowsPerInsert, len(rows))]
			rows = rows[len(part):]
			if err := insertRows(ctx, tx, head, "", part); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// removeDatabase deletes a SQLite file and the files beside it.
func removeDatabase(path string) error {
	files, err := filepath.Glob(path + "*")
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}
