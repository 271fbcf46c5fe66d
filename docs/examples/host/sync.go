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

// Seed makes data from before Tidings: people, follows and articles without events. Only the names have events, because an import
// has no names.
func Seed(ctx context.Context, store *Store) error {
	// AddUser writes events, so the relay sends the names once Tidings is up.
	for key, name := range map[string]string{"ada": "Ada", "grace": "Grace", "linus": "Linus", "auth0|4711": "Zoë"} {
		if err := store.AddUser(ctx, key, name); err != nil {
			return err
		}
	}
	// These rows are written without events, because the import brings their facts to Tidings.
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

// Export writes follows.csv and posts.jsonl, for `tidings import`. Facts whose events are still in the outbox reach Tidings
// twice, but take effect once: a post has the same ref both times, and a repeated follow changes nothing. So nothing is missed.
func Export(ctx context.Context, store *Store, folder string) error {
	folder = cmp.Or(folder, ".")
	err := writeFile(filepath.Join(folder, "follows.csv"), func(out io.Writer) error {
		// Each follow has its time, because posts of the author count for the reader from then on.
		lines, err := list(ctx, store, func(row *sql.Rows, into *[3]string) error {
			return row.Scan(&into[0], &into[1], &into[2])
		}, `SELECT reader, author, since FROM follows ORDER BY since, reader, author`)
		if err != nil {
			return err
		}
		table := csv.NewWriter(out)
		_ = table.Write([]string{"follower", "followee", "since"}) // table.Error below returns a failed write
		for _, line := range lines {
			_ = table.Write(line[:])
		}
		table.Flush()
		return table.Error()
	})
	if err != nil {
		return err
	}
	// post is a line of posts.jsonl.
	type post struct {
		Key    string `json:"key"` // becomes the ref
		Author string `json:"author"`
		At     string `json:"at"`
		Body   string `json:"body"`
	}
	return writeFile(filepath.Join(folder, "posts.jsonl"), func(out io.Writer) error {
		// The oldest post comes first: of two posts of one millisecond, the later line becomes the newer post.
		posts, err := list(ctx, store, func(row *sql.Rows, into *post) error {
			var id int64
			err := row.Scan(&id, &into.Author, &into.At, &into.Body)
			into.Key = ref(id)
			return err
		}, `SELECT id, author, at, body FROM articles ORDER BY at, id`)
		// JSON Lines have one object a line, as the encoder writes them.
		lines := json.NewEncoder(out)
		for _, post := range posts {
			if err == nil {
				err = lines.Encode(post)
			}
		}
		return err
	})
}

// writeFile writes a file. It also returns the error of closing the file, because the last write can fail as late as that.
func writeFile(path string, write func(io.Writer) error) error {
	// A second export replaces the first, which is safe because a second import of the same facts changes nothing.
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
