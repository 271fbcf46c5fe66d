package main

import (
	"context"
	database "database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // the driver

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// Data that the API would create too slowly is written into the database before a server opens it: a million users, and conversations.
// Unread messages of every second conversation are counted when badges are read.

// memberKey returns the key of a user of a seeded database: the users with the IDs 1 to n have the keys member-1 to member-n.
func memberKey(number int) string { return "member-" + strconv.Itoa(number) }

// memberToken returns the token of the user with the ID i+1.
func memberToken(i int) string { return "dev:" + memberKey(i+1) }

// seedUsers makes a database with so many users, who were all active today and have read everything.
func seedUsers(ctx context.Context, file string, users int) error {
	return writeOfflineDatabase(ctx, file, func(tx *database.Tx) error {
		const counted = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)`
		now := time.Now().UnixMicro()
		return execAll(ctx, tx, []sqlStatement{
			{`INSERT INTO users (number, key, seen_at) ` + counted + ` SELECT i, 'member-' || i, ?2 FROM n`, []any{users, now}},
			{`INSERT INTO user_notices (user_number, ver, position, dots_from) ` + counted + ` SELECT i, ?2, 0, 0 FROM n`, []any{users, now}},
			{`UPDATE counters SET value = ?1 WHERE name = 'users'`, []any{users}},
		})
	})
}

// unreadPerConversation is how many messages wait in each seeded conversation.
const unreadPerConversation = 3

// seedConversations puts readers into conversations with another user, talker, who has sent unreadPerConversation messages in each.
// Every second conversation is counted when badges are read, the others when a message is sent.
func seedConversations(ctx context.Context, file string, readers []services.UserID, talker services.UserID, conversations int) error {
	return writeOfflineDatabase(ctx, file, func(tx *database.Tx) error {
		now := time.Now().UnixMicro()
		var last int
		if err := tx.QueryRowContext(ctx, `SELECT value FROM counters WHERE name = 'conversations'`).Scan(&last); err != nil {
			return err
		}
		const added = `WITH RECURSIVE n(i) AS (SELECT ?1 + 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 + ?2)`
		writes := []sqlStatement{
			{`INSERT INTO conversations (id, kind, title, creator, head, last_at, members, way, way_ver, minute, in_minute, in_before) ` + added +
				` SELECT i, 'GROUP', 'Conversation ' || i, ?3, ?4, ?5, ?6, CASE i % 2 WHEN 0 THEN 'READ' ELSE 'WRITE' END, 1, 0, 0, 0 FROM n`,
				[]any{last, conversations, talker, unreadPerConversation, now, len(readers) + 1}},
			{`UPDATE counters SET value = value + ?1 WHERE name = 'conversations'`, []any{conversations}},
		}
		for number := range unreadPerConversation {
			writes = append(writes, sqlStatement{`INSERT INTO conversation_messages (conversation, number, author, body, sent_at, recalled_at) ` + added +
				` SELECT i, ?4, ?3, 'Number ' || ?4, ?5, 0 FROM n`, []any{last, conversations, talker, number + 1, now + int64(number)}})
		}
		for i, user := range append([]services.UserID{talker}, readers...) {
			base := 0
			if i == 0 {
				base = unreadPerConversation // a user's own messages are read
			}
			writes = append(writes, sqlStatement{`INSERT INTO conversation_members (conversation, user_number, base, k, mv, gen, mentions, muted, inside, joined_at, left_at) ` + added +
				` SELECT i, ?3, ?4, 0, 1, 0, 0, FALSE, FALSE, ?5, 0 FROM n`, []any{last, conversations, user, base, now}})
		}
		return execAll(ctx, tx, writes)
	})
}

// sqlStatement is a statement with its arguments.
type sqlStatement struct {
	text string
	args []any
}

// execAll executes the statements one after the other.
func execAll(ctx context.Context, tx *database.Tx, writes []sqlStatement) error {
	for _, w := range writes {
		if _, err := tx.ExecContext(ctx, w.text, w.args...); err != nil {
			return fmt.Errorf("%.60s: %w", w.text, err)
		}
	}
	return nil
}

// writeOfflineDatabase opens a database that no server has open, brings its tables up to date, and calls write in one transaction.
func writeOfflineDatabase(ctx context.Context, file string, write func(*database.Tx) error) error {
	tables, err := sql.Open(ctx, sql.Config{URL: "sqlite:" + file})
	if err != nil {
		return err
	}
	if err := tables.Close(); err != nil {
		return err
	}
	db, err := database.Open("sqlite", "file:"+file)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	if err := write(tx); err != nil {
		return errors.Join(err, tx.Rollback(), db.Close())
	}
	return errors.Join(tx.Commit(), db.Close())
}

// findUserIDs finds the IDs of users in a database that no server has open.
func findUserIDs(ctx context.Context, file string, keys []string) (ids []services.UserID, err error) {
	s, err := sql.Open(ctx, sql.Config{URL: "sqlite:" + file})
	if err != nil {
		return nil, err
	}
	known, err := people.IDs(ctx, s, keys)
	for _, key := range keys {
		id, found := known[key]
		if !found && err == nil {
			err = fmt.Errorf("there is no user %s", key)
		}
		ids = append(ids, id)
	}
	return ids, errors.Join(err, s.Close())
}
