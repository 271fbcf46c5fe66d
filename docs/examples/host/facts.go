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

// Each method of Store in this file is one act of one user: it writes the fact and its event for Tidings in one transaction. An act
// that changes nothing has no event.

// userID returns the ID of a user in GraphQL. Keys are escaped as in the query of a URL, except that a space is %20.
func userID(key string) string { return "user:" + escape(key) }

// postID returns the ID of an article in GraphQL: an ID by ref, where the ref is the application's own ID.
func postID(article int64) string { return "post:ref:" + escape(ref(article)) }

// ref returns the application's own ID of an article. It never changes: Tidings identifies the article by it, so an event that arrives
// twice makes one article.
func ref(article int64) string { return fmt.Sprintf("article-%d", article) }

// escape escapes a key or a ref for an ID. Tidings refuses any other spelling of it, so that one object has one ID.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// AddUser makes a user, or renames one.
func (s *Store) AddUser(ctx context.Context, key, name string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO users (key, name) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET name = excluded.name`, key, name)
		if err != nil {
			return err
		}
		return queueEvent(ctx, tx, key, "", Action{"setProfile": {"name": name}}, time.Now())
	})
}

// Publish makes an article and returns its ID.
func (s *Store) Publish(ctx context.Context, author, body string) (id int64, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		// The article and its event must have the same time.
		at := time.Now()
		if err := tx.QueryRowContext(ctx, `INSERT INTO articles (author, body, at) VALUES (?, ?, ?) RETURNING id`, author, body, timeText(at)).Scan(&id); err != nil {
			return err
		}
		// at is the fact's own time, so an article that is reported an hour late still gets its right position.
		return queueEvent(ctx, tx, author, "", Action{"publishPost": {"body": body, "ref": ref(id)}}, at)
	})
	return id, err
}

// Delete removes an article.
func (s *Store) Delete(ctx context.Context, article int64) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		var author string
		// Only the app of the author offers this act. A real application checks that the signed-in user is the author.
		err := tx.QueryRowContext(ctx, `DELETE FROM articles WHERE id = ? RETURNING author`, article).Scan(&author)
		if errors.Is(err, sql.ErrNoRows) {
			return errNotFound
		}
		if err != nil {
			return err
		}
		// This application and Tidings both delete the article's likes with it, so the likes need no events.
		return queueEvent(ctx, tx, author, "", Action{"deletePost": {"postId": postID(article)}}, time.Now())
	})
}

// Like likes an article.
func (s *Store) Like(ctx context.Context, reader string, article int64) error {
	return s.like(ctx, `INSERT INTO likes (reader, article) VALUES (?, ?) ON CONFLICT DO NOTHING`, "likePost", reader, article)
}

// Unlike undoes a like.
func (s *Store) Unlike(ctx context.Context, reader string, article int64) error {
	return s.like(ctx, `DELETE FROM likes WHERE reader = ? AND article = ?`, "unlikePost", reader, article)
}

// like runs a statement about a like, and writes an event only if the statement changed something. The event names the author
// beside the reader, because an erasure of either user must find the event.
func (s *Store) like(ctx context.Context, statement, mutation, reader string, article int64) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		var author string
		// Tidings notifies the author, so the event names them for an erasure.
		err := tx.QueryRowContext(ctx, `SELECT author FROM articles WHERE id = ?`, article).Scan(&author)
		if errors.Is(err, sql.ErrNoRows) {
			return errNotFound
		}
		changed := false
		if err == nil {
			changed, err = execChanged(ctx, tx, statement, reader, article)
		}
		// If the statement changed nothing, there is no event: it would only cost time.
		if err != nil || !changed {
			return err
		}
		return queueEvent(ctx, tx, reader, author, Action{mutation: {"postId": postID(article)}}, time.Now())
	})
}

// Follow makes a reader follow an author.
func (s *Store) Follow(ctx context.Context, reader, author string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		at := time.Now()
		// The row has the time too, because an export says since when a followed author's articles count.
		changed, err := execChanged(ctx, tx, `INSERT INTO follows (reader, author, since) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, reader, author, timeText(at))
		if err != nil || !changed {
			return err
		}
		return queueEvent(ctx, tx, reader, author, Action{"follow": {"userId": userID(author)}}, at)
	})
}

// Unfollow ends a follow.
func (s *Store) Unfollow(ctx context.Context, reader, author string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		changed, err := execChanged(ctx, tx, `DELETE FROM follows WHERE reader = ? AND author = ?`, reader, author)
		if err != nil || !changed {
			return err
		}
		return queueEvent(ctx, tx, reader, author, Action{"unfollow": {"userId": userID(author)}}, time.Now())
	})
}

// Erase removes a user with everything that they did, and makes Tidings do the same. The request for that goes through the outbox, so
// that Tidings gets it after all earlier events of the user: a later event would create the user again. Events that name the user and
// were not sent yet are dropped.
func (s *Store) Erase(ctx context.Context, key string) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		found, err := execChanged(ctx, tx, `DELETE FROM users WHERE key = ?`, key) // ON DELETE CASCADE deletes all of the user's rows
		if err == nil && !found {
			err = errNotFound
		}
		// Events of the user, and events of other users that name the user, must not be sent after the erasure: they would create
		// the user again.
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
