// Package exporttest has a user with a line of every kind that exports have. Tests of exports and of erasures share it:
// everything that can be stored about a user must be in the user's export and must be removed by an erasure.
package exporttest

import (
	"context"
	"fmt"

	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// fullUserInsertStatements write a row of everything that a user can have. Times are microseconds. For most rows that name two users
// there is another row with the roles exchanged, which an export must not contain.
var fullUserInsertStatements = []string{
	`UPDATE users SET name = 'Ann "A"', avatar_url = '', updated_at = 1000001, seen_at = 2000000 WHERE number = 1`,
	`INSERT INTO follows (follower, followee, since, shown) VALUES (1, 2, 9223372036854775807, TRUE), (2, 1, 0, FALSE)`,
	`INSERT INTO follow_modes (follower, followee, followed, mode) VALUES (1, 2, 2097152000, 1)`,
	`INSERT INTO past_follows (follower, followee, until_at) VALUES (1, 2, 1000000), (2, 1, 1)`,
	`INSERT INTO mutes (muter, muted, made, until) VALUES (1, 2, 2097152000, 0), (2, 1, 1, 0)`,
	`INSERT INTO blocks (blocker, blocked, made) VALUES (1, 2, 2097152000), (2, 1, 1)`,
	`INSERT INTO hides (author, follower, made) VALUES (1, 2, 2097152000), (2, 1, 1)`,
	`INSERT INTO authors (author, followers, counted_at, mode, pinned, pull, unnamed, ver) VALUES (1, 7, 1000000, 1, NULL, FALSE, 0, 1)`,
	`INSERT INTO posts (id, author, kind, parent, off_feed, body, updated_at, edited_at, deleted_at, import_key) VALUES
		(2097152000, 1, 'POST', NULL, FALSE, 'a "body"', 2000000, 2000000, NULL, 'p1'), (2097152001, 1, 'COMMENT', 2097152000, TRUE, 'gone', 1000000, NULL, 3000000, ''),
		(2097152002, 2, 'POST', NULL, FALSE, 'of another', 1000000, NULL, NULL, '')`,
	`INSERT INTO mentions (post, mentioned, since) VALUES (2097152000, 2, 4194304000), (2097152001, 2, 0), (2097152002, 1, 0)`,
	`INSERT INTO likes (post, liker, liked_at) VALUES (2097152002, 1, 1000000), (2097152000, 2, 1000000)`,
	`INSERT INTO shows (id, import_key, host, title, cover_url, replay_url, status, planned_at, started_at, ended_at, cancelled_at, ver, live_ver, live_stamp, pull, updated_at) VALUES
		(2097152000, 's1', 1, 'Evening', '', 'https://example.com/r', 2, 1000000, 1000000, 2000000, NULL, 3, 2, 1, FALSE, 2000001),
		(2097152001, '', 2, 'of another', '', '', 0, 1000000, NULL, NULL, NULL, 0, 0, 0, FALSE, 1)`,
	`INSERT INTO reminders (show, user_number, made) VALUES (2097152001, 1, 1000000), (2097152000, 2, 1)`,
	`INSERT INTO notification_heads (recipient, head, gen, undo, undo_at) VALUES (1, 2, 0, 0, 0)`,
	`INSERT INTO notification_state (recipient, category, ver, head, seen) VALUES (1, 'LIKE', 1, 2, 1)`,
	`INSERT INTO notification_groups (recipient, category, subject, bucket, first, top, newest, causes, read_to, unread_gen, undo, undo_to) VALUES (1, 'LIKE', 2097152000, 0, 1, 2, 2, 2, 0, 0, 0, 0)`,
	`INSERT INTO notification_causes (recipient, category, subject, actor, object, place, bucket, at, standing) VALUES
		(1, 'LIKE', 2097152000, 2, 0, 1, 0, 1000000, TRUE), (1, 'FOLLOW', 0, 2, 0, 2, 0, 1000000, FALSE), (2, 'FOLLOW', 0, 1, 0, 2, 0, 1000000, FALSE),
		(1, 'REMINDER', 2097152001, 2, 0, 3, 0, 1000000, TRUE)`,
	`INSERT INTO host_notifications (id, category, subject, group_key, actor, about_type, about, title, body, at, recipients, withdrawn_at) VALUES
		(2097152009, 'orders', 77, 'o1', 2, '', 0, 'Sent', 'It is on its way', 1000000, 2, 0)`,
	`INSERT INTO notification_causes (recipient, category, subject, actor, object, place, bucket, at, standing) VALUES
		(1, 'orders', 77, 2, 2097152009, 4, 0, 1000000, TRUE), (2, 'orders', 77, 2, 2097152009, 4, 0, 1000000, TRUE)`,
	`INSERT INTO refs (type, object, ref, owner, url, data) VALUES ('hostNotification', 2097152009, 'o/1', 0, 'https://example.com/o1', '[3]')`,
	`INSERT INTO user_access_log (user_number, view_code, view_id, position, last_access_at) VALUES (1, 'home_page', '', 9007199254740993, 1000000), (2, 'home_page', '', 1, 1)`,
	`INSERT INTO site_messages (id, type, title, content, created_at, updated_at) VALUES (2097152000, 'general', 'Hello', 'text', 1000000, 1000000)`,
	`INSERT INTO site_message_recipients (user_number, message, type, read_at) VALUES (1, 2097152000, 'general', NULL), (2, 2097152000, 'general', 1)`,
	`INSERT INTO user_notices (user_number, ver, position, dots_from) VALUES (1, 1, 1000000, 2000000)`,
	`INSERT INTO user_dots (user_number, dot, seen) VALUES (1, 'shop', 1000000)`,
	`INSERT INTO segments (name, bit) VALUES ('beta', 0), ('staff', 2), ('last', 63)`,
	`INSERT INTO user_segments (user_number, ver, segments) VALUES (1, 1, -9223372036854775804)`,
	`INSERT INTO display_policies (user_number, ver, out_of_total, as_dot, quiet_from, quiet_to, offset_east) VALUES (1, 1, 3, 0, 60, 120, -30)`,
	`INSERT INTO group_policies (user_number, policy) VALUES (1, 'NOBODY'), (2, 'WHO_I_FOLLOW')`,
	`INSERT INTO conversations (id, kind, title, creator, head, last_at, members, way, way_ver, minute, in_minute, in_before) VALUES (5, 'GROUP', 'us', 1, 2, 1000000, 2, 'WRITE', 1, 0, 0, 0)`,
	`INSERT INTO conversation_members (conversation, user_number, base, k, mv, gen, mentions, muted, inside, joined_at, left_at) VALUES
		(5, 1, 1, 0, 1, 0, 1, TRUE, FALSE, 1000000, 0), (5, 2, 2, 0, 1, 0, 0, FALSE, FALSE, 1000000, 2000000)`,
	`INSERT INTO conversation_messages (conversation, number, author, body, sent_at, recalled_at) VALUES (5, 1, 1, 'mine', 1000000, 0), (5, 2, 2, 'theirs', 1000000, 0)`,
	`INSERT INTO conversation_mentions (conversation, user_number, number) VALUES (5, 1, 2), (5, 2, 1)`,
	`INSERT INTO devices (hash, user_number, endpoint, service, p256dh, auth, vapid, name, silent, registered_at, seen_at, has, heard, want, due_at, attempts, first_at, dead_at, delivered_at, error)
		VALUES ('h', 1, 'https://push.example/1', 'push.example', 'p', 'a', 'v', 'phone', TRUE, 1000000, 2000000, 0, 0, 0, 0, 0, 0, 0, 3000000, '')`,
	`INSERT INTO refs (type, object, ref, owner, url, data) VALUES ('post', 2097152000, 'a/1', 1, 'https://example.com/1', '[1]'), ('show', 2097152000, 's/1', 1, '', ''),
		('conversation', 5, 'c/1', 1, '', ''), ('message', 10737418241, '', 1, '', '[2]'), ('post', 2097152002, 'b/1', 2, '', ''), ('announcement', 1, 'n/1', 0, '', ''),
		('siteMessage', 2097152000, 'm/1', 0, 'https://example.com/m1', '[4]')`,
	`INSERT INTO conversation_leases (conversation, user_number, device, until_at) VALUES (5, 1, 'phone', 1000000)`,
}

// InsertFullUser runs fullUserInsertStatements. They give ann, the user of ID 1, one row of everything that a user can have. They also
// give bob, the user of ID 2, rows that the export of ann must not contain. Both users must exist.
func InsertFullUser(ctx context.Context, tx *sql.Tx) error {
	for _, statement := range fullUserInsertStatements {
		if _, err := sqltest.QueryLines(ctx, tx, statement); err != nil {
			return fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	_, err := sqltest.QueryLines(ctx, tx, `INSERT INTO category_preferences (user_number, ver, preferences) VALUES (1, 1, $1)`, `{"LIKE":{"mode":"DOT","push":false}}`)
	return err
}
