package node_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/export"
	"tidings/services/export/exporttest"
	"tidings/services/node"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// expectedExport is the export of the user whose life exporttest.InsertFullUser writes. expectedOutOfTotal stands for OUT_OF_TOTAL.
const expectedExport = `{"type":"profile","user":"user:ann","name":"Ann \"A\"","avatarUrl":"","updatedAt":"1970-01-01T00:00:01.000001Z","seenAt":"1970-01-01T00:00:02Z","visitBefore":null}
{"type":"follow","user":"user:bob","since":"1970-01-01T00:00:01Z","shown":false,"mode":"LIVE_ONLY"}
{"type":"pastFollow","user":"user:bob","until":"1970-01-01T00:00:01Z"}
{"type":"followers","count":1}
{"type":"mute","user":"user:bob","at":"1970-01-01T00:00:01Z","until":null}
{"type":"block","user":"user:bob","at":"1970-01-01T00:00:01Z"}
{"type":"hide","user":"user:bob","at":"1970-01-01T00:00:01Z"}
{"type":"author","followers":7,"countedAt":"1970-01-01T00:00:01Z","mode":1,"pinned":null}
{"type":"post","id":"post:0000001YG0000","publishedAt":"1970-01-01T00:00:01Z","key":"p1","kind":"POST","parent":null,"body":"a \"body\"","updatedAt":"1970-01-01T00:00:02Z","editedAt":"1970-01-01T00:00:02Z","deletedAt":null}
{"type":"post","id":"post:0000001YG0001","publishedAt":"1970-01-01T00:00:01Z","key":"","kind":"COMMENT","parent":"post:0000001YG0000","body":"gone","updatedAt":"1970-01-01T00:00:01Z","editedAt":null,"deletedAt":"1970-01-01T00:00:03Z"}
{"type":"mention","post":"post:0000001YG0000","user":"user:bob","at":"1970-01-01T00:00:02Z"}
{"type":"mention","post":"post:0000001YG0001","user":"user:bob","at":"1970-01-01T00:00:01Z"}
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
{"type":"siteMessage","id":"siteMessage:0000001YG0000","kind":"general","title":"Hello","content":"text","url":"https://example.com/m1","data":[4],"sentAt":"1970-01-01T00:00:01Z","updatedAt":"1970-01-01T00:00:01Z","readAt":null}
{"type":"announcementMark","readUpTo":"1970-01-01T00:00:01Z","dotsFrom":"1970-01-01T00:00:02Z"}
{"type":"dot","name":"shop","clearedAt":"1970-01-01T00:00:01Z"}
{"type":"segment","name":"staff"}
{"type":"segment","name":"last"}
{"type":"displayPolicy","inTotal":["ANNOUNCEMENTS","CONVERSATIONS","LIVE_BOARD","SITE_MESSAGES"],"outOfTotal":OUT_OF_TOTAL,"asDot":[],"quietFrom":60,"quietTo":120,"offsetEast":-30}
{"type":"groupPolicy","policy":"NOBODY"}
{"type":"conversation","id":"conversation:0000005","kind":"GROUP","title":"us","joinedAt":"1970-01-01T00:00:01Z","leftAt":null,"muted":true,"readUpTo":1,"mentions":1}
{"type":"message","conversation":"conversation:0000005","number":1,"body":"mine","sentAt":"1970-01-01T00:00:01Z","recalledAt":null}
{"type":"mentionInMessage","conversation":"conversation:0000005","number":1,"user":"user:bob"}
{"type":"messageMention","conversation":"conversation:0000005","number":2}
{"type":"device","conversation":"conversation:0000005","device":"phone","insideUntil":"1970-01-01T00:00:01Z"}
{"type":"postLabel","post":"post:0000001YG0000","ref":"a/1","url":"https://example.com/1","data":[1]}
{"type":"showLabel","show":"show:0000001YG0000","ref":"s/1","url":"","data":null}
{"type":"conversationLabel","conversation":"conversation:0000005","ref":"c/1","url":"","data":null}
{"type":"messageLabel","message":"message:000000A000001","ref":"","url":"","data":[2]}
{"type":"pushDevice","name":"phone","endpoint":"https://push.example/1","silent":true,"registeredAt":"1970-01-01T00:00:01Z","lastRegisteredAt":"1970-01-01T00:00:02Z","deliveredAt":"1970-01-01T00:00:03Z"}
`

// expectedOutOfTotal is the JSON of the sources that the user of InsertFullUser has out of the total: two by choice, the others by default.
func expectedOutOfTotal(t *testing.T) string {
	t.Helper()
	out := []services.Source{services.SourceHomeFeed, services.SourceNotifications}
	for _, source := range services.Sources {
		if !source.InTotalByDefault() {
			out = append(out, source)
		}
	}
	slices.Sort(out)
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// makePosts inserts posts of the user with the ID 1.
func makePosts(b *peopletest.TestDB, ids ...services.PostID) {
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

// exportText is the whole export of a user.
func exportText(b *peopletest.TestDB, user services.UserID) string {
	b.T.Helper()
	var text strings.Builder
	err := export.Write(b.Ctx, b.DB, user, node.AllExportKinds, func(line []byte) error {
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
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		b.MakeUsers("ann", "bob")
		b.MustWrite(func(tx *sql.Tx) error { return exporttest.InsertFullUser(b.Ctx, tx) })
		sqltest.Equal(b.T, strings.Split(exportText(b, 1), "\n"), strings.Split(strings.Replace(expectedExport, "OUT_OF_TOTAL", expectedOutOfTotal(b.T), 1), "\n"))
		if text := exportText(b, 2); strings.Contains(text, "mine") || !strings.Contains(text, "theirs") || !strings.Contains(text, `"leftAt":"1970-01-01T00:00:02Z"`) {
			b.T.Errorf("of bob:\n%s", text)
		}
	})
}

// The export of a follower tells a mute of their own, and not that an author hides from them.
func TestAnExportOmitsHidesByOthers(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		b.MakeUsers("ann", "bob", "carol")
		b.MustWrite(func(tx *sql.Tx) error {
			return errors.Join(
				exec(b.Ctx, tx, "INSERT INTO follows (follower, followee, since, shown) VALUES (1, 2, 1, FALSE), (1, 3, 1, FALSE)"),
				exec(b.Ctx, tx, "INSERT INTO hides (author, follower, made) VALUES (2, 1, 1)"),
				exec(b.Ctx, tx, "INSERT INTO mutes (muter, muted, made, until) VALUES (1, 3, 1, 0)"))
		})
		text := exportText(b, 1)
		for key, shown := range map[string]bool{"bob": true, "carol": false} {
			line := fmt.Sprintf(`{"type":"follow","user":"user:%s","since":"1970-01-01T00:00:00Z","shown":%t,`, key, shown)
			if !strings.Contains(text, line) || strings.Contains(text, "hide") {
				b.T.Errorf("there is no %s in\n%s", line, text)
			}
		}
	})
}

// An error of the function that takes the lines stops the reading.
func TestExportEndsWhenItIsRefused(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		b.MakeUsers("ann")
		makePosts(b, 1, 2, 3)
		full := errors.New("the disk is full")
		lines := 0
		err := export.Write(b.Ctx, b.DB, 1, node.AllExportKinds, func([]byte) error {
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

// tablesNotExported are the tables that add nothing about a user, with the reason.
var tablesNotExported = map[string]string{
	"announcements": "everybody's", "hosts": "versions", "show_history": "where shows stood, for hours", "follow_gaps": "from when and until when boards lacked a host, also one who hid, for hours", "announcement_segments": "everybody's", "audit": "the program's", "cleaner": "the program's", "counters": "the program's",
	"dead_jobs": "work", "dot_raises": "everybody's", "erasures": "shown to nobody", "fanout_thresholds": "the program's", "fanouts": "work", "goose_db_version": "the program's",
	"idempotency": "hashes of requests, for a day", "imports": "the program's", "jobs": "work", "log": "everybody's, for an hour", "log_heads": "the program's",
	"acts": "what operators did", "activity_thresholds": "the program's", "stream_head": "the program's", "stream_due": "work", "stream_changes": "the badges, which the facts make", "nodes": "the program's", "post_counts": "counts of likes and posts", "notification_heads": "sums of the causes", "site_message_gens": "versions", "site_message_state": "versions", "sqlite_sequence": "the engine's", "view_items": "everybody's",
	"notification_categories": "everybody's", "webhooks": "the program's", "webhook_letters": "work", "device_readers": "the program's",
	"view_changes": "versions", "view_readers": "versions",
}

// Every table is either exported or listed as not exported, so that each new table needs a decision.
func TestEveryTableIsExportedOrNot(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	var tables []string
	b.MustWrite(func(tx *sql.Tx) (err error) {
		tables, err = sqltest.QueryLines(b.Ctx, tx, `SELECT name FROM sqlite_master WHERE type = 'table'`)
		return err
	})
	var texts string
	for _, kind := range node.AllExportKinds {
		texts += kind.FirstLinesStatement.Text(sql.SQLite) + "\n"
	}
	for _, table := range tables {
		_, left := tablesNotExported[table]
		if read := regexp.MustCompile(`\b` + table + `\b`).MatchString(texts); read == left {
			t.Errorf("the table %s: read by an export %v, left out %v: it is to be in the Exports of its feature, or in this test with the reason", table, read, left)
		}
	}
	if len(tables) < 30 {
		t.Errorf("there are only %v", tables)
	}
}

// An export of many lines emits each of them.
func TestExportStreams(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		b.MakeUsers("ann")
		var ids []services.PostID
		for i := range 3000 {
			ids = append(ids, services.PostID(services.SortableIDAt(time.UnixMilli(int64(i+1)))))
		}
		makePosts(b, ids...)
		lines := 0
		err := export.Write(b.Ctx, b.DB, 1, node.AllExportKinds, func(line []byte) error {
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

// readExportPages walks an export in pages of a size. between is called before each page but the first.
func readExportPages(b *peopletest.TestDB, user services.UserID, size int, between func(page int)) (lines []export.Line) {
	b.T.Helper()
	reader := export.Reader{DB: b.DB, Kinds: node.AllExportKinds}
	after := ""
	for page := 0; ; page++ {
		if page > 0 {
			between(page)
		}
		if page > 1000 {
			b.T.Fatal("the export does not end")
		}
		found, more, err := reader.Page(b.Ctx, user, after, size)
		if err != nil {
			b.T.Fatal(err)
		}
		if len(found) > size || len(found) == 0 || more && len(found) < size {
			b.T.Fatalf("%d lines on a page of %d, more %v", len(found), size, more)
		}
		lines = append(lines, found...)
		if after = found[len(found)-1].Position; !more {
			return lines
		}
	}
}

func textOf(lines []export.Line) (text string) {
	for _, line := range lines {
		text += line.Text + "\n"
	}
	return text
}

// The pages of an export, of any size, together equal the output of Write, with lines of every kind.
func TestPagesOfAnExport(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		b.MakeUsers("ann", "bob")
		b.MustWrite(func(tx *sql.Tx) error { return exporttest.InsertFullUser(b.Ctx, tx) })
		for _, size := range []int{1, 2, 3, 7, 1000} {
			for user := services.UserID(1); user <= 2; user++ {
				sqltest.Equal(b.T, textOf(readExportPages(b, user, size, func(int) {})), exportText(b, user))
			}
		}
		seen := map[string]bool{}
		for _, line := range readExportPages(b, 1, 1000, nil) {
			seen[line.Type] = true
		}
		if len(seen) != len(node.AllExportKinds) {
			b.T.Errorf("%d kinds of %d have lines: a new kind is to be in exporttest.InsertFullUser", len(seen), len(node.AllExportKinds))
		}
	})
}

// While an export is read by pages, other lines are added and removed: each line that exists throughout is returned once.
func TestExportPagesReturnEachLastingLineOnce(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		b.MakeUsers("ann")
		var kept []services.PostID
		for i := range 60 {
			kept = append(kept, services.PostID(1000+10*i))
		}
		makePosts(b, kept...)
		goes := services.PostID(1001)
		makePosts(b, goes)
		lines := readExportPages(b, 1, 7, func(page int) {
			// One of these posts is on an earlier page, and the other may be on a later one.
			makePosts(b, services.PostID(2+page), services.PostID(1003+60*page))
			b.MustWrite(func(tx *sql.Tx) error {
				return exec(b.Ctx, tx, fmt.Sprintf("DELETE FROM posts WHERE id = %d", goes))
			})
		})
		found := map[string]int{}
		for _, line := range lines {
			found[line.Text]++
			if found[line.Text] > 1 {
				b.T.Errorf("twice: %s", line.Text)
			}
		}
		for _, post := range kept {
			id := services.GlobalID(services.PostType, post.String())
			if !strings.Contains(textOf(lines), id) {
				b.T.Errorf("%s is missing", id)
			}
		}
	})
}

// A page of long lines ends before it is too long for an answer, with at least one line.
func TestPagesOfLongLines(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		b.MakeUsers("ann")
		b.MustWrite(func(tx *sql.Tx) error {
			for id := range 30 {
				if _, err := sqltest.QueryLines(b.Ctx, tx, "INSERT INTO posts (id, author, kind, body, updated_at) VALUES ($1, 1, 'POST', $2, 1)", 1000+id, strings.Repeat("x", 100_000)); err != nil {
					return err
				}
			}
			return nil
		})
		reader := export.Reader{DB: b.DB, Kinds: node.AllExportKinds}
		all, after := "", ""
		for count := 1; ; count++ {
			lines, more, err := reader.Page(b.Ctx, 1, after, 1000)
			if err != nil || len(lines) == 0 || len(textOf(lines)) > 1<<20+200_000 {
				b.T.Fatalf("%d lines of %d bytes, %v", len(lines), len(textOf(lines)), err)
			}
			all, after = all+textOf(lines), lines[len(lines)-1].Position
			if !more {
				if count != 3 {
					b.T.Errorf("%d pages, want 3", count)
				}
				break
			}
		}
		sqltest.Equal(b.T, all, exportText(b, 1))
	})
}

// An invalid position is refused, and a valid one is not.
func TestPositionsOfAnExport(t *testing.T) {
	b := peopletest.NewTestDB(t, sqltest.SQLite(t))
	b.MakeUsers("ann")
	reader := export.Reader{DB: b.DB, Kinds: node.AllExportKinds}
	for _, text := range []string{
		"x", "{}", "[]", "null", "[1]", `["nothing"]`, `["post"]`, `["post","1"]`, `["post",1.5]`, `["post",99999999999999999999]`, `["post",1,2]`, `["post",null]`, `["profile",1]`,
		`["post",1] ` + "x", `["post",1][]`, `["dot",1]`, `["dot","a\u0000"]`, `["position","a"]`, `["post",[1]]`, `["post",true]`,
	} {
		_, _, err := reader.Page(b.Ctx, 1, text, 10)
		sqltest.WantCode(t, err, services.Invalid)
	}
	for _, text := range []string{`["profile"]`, `["post",1]`, `["post",-1]`, `["dot",""]`, `["position","a","b"]`, `["pushDevice",9223372036854775807,"x"]`} {
		if _, _, err := reader.Page(b.Ctx, 1, text, 10); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
