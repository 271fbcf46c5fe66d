package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// countLeaverInFiles counts the occurrences of the leaver's key and texts in SQLite's files, by file. The leaver is the user who is
// erased.
func countLeaverInFiles(n *world.Node, url string) map[string]int {
	n.TB.Helper()
	found := map[string]int{}
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		content, err := os.ReadFile(strings.TrimPrefix(url, "sqlite:") + end)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.TB.Fatal(err)
		}
		for _, name := range []string{leaverKey, leaverTextMarker} {
			if count := bytes.Count(content, []byte(name)); count > 0 {
				found["tidings.db"+end] += count
			}
		}
	}
	return found
}

// addAndChangeLongTexts adds long texts of the leaver and of another user to each table that has texts, changes them, and deletes
// some. So pages of SQLite's file are split, freed and used again, as over years of use.
func addAndChangeLongTexts(l *randomActors) {
	n := l.node
	n.TB.Helper()
	long := func(person string, i int) string {
		return strings.Repeat(l.newText(person)+" ", 1+(i*i*7)%220)
	}
	var talk struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	n.MustAsk(leaverKey, `mutation{createConversation(input:{kind:GROUP,memberIds:["user:ann","user:bob"]}){conversation{id}}}`, nil, &talk)
	for i := range 60 {
		for _, person := range []string{leaverKey, "ann"} {
			text := long(person, i)
			var made struct {
				P struct{ Post struct{ ID string } }
				M struct{ Message struct{ ID string } }
			}
			n.MustAsk(person+":ingest,viewer", `mutation($t:String!,$d:JSON!,$c:ID!,$k:String!){p:publishPost(input:{body:$t,data:$d,ref:$k,idempotencyKey:$k}){post{id}}
				m:sendMessage(input:{conversationId:$c,body:$t,data:$d}){message{id}} scheduleShow(input:{title:$k,plannedAt:"`+n.Clock.Now().Add(time.Hour).Format(time.RFC3339)+`",data:$d}){show{id}}
				setProfile(input:{name:$k}){__typename}}`, map[string]any{
				"t": text, "d": map[string]any{"v": text[:min(len(text), 3000)]}, "c": talk.CreateConversation.Conversation.ID, "k": fmt.Sprintf("%s %d", l.newText(person), i),
			}, &made)
			switch i % 3 {
			case 0:
				n.MustAsk(person, `mutation($p:ID!,$m:ID!){deletePost(input:{postId:$p}){__typename} recallMessage(input:{messageId:$m}){__typename}}`,
					map[string]any{"p": made.P.Post.ID, "m": made.M.Message.ID}, nil)
			case 1:
				n.MustAsk(person, `mutation($p:ID!,$t:String!){editPost(input:{postId:$p,body:$t}){__typename}}`,
					map[string]any{"p": made.P.Post.ID, "t": long(person, i+31)}, nil)
			}
			n.MustAsk("host:ingest", `mutation($u:ID!,$t:String!,$d:JSON!){notify(input:{category:"orders",title:$t,body:$t,data:$d,to:[$u]}){created}}`,
				map[string]any{"u": "user:" + person, "t": l.newText(person), "d": map[string]any{"v": text[:min(len(text), 3000)]}}, nil)
		}
	}
	err := n.DB.Write(n.TB.Context(), func(tx *sql.Tx) error {
		_, err := sqltest.QueryLines(n.TB.Context(), tx, fmt.Sprintf(`INSERT INTO devices (hash, user_number, endpoint, service, p256dh, auth, vapid, name, silent, registered_at, seen_at, has, heard, want,
			due_at, attempts, first_at, dead_at, delivered_at, error) VALUES ('%[1]s', %[2]d, 'https://push.example/%[1]s', 'push.example', 'p', 'a', 'v', '%[1]s', TRUE, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 'no')`, leaverTextMarker, leaverID))
		return err
	})
	if err != nil {
		n.TB.Fatal(err)
	}
	n.SettleJobsAndCaches()
}

// After an erasure, SQLite's files have no bytes of the person's key or texts, including texts that were changed or deleted
// before. The database is intact, and has everybody else's rows.
func TestErasureLeavesNothingInTheFiles(t *testing.T) {
	server, url := redistest.NewServer(t), sqltest.SQLite(t)
	n := world.StartNode(t, world.NodeOptions{Database: url, Redis: server.URL(), ManualStepping: true, ChangeConfig: withChangeStream(24 * time.Hour)})
	l := runEveryMutation(n, 1)
	addAndChangeLongTexts(l)
	insertExtraLeaverRows(n)
	others := queryRows(n, `SELECT id, body FROM posts WHERE author = (SELECT number FROM users WHERE key = 'ann') ORDER BY id`)
	if before := countLeaverInFiles(n, url); before["tidings.db-wal"] < 1000 || before["tidings.db"]+before["tidings.db-wal"] < 5000 || len(others) < 40 {
		t.Fatalf("the leaver is in the files %v times, beside %d posts of ann: the test proves little", before, len(others))
	}
	erasure := eraseLeaver(n)
	n.SettleJobsAndCaches()
	if shown := readErasure(n, erasure.Name); shown.State != "DONE" {
		t.Fatalf("%+v", shown)
	}
	if found := countLeaverInFiles(n, url); len(found) > 0 {
		t.Errorf("the leaver is in the files: %v", found)
	}
	if state := queryRows(n, `PRAGMA integrity_check`); len(state) != 1 || state[0] != "ok" {
		t.Errorf("the file is %q", state)
	}
	if after := queryRows(n, `SELECT id, body FROM posts WHERE author = (SELECT number FROM users WHERE key = 'ann') ORDER BY id`); strings.Join(after, "\n") != strings.Join(others, "\n") {
		t.Errorf("ann has %d posts, before %d", len(after), len(others))
	}
	l.wantCorrectCounts()
}

// queryRows runs a statement and returns its rows as texts.
func queryRows(n *world.Node, text string) []string {
	n.TB.Helper()
	rows, err := sqltest.QueryLines(n.TB.Context(), n.DB, text)
	if err != nil {
		n.TB.Fatal(err)
	}
	return rows
}
