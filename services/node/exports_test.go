package node_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/export"
	"tidings/services/node"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// life is a row of everything that a user can have: ann has ID 1, bob has ID 2. Times are microseconds.
var life = []string{
	`UPDATE users SET name = 'Ann "A"', avatar_url = '', updated_at = 1000001, seen_at = 2000000 WHERE number = 1`,
	`INSERT INTO follows (follower, followee, since, shown) VALUES (1, 2, 2097152000, TRUE), (2, 1, 0, FALSE)`,
	`INSERT INTO past_follows (follower, followee, until_at) VALUES (1, 2, 1000000), (2, 1, 1)`,
	`INSERT INTO mutes (muter, muted, made, until) VALUES (1, 2, 2097152000, 0), (2, 1, 1, 0)`,
	`INSERT INTO blocks (blocker, blocked, made) VALUES (1, 2, 2097152000), (2, 1, 1)`,
	`INSERT INTO hides (author, follower, made) VALUES (1, 2, 2097152000), (2, 1, 1)`,
	`INSERT INTO authors (author, followers, counted_at, mode, pinned, pull, unnamed, ver) VALUES (1, 7, 1000000, 1, NULL, FALSE, 0, 1)`,
	`INSERT INTO posts (id, author, kind, parent, off_feed, body, updated_at, edited_at, deleted_at, import_key) VALUES
		(2097152000, 1, 'POST', NULL, FALSE, 'a "body"', 2000000, 2000000, NULL, 'p1'), (2097152001, 1, 'COMMENT', 2097152000, TRUE, 'gone', 1000000, NULL, 3000000, ''),
		(2097152002, 2, 'POST', NULL, FALSE, 'of another', 1000000, NULL, NULL, '')`,
	`INSERT INTO mentions (post, mentioned) VALUES (2097152000, 2), (2097152002, 1)`,
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
	`INSERT INTO conversation_messages (conversation, number, author, body, sent_at, recalled_at) VALUES (5, 1, 1, 'mine', 1000000, 0), (5, 2, 2, 'his', 1000000, 0)`,
	`INSERT INTO conversation_mentions (conversation, user_number, number) VALUES (5, 1, 2)`,
	`INSERT INTO devices (hash, user_number, endpoint, service, p256dh, auth, vapid, name, silent, registered_at, seen_at, has, heard, want, due_at, attempts, first_at, dead_at, delivered_at, error)
		VALUES ('h', 1, 'https://push.example/1', 'push.example', 'p', 'a', 'v', 'phone', TRUE, 1000000, 2000000, 0, 0, 0, 0, 0, 0, 0, 3000000, '')`,
	`INSERT INTO refs (type, object, ref, owner, url, data) VALUES ('post', 2097152000, 'a/1', 1, 'https://example.com/1', '[1]'), ('show', 2097152000, 's/1', 1, '', ''),
		('conversation', 5, 'c/1', 1, '', ''), ('message', 10737418241, '', 1, '', '[2]'), ('post', 2097152002, 'b/1', 2, '', ''), ('announcement', 1, 'n/1', 0, '', '')`,
	`INSERT INTO conversation_leases (conversation, user_number, device, until_at) VALUES (5, 1, 'phone', 1000000)`,
}

const exportedLife = `{"type":"profile","user":"user:ann","name":"Ann \"A\"","avatarUrl":"","updatedAt":"1970-01-01T00:00:01.000001Z","seenAt":"1970-01-01T00:00:02Z","visitBefore":null}
{"type":"follow","user":"user:bob","since":"1970-01-01T00:00:01Z","shown":true}
{"type":"pastFollow","user":"user:bob","until":"1970-01-01T00:00:01Z"}
{"type":"followers","count":1}
{"type":"mute","user":"user:bob","at":"1970-01-01T00:00:01Z","until":null}
{"type":"block","user":"user:bob","at":"1970-01-01T00:00:01Z"}
{"type":"hide","user":"user:bob","at":"1970-01-01T00:00:01Z"}
{"type":"author","followers":7,"countedAt":"1970-01-01T00:00:01Z","mode":1,"pinned":null}
{"type":"post","id":"post:0000001YG0000","publishedAt":"1970-01-01T00:00:01Z","key":"p1","kind":"POST","parent":null,"body":"a \"body\"","updatedAt":"1970-01-01T00:00:02Z","editedAt":"1970-01-01T00:00:02Z","deletedAt":null}
{"type":"post","id":"post:0000001YG0001","publishedAt":"1970-01-01T00:00:01Z","key":"","kind":"COMMENT","parent":"post:0000001YG0000","body":"gone","updatedAt":"1970-01-01T00:00:01Z","editedAt":null,"deletedAt":"1970-01-01T00:00:03Z"}
{"type":"mention","post":"post:0000001YG0000","user":"user:bob"}
{"type":"like","post":"post:0000001YG0002","at":"1970-01-01T00:00:01Z"}
{"type":"show","id":"show:0000001YG0000","key":"s1","title":"Evening","coverUrl":"","replayUrl":"https://example.com/r","status":"REPLAY","plannedAt":"1970-01-01T00:00:01Z","startedAt":"1970-01-01T00:00:01Z","endedAt":"1970-01-01T00:00:02Z","cancelledAt":null,"updatedAt":"1970-01-01T00:00:02.000001Z"}
{"type":"reminder","show":"show:0000001YG0001","at":"1970-01-01T00:00:01Z"}
{"type":"notification","id":"notification:0000000000001","category":"LIKE","post":"post:0000001YG0000","show":null,"user":"user:bob","answer":null,"at":"1970-01-01T00:00:01Z","standing":true,"seen":true,"read":false}
{"type":"notification","id":"notification:0000000000002","category":"FOLLOW","post":null,"show":null,"user":"user:bob","answer":null,"at":"1970-01-01T00:00:01Z","standing":false,"seen":false,"read":false}
{"type":"notification","id":"notification:0000000000003","category":"REMINDER","post":null,"show":"show:0000001YG0001","user":"user:bob","answer":null,"at":"1970-01-01T00:00:01Z","standing":true,"seen":false,"read":false}
{"type":"notification","id":"notification:0000000000004","category":"orders","post":null,"show":null,"user":"user:bob","answer":null,"at":"1970-01-01T00:00:01Z","standing":true,"seen":false,"read":false}
{"type":"hostNotification","id":"notification:0000000000004","category":"orders","title":"Sent","body":"It is on its way","groupKey":"o1","url":"https://example.com/o1","data":[3],"user":"user:bob","at":"1970-01-01T00:00:01Z"}
{"type":"notificationMark","category":"LIKE","seenUpTo":"notificationUpTo:0000000000001"}
{"type":"categoryPreferences","preferences":{"LIKE":{"mode":"DOT","push":false}}}
{"type":"position","view":"home_page","id":"","position":"9007199254740993","accessedAt":"1970-01-01T00:00:01Z"}
{"type":"siteMessage","id":"siteMessage:0000001YG0000","kind":"general","title":"Hello","content":"text","sentAt":"1970-01-01T00:00:01Z","updatedAt":"1970-01-01T00:00:01Z","readAt":null}
{"type":"announcementMark","readUpTo":"1970-01-01T00:00:01Z","dotsFrom":"1970-01-01T00:00:02Z"}
{"type":"dot","name":"shop","clearedAt":"1970-01-01T00:00:01Z"}
{"type":"segment","name":"staff"}
{"type":"segment","name":"last"}
{"type":"displayPolicy","outOfTotal":["HOME_FEED","NOTIFICATIONS","VIEWS"],"asDot":[],"quietFrom":60,"quietTo":120,"offsetEast":-30}
{"type":"groupPolicy","policy":"NOBODY"}
{"type":"conversation","id":"conversation:5","kind":"GROUP","title":"us","joinedAt":"1970-01-01T00:00:01Z","leftAt":null,"muted":true,"readUpTo":1,"mentions":1}
{"type":"message","conversation":"conversation:5","number":1,"body":"mine","sentAt":"1970-01-01T00:00:01Z","recalledAt":null}
{"type":"messageMention","conversation":"conversation:5","number":2}
{"type":"device","conversation":"conversation:5","device":"phone","insideUntil":"1970-01-01T00:00:01Z"}
{"type":"postLabel","post":"post:0000001YG0000","ref":"a/1","url":"https://example.com/1","data":[1]}
{"type":"showLabel","show":"show:0000001YG0000","ref":"s/1","url":"","data":null}
{"type":"conversationLabel","conversation":"conversation:5","ref":"c/1","url":"","data":null}
{"type":"messageLabel","message":"message:000000A000001","ref":"","url":"","data":[2]}
{"type":"pushDevice","name":"phone","endpoint":"https://push.example/1","silent":true,"registeredAt":"1970-01-01T00:00:01Z","lastRegisteredAt":"1970-01-01T00:00:02Z","deliveredAt":"1970-01-01T00:00:03Z"}
`

// makePosts makes posts of the first user.
func makePosts(b *peopletest.Bundle, ids ...services.PostID) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		for _, id := range ids {
			err := exec(b.Ctx, tx, fmt.Sprintf("INSERT INTO posts (id, author, kind, body, updated_at) VALUES (%d, 1, 'POST', 'b', %d)", id, id))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func exported(b *peopletest.Bundle, user services.UserID) string {
	b.T.Helper()
	var text strings.Builder
	err := export.Write(b.Ctx, b.DB, user, node.Exports, func(line []byte) error {
		if !json.Valid(line) {
			b.T.Errorf("not JSON: %s", line)
		}
		text.Write(line)
		return nil
	})
	if err != nil {
		b.T.Fatal(err)
	}
	return text.String()
}

// The export of a user contains everything about that user, the same on both engines, and nothing that other users did.
func TestExport(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		b.MakeUsers("ann", "bob")
		b.MustWrite(func(tx *sql.Tx) error {
			for _, statement := range life {
				if _, err := tx.Lines(b.Ctx, statement); err != nil {
					return fmt.Errorf("%.60s: %w", statement, err)
				}
			}
			_, err := tx.Lines(b.Ctx, `INSERT INTO category_preferences (user_number, ver, preferences) VALUES (1, 1, $1)`, `{"LIKE":{"mode":"DOT","push":false}}`)
			return err
		})
		sqltest.Equal(b.T, strings.Split(exported(b, 1), "\n"), strings.Split(exportedLife, "\n"))
		if text := exported(b, 2); strings.Contains(text, "mine") || !strings.Contains(text, "his") || !strings.Contains(text, `"leftAt":"1970-01-01T00:00:02Z"`) {
			b.T.Errorf("of bob:\n%s", text)
		}
	})
}

// An error of emit stops the reading.
func TestExportEndsWhenItIsRefused(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		b.MakeUsers("ann")
		makePosts(b, 1, 2, 3)
		full := errors.New("the disk is full")
		lines := 0
		err := export.Write(b.Ctx, b.DB, 1, node.Exports, func([]byte) error {
			if lines++; lines == 4 {
				return full
			}
			return nil
		})
		if err != full || lines != 4 {
			b.T.Errorf("%d lines, %v", lines, err)
		}
	})
}

// notExported are the tables that add nothing about a user, with the reason.
var notExported = map[string]string{
	"announcements": "everybody's", "hosts": "versions", "show_history": "where shows stood, for hours", "announcement_segments": "everybody's", "audit": "the program's", "cleaner": "the program's", "counters": "the program's",
	"dead_jobs": "work", "dot_raises": "everybody's", "erasures": "what nobody is told", "fanout_thresholds": "the program's", "fanouts": "work", "goose_db_version": "the program's",
	"idempotency": "hashes of requests, for a day", "imports": "the program's", "jobs": "work", "log": "everybody's, for an hour", "log_heads": "the program's",
	"acts": "what operators did", "activity_thresholds": "the program's", "stream_head": "the program's", "stream_due": "work", "stream_changes": "the badges, which the facts make", "nodes": "the program's", "post_counts": "counts of likes and posts", "notification_heads": "sums of the causes", "site_message_gens": "versions", "site_message_state": "versions", "sqlite_sequence": "the engine's", "view_items": "everybody's",
	"notification_categories": "everybody's", "webhooks": "the program's", "webhook_letters": "work", "device_readers": "the program's",
	"view_changes": "versions", "view_readers": "versions",
}

// Every table is either exported or listed as not exported, so that each new table needs a decision.
func TestEveryTableIsExportedOrNot(t *testing.T) {
	b := peopletest.NewBundle(t, sqltest.SQLite(t))
	var tables []string
	b.MustWrite(func(tx *sql.Tx) (err error) {
		tables, err = tx.Lines(b.Ctx, `SELECT name FROM sqlite_master WHERE type = 'table'`)
		return err
	})
	var texts string
	for _, kind := range node.Exports {
		texts += kind.Statement.Text(sql.SQLite) + "\n"
	}
	for _, table := range tables {
		_, left := notExported[table]
		if read := regexp.MustCompile(`\b` + table + `\b`).MatchString(texts); read == left {
			t.Errorf("the table %s: read by an export %v, left out %v: it is to be in the Exports of its feature, or in this test with the reason", table, read, left)
		}
	}
	if len(tables) < 30 {
		t.Errorf("there are only %v", tables)
	}
}

// The memory of an export does not grow with its output: each line is emitted before the next one is read.
func TestExportStreams(t *testing.T) {
	peopletest.EachBundle(t, func(b *peopletest.Bundle) {
		b.MakeUsers("ann")
		var ids []services.PostID
		for i := range 3000 {
			ids = append(ids, services.PostIDAt(time.UnixMilli(int64(i+1))))
		}
		makePosts(b, ids...)
		lines := 0
		err := export.Write(b.Ctx, b.DB, 1, node.Exports, func(line []byte) error {
			if strings.HasPrefix(string(line), `{"type":"post"`) {
				lines++
			}
			return nil
		})
		if err != nil || lines != 3000 {
			b.T.Errorf("%d posts, %v", lines, err)
		}
	})
}
