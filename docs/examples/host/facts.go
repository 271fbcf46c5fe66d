package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Every function here is one act of one user: the fact and its event for Tidings, in one transaction. An act that changes nothing
// tells nothing.

// userID is a user in GraphQL. Keys are escaped as in the query of a URL, except for the space.
func userID(key string) string { return "user:" + escape(key) }

// postID is an article in GraphQL, by the application's own id: its ref.
func postID(article int64) string { return "post:ref:" + escape(ref(article)) }

// ref is the application's own ID of an article. It never changes: Tidings knows the article by it, and an event that comes
// twice makes it once.
func ref(article int64) string { return fmt.Sprintf("article-%d", article) }

// escape is a key in an ID. Tidings refuses other ways of writing it, so that one object has one ID.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// AddUser makes a user, or renames one.
func (s *Store) AddUser(ctx context.Context, key, name string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO users (key, name) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET name = excluded.name`, key, name)
		if err != nil {
			return err
		}
		return tell(ctx, tx, key, "", Action{"setProfile": {"name": name}}, time.Now())
	})
}

// Publish makes an article and returns its id.
func (s *Store) Publish(ctx context.Context, author, body string) (id int64, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		// One moment for both: the article and its event have the same time.
		at := time.Now()
		if err := tx.QueryRowContext(ctx, `INSERT INTO articles (author, body, at) VALUES (?, ?, ?) RETURNING id`, author, body, timeText(at)).Scan(&id); err != nil {
			return err
		}
		// at is the fact's own time: an article from an hour without network stands where it belongs.
		return tell(ctx, tx, author, "", Action{"publishPost": {"body": body, "ref": ref(id)}}, at)
	})
	return id, err
}

// Delete removes an article.
func (s *Store) Delete(ctx context.Context, article int64) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		var author string
		// Only the author's own app offers it; a real application checks who is signed in.
		err := tx.QueryRowContext(ctx, `DELETE FROM articles WHERE id = ? RETURNING author`, article).Scan(&author)
		if errors.Is(err, sql.ErrNoRows) {
			return errNotFound
		}
		if err != nil {
			return err
		}
		// The likes go with the article, in both programs: Tidings needs no event for them.
		return tell(ctx, tx, author, "", Action{"deletePost": {"postId": postID(article)}}, time.Now())
	})
}

// Like likes an article.
func (s *Store) Like(ctx context.Context, reader string, article int64) error {
	return s.like(ctx, `INSERT INTO likes (reader, article) VALUES (?, ?) ON CONFLICT DO NOTHING`, "likePost", reader, article)
}

// Unlike takes a like back.
func (s *Store) Unlike(ctx context.Context, reader string, article int64) error {
	return s.like(ctx, `DELETE FROM likes WHERE reader = ? AND article = ?`, "unlikePost", reader, article)
}

// like runs a statement about a like, and tells Tidings only if it changed something. The author is named beside the reader,
// because the erasure of either has to find the event.
func (s *Store) like(ctx context.Context, statement, mutation, reader string, article int64) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		var author string
		// The author is whom Tidings notifies: their name goes along, for an erasure.
		err := tx.QueryRowContext(ctx, `SELECT author FROM articles WHERE id = ?`, article).Scan(&author)
		if errors.Is(err, sql.ErrNoRows) {
			return errNotFound
		}
		changed := false
		if err == nil {
			changed, err = change(ctx, tx, statement, reader, article)
		}
		// A like that is there already tells nothing: a repeated event would only cost.
		if err != nil || !changed {
			return err
		}
		return tell(ctx, tx, reader, author, Action{mutation: {"postId": postID(article)}}, time.Now())
	})
}

// Follow makes a reader follow an author.
func (s *Store) Follow(ctx context.Context, reader, author string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		at := time.Now()
		// The time goes into the fact too: an export tells Tidings since when articles count.
		changed, err := change(ctx, tx, `INSERT INTO follows (reader, author, since) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, reader, author, timeText(at))
		if err != nil || !changed {
			return err
		}
		return tell(ctx, tx, reader, author, Action{"follow": {"userId": userID(author)}}, at)
	})
}

// Unfollow ends a follow.
func (s *Store) Unfollow(ctx context.Context, reader, author string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		changed, err := change(ctx, tx, `DELETE FROM follows WHERE reader = ? AND author = ?`, reader, author)
		if err != nil || !changed {
			return err
		}
		return tell(ctx, tx, reader, author, Action{"unfollow": {"userId": userID(author)}}, time.Now())
	})
}

// Erase removes a user with everything that they did, and asks Tidings for the same. The request goes through the outbox: it has to come
// after everything that was told of the user before, or a late event would make the user anew. What was not told yet, and would name
// the user, need not be told any more.
func (s *Store) Erase(ctx context.Context, key string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		found, err := change(ctx, tx, `DELETE FROM users WHERE key = ?`, key) // and, by ON DELETE CASCADE, all that is theirs
		if err == nil && !found {
			err = errNotFound
		}
		// What waits of the user, or names them beside another one, must not be told after the erasure: it would make them
		// anew.
		for _, table := range []string{"outbox", "refused"} {
			if err == nil {
				_, err = tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE actor = ? OR other = ?`, key, key)
			}
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `INSERT INTO outbox (actor, other, action, at) VALUES (?, '', '', ?)`, key, timeText(time.Now()))
		}
		return err
	})
}
