package contract

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services/command"
	"tidings/services/export/exporttest"
	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

const exportQuery = `query($u:ID!,$n:Int,$a:String){admin{export(userId:$u,first:$n,after:$a){list{type text} cursor hasMore}}}`

// exportPage is a page of an export, as exportQuery returns it.
type exportPage struct {
	List    []struct{ Type, Text string }
	Cursor  *string
	HasMore bool
}

// readExportPage reads one page; after is nil for the first.
func readExportPage(n *world.Node, user string, size int, after *string) exportPage {
	n.TB.Helper()
	var data struct{ Admin struct{ Export exportPage } }
	n.MustAsk("boss:admin", exportQuery, map[string]any{"u": user, "n": size, "a": after}, &data)
	return data.Admin.Export
}

// readWholeExport reads the whole export of a user in pages of this size. It returns the lines as one text, their types, and the
// number of pages.
func readWholeExport(n *world.Node, user string, size int) (text string, types map[string]bool, pages int) {
	n.TB.Helper()
	types = map[string]bool{}
	seen := map[string]bool{}
	var after *string
	for {
		part := readExportPage(n, user, size, after)
		for _, line := range part.List {
			text += line.Text + "\n"
			types[line.Type] = true
		}
		pages++
		if after = part.Cursor; !part.HasMore {
			return text, types, pages
		}
		if len(part.List) != size {
			n.TB.Fatalf("%d lines on a page of %d with further ones", len(part.List), size)
		}
		if after == nil || seen[*after] {
			n.TB.Fatalf("page %d of the export of %s has further ones after a cursor that came before", pages, user)
		}
		seen[*after] = true
	}
}

// startNodeWithFullExport starts a node on which alice, the first user, has a line of every kind in their export.
func startNodeWithFullExport(t *testing.T, database string) *world.Node {
	t.Helper()
	n := world.StartNode(t, world.NodeOptions{Database: database, Redis: redistest.Redis(t), ManualStepping: true})
	if err := n.DB.Write(t.Context(), func(tx *sql.Tx) error { return exporttest.InsertFullUser(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
	return n
}

// runExportCommand returns the output of `tidings export` for a user.
func runExportCommand(t *testing.T, database, key string) string {
	t.Helper()
	var out, faults bytes.Buffer
	none := func(string) string { return "" }
	if exit := command.Run(t.Context(), []string{"export", key, "--database", database}, none, &out, &faults); exit != 0 {
		t.Fatalf("exit code %d: %s", exit, faults.String())
	}
	return out.String()
}

// The query returns the same bytes as the command, in pages of any size, with lines of every kind. The node stops before the
// command runs, because on SQLite the command needs a stopped server.
func TestExportQueryEqualsExportCommand(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		n := startNodeWithFullExport(t, url)
		walked := map[string][]string{}
		for _, key := range []string{"alice", "bob"} {
			for _, size := range []int{1, 2, 1000} {
				text, types, pages := readWholeExport(n, "user:"+key, size)
				walked[key] = append(walked[key], text)
				if key == "alice" && len(types) != len(node.AllExportKinds) {
					t.Errorf("%d kinds of lines, want %d", len(types), len(node.AllExportKinds))
				}
				if lines := strings.Count(text, "\n"); pages != (lines+size-1)/size {
					t.Errorf("%d pages of %d for %d lines", pages, size, lines)
				}
			}
		}
		n.Stop()
		for key, texts := range walked {
			want := runExportCommand(t, url, key)
			for _, text := range texts {
				sqltest.Equal(t, strings.Split(text, "\n"), strings.Split(want, "\n"))
			}
		}
	})
}

// Only an operator can export. A bad argument is INVALID, and a missing user is NOT_FOUND and is not created.
func TestOnlyOperatorsExport(t *testing.T) {
	n := startNodeWithFullExport(t, sqltest.SQLite(t))
	aliceTo := readExportPage(n, "user:alice", 3, nil).Cursor
	position := func(text string) string { return (*aliceTo)[:18] + base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, c := range []struct {
		as, user string
		first    any
		after    any
		code     string
		words    string
	}{
		{"", "user:alice", 1, nil, "UNAUTHENTICATED", ""},
		{"alice", "user:alice", 1, nil, "FORBIDDEN", "scope admin"},
		{"alice", "user:bob", 1, nil, "FORBIDDEN", "scope admin"},
		{"host:ingest", "user:alice", 1, nil, "FORBIDDEN", "scope admin"},
		{"stranger", "user:nobody", 1, nil, "FORBIDDEN", "scope admin"},
		{"boss:admin", "user:nobody", 1, nil, "NOT_FOUND", `there is no user "nobody"`},
		{"boss:admin,ingest", "user:nobody", 1, nil, "NOT_FOUND", `there is no user "nobody"`},
		{"boss:admin", "alice", 1, nil, "INVALID", "userId"},
		{"boss:admin", "post:0000000000001", 1, nil, "INVALID", "userId"},
		{"boss:admin", "user:alice", 0, nil, "INVALID", "first: 1 to 1000 are allowed, got 0"},
		{"boss:admin", "user:alice", -1, nil, "INVALID", "first: 1 to 1000 are allowed, got -1"},
		{"boss:admin", "user:alice", 1001, nil, "INVALID", "first: 1 to 1000 are allowed, got 1001"},
		{"boss:admin", "user:bob", 1, *aliceTo, "INVALID", "after: the cursor is another user's"},
		{"boss:admin", "user:alice", 1, "", "INVALID", "is not a cursor of the export"},
		{"boss:admin", "user:alice", 1, "rubbish", "INVALID", "is not a cursor of the export"},
		{"boss:admin", "user:alice", 1, (*aliceTo)[:18], "INVALID", "is not a cursor of the export"},
		{"boss:admin", "user:alice", 1, *aliceTo + "!", "INVALID", "is not a cursor of the export"},
		{"boss:admin", "user:alice", 1, position(`["nothing",1]`), "INVALID", "is not a cursor of the export"},
		{"boss:admin", "user:alice", 1, position(`["dot","\u0000"]`), "INVALID", "is not a cursor of the export"},
		{"boss:admin", "user:alice", 1, position(`["profile"]`), "", ""},
		{"boss:admin", "user:alice", 1000, nil, "", ""},
		{"boss:admin", "user:alice", nil, *aliceTo, "", ""},
	} {
		got := n.Ask(c.as, exportQuery, map[string]any{"u": c.user, "n": c.first, "a": c.after})
		if got.ErrorCode() != c.code || c.code != "" && !strings.Contains(got.Errors[0].Message, c.words) {
			t.Errorf("%s exports %s, first %v, after %v: %s %+v, want %s", c.as, c.user, c.first, c.after, got.ErrorCode(), got.Errors, c.code)
		}
		if c.code != "" && strings.Contains(string(got.Data), "profile") {
			t.Errorf("%s got %s", c.as, got.Data)
		}
	}
	if count, err := sqltest.QueryLines(t.Context(), n.DB, "SELECT count(*) FROM users WHERE key = 'nobody'"); err != nil || count[0] != "0" {
		t.Errorf("%v users were made, %v", count, err)
	}
}

// An export refuses a cursor of another list, such as the acts, and the acts refuse a cursor of an export.
func TestExportsAndOtherListsRefuseEachOthersCursors(t *testing.T) {
	n := startNodeWithFullExport(t, sqltest.SQLite(t))
	readExportPage(n, "user:alice", 1, nil)
	var data struct {
		Admin struct{ Acts struct{ Cursor string } }
	}
	n.MustAsk("boss:admin", `{admin{acts(first:1){cursor}}}`, nil, &data)
	if got := n.Ask("boss:admin", exportQuery, map[string]any{"u": "user:alice", "a": data.Admin.Acts.Cursor}); got.ErrorCode() != "INVALID" {
		t.Errorf("%+v", got)
	}
	after := readExportPage(n, "user:alice", 1, nil).Cursor
	if got := n.Ask("boss:admin", `query($a:String){admin{acts(after:$a){hasMore}}}`, map[string]any{"a": *after}); got.ErrorCode() != "INVALID" {
		t.Errorf("%+v", got)
	}
}

// Each page that an operator requests is recorded as an act of the operator, also if it fails. Requests of others are not
// recorded.
func TestExportsAreRecordedAsActs(t *testing.T) {
	n := startNodeWithFullExport(t, sqltest.SQLite(t))
	after := readExportPage(n, "user:alice", 3, nil).Cursor
	readExportPage(n, "user:alice", 3, after)
	n.Ask("alice", exportQuery, map[string]any{"u": "user:alice"})
	n.Ask("boss:admin", exportQuery, map[string]any{"u": "user:nobody"})
	n.Ask("boss:admin", exportQuery, map[string]any{"u": "user:alice", "n": 5000})
	var got []string
	for _, act := range readAllActs(n, 100) {
		got = append(got, act.text())
	}
	sqltest.Equal(t, got, []string{
		"export FAILED|INVALID|boss|user:alice|from the start", "export FAILED|NOT_FOUND|boss||",
		"export DONE||boss|user:alice|further lines", "export DONE||boss|user:alice|from the start",
	})
}

// The cost limit of queries counts each requested line, also beyond a hundred.
func TestTheCostOfAnExport(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true, ChangeConfig: func(cfg *node.Config) { cfg.Requests.MaxQueryCost = 10_500 }})
	n.CreateUsers("ann")
	for query, code := range map[string]string{
		`{admin{export(userId:"user:ann",first:1000){list{type text} cursor hasMore}}}`:                                                "",
		`{admin{export(userId:"user:ann",first:100){list{text}} a:export(userId:"user:ann",first:100){list{text}}}}`:                   "",
		`{admin{export(userId:"user:ann",first:1000){list{type text}} a:export(userId:"user:ann",first:1000){list{type text}}}}`:       "INVALID",
		`{admin{export(userId:"user:ann",first:1000){list{type text}} a:export(userId:"user:ann",first:1){list{text}}}}`:               "INVALID",
		`{admin{export(userId:"user:ann",first:1000){list{text a:text}}}}`:                                                             "INVALID",
		`{admin{a:export(userId:"user:ann",first:1){cursor} b:export(userId:"user:ann",first:1){cursor} acts(first:1){list{action}}}}`: "",
		`{admin{` + repeatedExportFields(6) + `}}`:                                                                                     "INVALID",
	} {
		if got := n.Ask("boss:admin", query, nil); got.ErrorCode() != code {
			t.Errorf("%s: %s %+v, want %q", query, got.ErrorCode(), got.Errors, code)
		}
	}
}

// repeatedExportFields returns the fields of a query with count exports of one line each.
func repeatedExportFields(count int) (query string) {
	for i := range count {
		query += fmt.Sprintf(`e%d:export(userId:"user:ann",first:1){cursor} `, i)
	}
	return query
}

// As soon as an erasure of a user begins, nothing of the user can be exported, not even with an earlier cursor. A person who
// takes the key later is another user.
func TestErasedUsersAreNotExported(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t), ManualStepping: true})
	n.CreateUsers("ann", "bob")
	n.Follow("ann", "bob")
	n.Publish("ann", "canary")
	n.SettleJobsAndCaches()
	before := readExportPage(n, "user:ann", 2, nil)
	text, _, _ := readWholeExport(n, "user:ann", 1000)
	if !strings.Contains(text, "canary") || before.Cursor == nil {
		t.Fatal(text)
	}
	gone := func(when string) {
		t.Helper()
		for _, after := range []*string{nil, before.Cursor} {
			if got := n.Ask("boss:admin", exportQuery, map[string]any{"u": "user:ann", "a": after}); got.ErrorCode() != "NOT_FOUND" {
				t.Errorf("%s: %s %+v", when, got.Data, got.Errors)
			}
		}
	}
	var begun struct {
		EraseUser struct{ Erasure struct{ Name string } }
	}
	n.MustAsk("boss:admin", `mutation{eraseUser(input:{userId:"user:ann"}){erasure{name}}}`, nil, &begun)
	gone("at once")
	for rounds := 0; erasureState(n, begun.EraseUser.Erasure.Name) != "DONE"; rounds++ {
		if rounds > 100 {
			t.Fatal("the erasure does not end")
		}
		n.Clock.Advance(10 * time.Second)
		n.SettleJobsAndCaches()
	}
	var erased struct {
		Admin struct{ Acts struct{ List []recordedAct } }
	}
	n.MustAsk("boss:admin", `{admin{acts(first:100){list{at actor action target details outcome code}}}}`, nil, &erased)
	for _, act := range erased.Admin.Acts.List {
		if act.Target != nil && *act.Target == "user:ann" {
			t.Errorf("an act still names the user: %s", act.text())
		}
	}
	gone("at the end")
	n.Publish("ann", "somebody else")
	text, _, _ = readWholeExport(n, "user:ann", 1)
	if strings.Contains(text, "canary") || !strings.Contains(text, "somebody else") {
		t.Errorf("of the new user: %s", text)
	}
	if got := n.Ask("boss:admin", exportQuery, map[string]any{"u": "user:ann", "a": before.Cursor}); got.ErrorCode() != "INVALID" {
		t.Errorf("a cursor of the user of before: %s %+v", got.Data, got.Errors)
	}
}

// erasureState reads the state of an erasure by its name.
func erasureState(n *world.Node, name string) string {
	n.TB.Helper()
	var data struct {
		Admin struct{ Erasure struct{ State string } }
	}
	n.MustAsk("boss:admin", `query($n:String!){admin{erasure(name:$n){state}}}`, map[string]any{"n": name}, &data)
	return data.Admin.Erasure.State
}
