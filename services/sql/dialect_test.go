package sql

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
)

func TestStatementsInBothDialects(t *testing.T) {
	for _, c := range []struct{ name, text, sqlite, postgres string }{
		{"Parameters", "SELECT $1, $2, $10", "SELECT ?1, ?2, ?10", "SELECT $1, $2, $10"},
		{"In", "WHERE {in u.key $1 TEXT}", "WHERE u.key IN (SELECT value FROM json_each(?1))", "WHERE u.key = ANY($1::TEXT[])"},
		{"Rows", "FROM {rows $2 a BIGINT, b TEXT} AS c",
			"FROM (SELECT value->>0 AS a, value->>1 AS b FROM json_each(?2)) AS c",
			"FROM (SELECT (value->>0)::BIGINT AS a, (value->>1)::TEXT AS b FROM json_array_elements($2::text::json)) AS c"},
		{"Limits", "LIMIT $12", "LIMIT ?12 + 0", "LIMIT $12"},
		{"Locks", "{for update} {for share} {skip locked}", "  ", "FOR UPDATE FOR SHARE FOR UPDATE SKIP LOCKED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := Statement{"test", [dialectCount]string{SQLite: c.sqlite, Postgres: c.postgres}}
			if diff := cmp.Diff(want.texts, AdHoc("test", c.text).texts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The URL of a file names no host, neither for a Unix path nor for a Windows path.
func TestFileURLsNameNoHost(t *testing.T) {
	for path, want := range map[string]string{"/data/tidings.db": "/data/tidings.db", "C:/data/tidings.db": "/C:/data/tidings.db"} {
		if got := uriPath(path); got != want {
			t.Errorf("the path %s is %s in an address, want %s", path, got, want)
		}
	}
}

func TestUnknownPhraseIsFoundAtStart(t *testing.T) {
	defer func() {
		if cause, _ := recover().(string); !strings.Contains(cause, "{for ever}") {
			t.Errorf("it panicked with %q", cause)
		}
	}()
	AdHoc("test", "SELECT 1 {for ever}")
}

func TestInsertionInBothDialects(t *testing.T) {
	ins := NewInsertion("test", "things", "n BIGINT, s TEXT, b BYTEA, t BOOLEAN", "ON CONFLICT DO NOTHING")
	want := [dialectCount]string{
		SQLite:   "INSERT INTO things (n, s, b, t) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
		Postgres: "INSERT INTO things (n, s, b, t) SELECT * FROM unnest($1::BIGINT[], $2::TEXT[], $3::BYTEA[], $4::BOOLEAN[]) ON CONFLICT DO NOTHING",
	}
	if diff := cmp.Diff(want, ins.texts); diff != "" {
		t.Error(diff)
	}
	columns := ins.columnArrays([][]any{{services.PostID(7), "x", []byte{1}, true}, {int64(8), "y", []byte{2}, false}})
	if diff := cmp.Diff([]any{[]int64{7, 8}, []string{"x", "y"}, [][]byte{{1}, {2}}, []bool{true, false}}, columns); diff != "" {
		t.Error(diff)
	}
}

func TestParametersInBothDialects(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC)
	args := []any{services.UserID(1<<32 - 1), services.MaxPostID, services.CategoryLike, at, nil, "text", []byte{1},
		[]services.UserID{1, 2}, Numbers([]services.PostID{}), []string{`a"b`, "c"}, RowsParameter{{services.UserID(1), services.CategoryLike, services.MaxPostID}}}
	same := []any{int64(1<<32 - 1), int64(1<<63 - 1), "LIKE", int64(1767323045000006), nil, "text", []byte{1}}
	table := `[[1,"LIKE",9223372036854775807]]`
	if diff := cmp.Diff(append(same[:7:7], "[1,2]", "[]", `["a\"b","c"]`, table), SQLite.bind(args)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(append(same[:7:7], []int64{1, 2}, []int64{}, []string{`a"b`, "c"}, table), Postgres.bind(args)); diff != "" {
		t.Error(diff)
	}
}

// number is an ID that says its number itself, as those of features do.
type number uint64

func (n number) Int64() int64 { return int64(n) }

// This package does not know the types of features: an ID says its number, and other types are bound by their kind.
func TestParametersOfUnknownTypes(t *testing.T) {
	type (
		word  string
		count int32
		id    uint32
	)
	for _, d := range []dialect{SQLite, Postgres} {
		if diff := cmp.Diff([]any{"text", int64(-7), int64(1<<32 - 1), int64(1<<63 - 1)}, d.bind([]any{word("text"), count(-7), id(1<<32 - 1), number(1<<63 - 1)})); diff != "" {
			t.Errorf("%v: %s", d, diff)
		}
	}
	for d, want := range map[dialect][]any{
		SQLite:   {"[1,9223372036854775807]", "[7]", "[]"},
		Postgres: {[]int64{1, 1<<63 - 1}, []int64{7}, []int64{}},
	} {
		if diff := cmp.Diff(want, d.bind([]any{Numbers([]number{1, 1<<63 - 1}), Numbers([]id{7}), Numbers([]number(nil))})); diff != "" {
			t.Errorf("%v: %s", d, diff)
		}
	}
}

// translateMigration translates every word of the migrations that SQLite lacks.
func TestTranslateMigration(t *testing.T) {
	files, err := migrations.ReadDir("migrations")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations: %v", len(files), err)
	}
	for _, file := range files {
		text, err := migrations.ReadFile("migrations/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if Postgres.translateMigration(string(text)) != string(text) {
			t.Errorf("%s is not written for PostgreSQL", file.Name())
		}
		made := SQLite.translateMigration(string(text))
		for _, word := range []string{"BYTEA", "IDENTITY", "fillfactor", "INCLUDE", "BIGINT NOT NULL PRIMARY KEY"} {
			if strings.Contains(made, word) {
				t.Errorf("%s has %s on SQLite", file.Name(), word)
			}
		}
	}
}
