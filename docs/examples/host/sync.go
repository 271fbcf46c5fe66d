package main

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Seed makes what was there before Tidings: people, follows and articles of which nobody told it. Names are told all the same,
// because an import has none.
func Seed(ctx context.Context, store *Store) error {
	// By AddUser, which leaves events: the relay tells the names when Tidings is there.
	for key, name := range map[string]string{"ada": "Ada", "grace": "Grace", "linus": "Linus", "auth0|4711": "Zoë"} {
		if err := store.AddUser(ctx, key, name); err != nil {
			return err
		}
	}
	// Directly into the tables, without events: that is what an import is for.
	past := time.Now().Add(-72 * time.Hour)
	return store.write(ctx, func(tx *sql.Tx) error {
		for i, pair := range [][2]string{{"ada", "grace"}, {"ada", "linus"}, {"grace", "ada"}, {"auth0|4711", "grace"}} {
			_, err := tx.ExecContext(ctx, `INSERT INTO follows (reader, author, since) VALUES (?, ?, ?)`, pair[0], pair[1], timeText(past.Add(time.Duration(i)*time.Minute)))
			if err != nil {
				return err
			}
		}
		for i, author := range []string{"grace", "linus", "ada", "grace"} {
			_, err := tx.ExecContext(ctx, `INSERT INTO articles (author, body, at) VALUES (?, ?, ?)`, author, fmt.Sprintf("Article %d, by %s", i+1, author), timeText(past.Add(time.Duration(i+1)*time.Hour)))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Export writes follows.csv and posts.jsonl, for `tidings import`. What is in the outbox too is told twice: a post has the same ref in both, and a
// follow is one however often it is told, so that nothing happens twice and nothing is missed.
func Export(ctx context.Context, store *Store, folder string) error {
	folder = cmp.Or(folder, ".")
	err := writeFile(filepath.Join(folder, "follows.csv"), func(out io.Writer) error {
		// By the time of each follow: Tidings lists and counts posts from then on.
		lines, err := list(ctx, store, func(row *sql.Rows, into *[3]string) error {
			return row.Scan(&into[0], &into[1], &into[2])
		}, `SELECT reader, author, since FROM follows ORDER BY since, reader, author`)
		if err != nil {
			return err
		}
		table := csv.NewWriter(out)
		_ = table.Write([]string{"follower", "followee", "since"}) // Error says it
		for _, line := range lines {
			_ = table.Write(line[:])
		}
		table.Flush()
		return table.Error()
	})
	if err != nil {
		return err
	}
	type post struct {
		Key    string `json:"key"` // becomes the ref
		Author string `json:"author"`
		At     string `json:"at"`
		Body   string `json:"body"`
	}
	return writeFile(filepath.Join(folder, "posts.jsonl"), func(out io.Writer) error {
		// In the order of their times, as Tidings lists them.
		posts, err := list(ctx, store, func(row *sql.Rows, into *post) error {
			var id int64
			err := row.Scan(&id, &into.Author, &into.At, &into.Body)
			into.Key = ref(id)
			return err
		}, `SELECT id, author, at, body FROM articles ORDER BY at, id`)
		// One object a line, which is what JSON Lines are.
		lines := json.NewEncoder(out)
		for _, post := range posts {
			if err == nil {
				err = lines.Encode(post)
			}
		}
		return err
	})
}

// writeFile writes a file to its end. An error of the last write shows only when the file is closed.
func writeFile(path string, write func(io.Writer) error) error {
	// A second export replaces the first: an import of the same facts changes nothing.
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	if err = write(buffered); err == nil {
		err = buffered.Flush()
	}
	if fault := file.Close(); err == nil {
		err = fault
	}
	return err
}
