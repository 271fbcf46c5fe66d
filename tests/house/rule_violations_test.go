package house

import (
	"strings"
	"testing"
	"testing/fstest"
)

// goFileText makes the text of a Go file: a package comment, its package, its imports, a body.
func goFileText(pkg, imports, body string) string {
	var text strings.Builder
	text.WriteString("// Package " + pkg + " is made up.\npackage " + pkg + "\n")
	for spec := range strings.FieldsSeq(imports) {
		text.WriteString("import _ \"" + spec + "\"\n")
	}
	return text.String() + body
}

const (
	emptyLines40 = "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n" // forty empty lines
	luaHeader    = "-- Does it.\n-- KEYS[1] a key\n-- ARGV[1] a value\n-- Returns 1\n"                // the comment at the start of a Lua script
)

// violation is a tree of files that breaks one of the rules that checkTree checks, and the message that it must cause.
type violation struct {
	tree          map[string]string // path -> text of the file
	expectedFault string            // a part of the message
}

// A violation of each rule about imports is reported.
func TestEveryDependencyRuleFindsAViolation(t *testing.T) {
	wantExpectedFaults(t, map[string]violation{
		"sideways": {
			map[string]string{"services/feed/f.go": goFileText("feed", "tidings/services/badge", "")},
			"services/feed/f.go:3: services/feed (layer 3) imports services/badge (layer 3): not downwards",
		},
		"upwards": {
			map[string]string{"services/people/s.go": goFileText("people", "tidings/services/feed", "")},
			"services/people (layer 10) imports services/feed (layer 3): not downwards",
		},
		"the facts below posts import them": {
			map[string]string{"services/people/s_test.go": goFileText("people", "tidings/services/posts", "")},
			"services/people (layer 10) imports services/posts (layer 9): not downwards",
		},
		"the engine of the log imports a memory": {
			map[string]string{"services/changelog/c.go": goFileText("changelog", "tidings/services/nodecache", "")},
			"services/changelog (layer 12) imports services/nodecache (layer 8): not downwards",
		},
		"the engine of the log imports a feature in a test": {
			map[string]string{"services/changelog/c_test.go": goFileText("changelog", "tidings/services/feed", "")},
			"services/changelog (layer 12) imports services/feed (layer 3): not downwards",
		},
		"the engine of Redis imports the projections": {
			map[string]string{"services/redis/r.go": goFileText("redis", "tidings/services/rdb", "")},
			"services/redis (layer 13) imports services/rdb (layer 12): not downwards",
		},
		"the engine of Redis imports a feature in a test": {
			map[string]string{"services/redis/r_test.go": goFileText("redis", "tidings/services/views", "")},
			"services/redis (layer 13) imports services/views (layer 4): not downwards",
		},
		"the projections import the library": {
			map[string]string{"services/rdb/r.go": goFileText("rdb", "github.com/redis/go-redis/v9", "")},
			"only services/redis imports github.com/redis/go-redis",
		},
		"upwards in a test": {
			map[string]string{"services/people/s_test.go": goFileText("people", "tidings/services/feed", "")},
			"not downwards",
		},
		"the words import a package": {
			map[string]string{"services/s.go": goFileText("services", "tidings/services/people", "")},
			"services (layer 15) imports services/people (layer 10): not downwards",
		},
		"main is imported": {
			map[string]string{"graph/g.go": goFileText("graph", "tidings", "")},
			`the package "" has no layer`,
		},
		"a package without a layer": {
			map[string]string{"services/poem/p.go": goFileText("poem", "", "")},
			"the package services/poem has no layer",
		},
		"a package without a layer is imported": {
			map[string]string{"server.go": goFileText("main", "tidings/services/poem", "")},
			`the package "services/poem" has no layer`,
		},
		"a test helper outside tests": {
			map[string]string{"services/feed/f.go": goFileText("feed", "tidings/services/people/peopletest", "")},
			"services/people/peopletest is for tests only",
		},
		"the engine of SQL imports a feature":  {map[string]string{"services/sql/s.go": goFileText("sql", "tidings/services/people", "")}, "services/sql (layer 13) imports services/people (layer 10): not downwards"},
		"the engine of jobs imports a feature": {map[string]string{"services/jobs/j.go": goFileText("jobs", "tidings/services/announcements", "")}, "services/jobs (layer 11) imports services/announcements (layer 4): not downwards"},
		"a neighbour's test helper":            {map[string]string{"services/rdb/r_test.go": goFileText("rdb", "tidings/services/people/peopletest", "")}, "imports the helper of services/people (layer 10): not downwards"},
		"a test helper looks up":               {map[string]string{"services/people/peopletest/s.go": goFileText("peopletest", "tidings/services/feed", "")}, "services/people/peopletest (layer 10) imports services/feed (layer 3): not downwards"},
		"a world above outside tests":          {map[string]string{"services/projector/p.go": goFileText("projector", "tidings/services/fanout/fanouttest", "")}, "services/fanout/fanouttest is for tests only"},
		"a world above of another package":     {map[string]string{"services/nodecache/m_test.go": goFileText("nodecache", "tidings/services/fanout/fanouttest", "")}, "imports the helper of services/fanout (layer 6): not downwards"},
		"a package above its world":            {map[string]string{"services/projector/p_test.go": goFileText("projector", "tidings/services/fanout", "")}, "services/projector (layer 7) imports services/fanout (layer 6): not downwards"},
		"SQL elsewhere":                        {map[string]string{"services/feed/f.go": goFileText("feed", "database/sql", "")}, "only services/sql imports database/sql"},
		"SQL in main":                          {map[string]string{"server.go": goFileText("main", "database/sql/driver", "")}, "only services/sql imports database/sql"},
		"a driver elsewhere":                   {map[string]string{"services/rdb/r_test.go": goFileText("rdb", "github.com/jackc/pgx/v5/stdlib", "")}, "only services/sql imports github.com/jackc/pgx"},
		"SQLite elsewhere":                     {map[string]string{"server.go": goFileText("main", "modernc.org/sqlite", "")}, "only services/sql imports modernc.org/sqlite"},
		"Redis elsewhere":                      {map[string]string{"services/push/p.go": goFileText("push", "github.com/redis/go-redis/v9", "")}, "only services/redis imports github.com/redis/go-redis"},
		"miniredis elsewhere":                  {map[string]string{"resolvers/r_test.go": goFileText("resolvers", "github.com/alicebob/miniredis/v2", "")}, "only services/redis imports"},
		"sockets elsewhere":                    {map[string]string{"resolvers/r.go": goFileText("resolvers", "github.com/gorilla/websocket", "")}, "only transport imports github.com/gorilla/websocket"},
		"sockets in main":                      {map[string]string{"server.go": goFileText("main", "github.com/gorilla/websocket", "")}, "only transport imports"},
		"tokens elsewhere":                     {map[string]string{"web/w.go": goFileText("web", "github.com/golang-jwt/jwt/v5", "")}, "only transport imports github.com/golang-jwt/jwt"},
		"an example of ours":                   {map[string]string{"docs/examples/host/h.go": goFileText("host", "tidings/services database/sql", "")}, "an example imports tidings/services: nobody can copy it"},
		"the words need a module":              {map[string]string{"services/s.go": goFileText("services", "golang.org/x/sync/errgroup", "")}, "services imports the standard library only"},
	})
}

// A violation of each rule that is not about imports is reported.
func TestEveryHouseRuleFindsAViolation(t *testing.T) {
	wantExpectedFaults(t, map[string]violation{
		"a long file":               {map[string]string{"web/w.go": goFileText("web", "", strings.Repeat(emptyLines40, 10))}, "402 lines, fewer than 400"},
		"a long test":               {map[string]string{"web/w_test.go": goFileText("web", "", strings.Repeat(emptyLines40, 10))}, "402 lines, fewer than 400"},
		"a long function":           {map[string]string{"web/w.go": goFileText("web", "", "func f() {"+emptyLines40+emptyLines40+"}\n")}, "w.go:3: the function f has 81 lines, fewer than 80"},
		"a long file of the bench":  {map[string]string{"bench/b.go": goFileText("main", "", strings.Repeat(emptyLines40, 10))}, "402 lines"},
		"no package comment":        {map[string]string{"web/w.go": "package web\n"}, "web (package web): no file has a package comment"},
		"an empty package comment":  {map[string]string{"web/w.go": "// Package web.\npackage web\n"}, "no file has a package comment"},
		"a sleep":                   {map[string]string{"web/w_test.go": "package web\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"}, "w_test.go:4: time.Sleep in a test"},
		"a sleep by another name":   {map[string]string{"web/w_test.go": "package web\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }\n"}, "time.Sleep in a test"},
		"a skip":                    {map[string]string{"web/w_test.go": goFileText("web", "", "func f(t T) { t.Skip() }\n")}, "a test is skipped"},
		"a skip with a reason":      {map[string]string{"web/w_test.go": goFileText("web", "", "func f(t T) { t.Skipf(``) }\n")}, "a test is skipped"},
		"a skip in a helper":        {map[string]string{"web/browsertest/b.go": goFileText("browsertest", "", "func f(tb T) { tb.SkipNow() }\n")}, "a test is skipped"},
		"unfinished Go":             {map[string]string{"web/w.go": goFileText("web", "", "// TO"+"DO: more\n")}, "unfinished work: TO" + "DO"},
		"unfinished SQL":            {map[string]string{"services/people/migrations/1.sql": "-- FIX" + "ME\n"}, "1.sql:1: unfinished work"},
		"a stub":                    {map[string]string{"web/w.go": goFileText("web", "", "func f() { panic(`not "+"implemented`) }\n")}, "w.go:3: a stub"},
		"a script without a header": {map[string]string{"services/rdb/lua/a.lua": "return 1\n"}, "the header does not name KEYS"},
		"a header that lacks ARGV":  {map[string]string{"services/rdb/lua/a.lua": "-- KEYS[1]. Returns 1\nreturn 1 -- ARGV\n"}, "the header does not name ARGV"},
		"a header without returns":  {map[string]string{"services/rdb/lua/a.lua": "-- KEYS[1] ARGV[1]\nreturn 1\n"}, "the header does not name returns"},
		"a library without words":   {map[string]string{"services/rdb/lua/lib.lua": "-- KEYS ARGV returns\n"}, "the header does not name helpers"},
		"an engine's type":          {map[string]string{"services/sql/s.go": goFileText("sql", "", "var x = services.PostID(1)\n")}, "s.go:3: an engine names services.PostID"},
		"an engine's constant":      {map[string]string{"services/jobs/j.go": goFileText("jobs", "", "func f(n int) bool { return n > services.FeedRetention }\n")}, "j.go:3: an engine names services.FeedRetention"},
		"an engine's count":         {map[string]string{"services/redis/r.go": goFileText("redis", "", "var x services.LiveCount\n")}, "r.go:3: an engine names services.LiveCount"},
		"a long script":             {map[string]string{"services/rdb/lua/a.lua": luaHeader + emptyLines40 + strings.Repeat("\n", 16)}, "60 lines, fewer than 60"},
	})
}

// wantExpectedFaults checks that checkTree reports the expected fault of each tree, and no other. A script with a fault in its header may
// have more.
func wantExpectedFaults(t *testing.T, trees map[string]violation) {
	for name, c := range trees {
		t.Run(name, func(t *testing.T) {
			faults := treeFaults(t, c.tree)
			if len(faults) == 0 {
				t.Fatalf("nothing was found; want %q", c.expectedFault)
			}
			if joined := strings.Join(faults, "\n"); !strings.Contains(joined, c.expectedFault) {
				t.Errorf("found:\n%s\nwant %q", joined, c.expectedFault)
			}
			for _, fault := range faults[1:] {
				if !strings.HasPrefix(c.expectedFault, "the header") {
					t.Errorf("one fault was expected, found also: %s", fault)
				}
			}
		})
	}
}

// checkTree reports no fault in trees that the rules allow, such as files of exactly the longest allowed length.
func TestCheckTreeAcceptsAllowedTrees(t *testing.T) {
	long := "// Code generated by a program. DO NOT EDIT.\n\n" + goFileText("graph", "", strings.Repeat(emptyLines40, 20)+"func f() {"+emptyLines40+emptyLines40+emptyLines40+"}\n")
	for name, tree := range map[string]map[string]string{
		"downwards":                     {"server.go": goFileText("main", "tidings/transport tidings/services/command tidings/services fmt", "")},
		"down past several lines":       {"services/feed/f.go": goFileText("feed", "tidings/services/push tidings/services/nodecache tidings/services/rdb", "")},
		"an owner":                      {"services/sql/s.go": goFileText("sql", "database/sql github.com/pressly/goose/v3 modernc.org/sqlite", ""), "services/redis/r.go": goFileText("redis", "github.com/redis/go-redis/v9", "")},
		"an owner's helper":             {"services/sql/sqltest/s.go": goFileText("sqltest", "database/sql tidings/services/sql tidings/services", "")},
		"an owner's test":               {"transport/t_test.go": goFileText("transport_test", "tidings/transport github.com/gorilla/websocket", "")},
		"a module of a similar name":    {"web/w.go": goFileText("web", "github.com/jackc/pgxother", "")},
		"a test with helpers below":     {"services/feed/f_test.go": goFileText("feed", "tidings/services/people/peopletest tidings/services/redis/redistest", "")},
		"a test with its own helper":    {"services/people/s_test.go": goFileText("people_test", "tidings/services/people/peopletest tidings/services/people", "")},
		"tests of the words":            {"services/s_test.go": goFileText("services", "pgregory.net/rapid", "")},
		"a client of the whole program": {"tests/nodes/n_test.go": goFileText("nodes", "github.com/gorilla/websocket tidings/web/browsertest tidings/tests/world", "")},
		"the bench":                     {"bench/baselines/p.go": goFileText("main", "github.com/redis/go-redis/v9 tidings/transport tidings/services/poem", "")},
		"an example":                    {"docs/examples/host/h.go": goFileText("host", "database/sql modernc.org/sqlite github.com/golang-jwt/jwt/v5", "")},
		"generated code":                {"graph/g.go": long},
		"an engine's words":             {"services/sql/s.go": goFileText("sql", "", "var x = services.UserID(1)\n"), "services/sql/s_test.go": goFileText("sql", "", "var y = services.PostID(1)\n"), enginesHistory: goFileText("sql", "", "var z = services.PostType\n")},
		"399 lines, 79 in a function":   {"web/w.go": goFileText("web", "", strings.Repeat(emptyLines40, 7)+strings.Repeat("\n", 38)+"func f() {"+emptyLines40+strings.Repeat("\n", 38)+"}\n")},
		"a sleep outside tests":         {"services/push/p.go": goFileText("push", "", "import \"time\"\nfunc f() { time.Sleep(1) }\n")},
		"another's sleep":               {"web/w_test.go": goFileText("web", "", "func f(bed B) { bed.Sleep() }\n")},
		"a comment in one of two files": {"web/a.go": goFileText("web", "", ""), "web/b.go": "package web\n"},
		"a package of tests":            {"web/w_test.go": "package web\n"},
		"a script of 59 lines":          {"services/rdb/lua/a.lua": luaHeader + emptyLines40 + strings.Repeat("\n", 15), "services/rdb/lua/lib.lua": "-- Helpers.\n"},
		"what others wrote":             {"web/node_modules/x/a.go": "TO" + "DO", "web/assets/a.mjs": "FIX" + "ME", ".git/a.md": "TO" + "DO", "web/testdata/a.md": "TO" + "DO"},
	} {
		if faults := treeFaults(t, tree); len(faults) > 0 {
			t.Errorf("%s: found:\n%s", name, strings.Join(faults, "\n"))
		}
	}
}

// A file that cannot be parsed is an error. It must not count as a tree without faults.
func TestBrokenGoIsAnError(t *testing.T) {
	if _, err := checkTree(fstest.MapFS{"web/w.go": {Data: []byte("package\n")}}); err == nil {
		t.Error("a file that cannot be parsed was passed over")
	}
}

// treeFaults returns what checkTree reports of a tree of files, path -> text.
func treeFaults(t *testing.T, tree map[string]string) []string {
	t.Helper()
	files := fstest.MapFS{}
	for name, text := range tree {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	faults, err := checkTree(files)
	if err != nil {
		t.Fatal(err)
	}
	return faults
}
