package command

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/sql"
)

// callImport runs a whole import of follows: command line, database, files. in is the standard input, text what is printed.
func callImport(t *testing.T, in string, args ...string) (exit int, text string) {
	t.Helper()
	command, err := ParseArgs(append([]string{"import", "follows"}, args...), environmentOf(nil), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	exit = runImport(t.Context(), command, strings.NewReader(in), &out)
	return exit, out.String()
}

func TestRunImport(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("f.csv", []byte("follower,followee\n1,2\n2,3\n3,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in, args string
		exit     int
		words    []string
	}{
		{"", "f.csv --data new/folder --both --prefix u", 1, []string{"line 4:", "2 rows: 4 follows are new, 0 existed already; 1 bad lines are in f.csv.bad"}},
		{"1,2\n2,1\n", "- --data new/folder --prefix u", 0, []string{"2 rows: 0 follows are new, 2 existed already"}},
		{"1,2\n", "- --database sqlite:other.db", 0, []string{"1 follows are new"}},
		{"", "none.csv --data new/folder", 1, []string{"tidings: ", "none.csv"}},
		{"1,2\n", "- --database sqlite:no/folder/x.db", 1, []string{"tidings: ", "x.db"}},
		{"1,2\n", "- --data f.csv", 1, []string{"tidings: the data folder", "f.csv"}},
		{"1,2\n", "- --database postgres://u:s3cret@127.0.0.1:1/n?connect_timeout=1", 1, []string{"tidings: ", "127.0.0.1:1"}},
	} {
		exit, text := callImport(t, c.in, strings.Fields(c.args)...)
		if exit != c.exit || strings.Contains(text, "s3cret") {
			t.Errorf("%s: exit code %d, want %d\n%s", c.args, exit, c.exit, text)
		}
		for _, word := range c.words {
			if !strings.Contains(text, word) {
				t.Errorf("%s: printed without %q:\n%s", c.args, word, text)
			}
		}
	}
	db, err := sql.Open(t.Context(), sql.Config{URL: "sqlite:" + filepath.Join("new", "folder", "tidings.db")})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := people.IDs(t.Context(), db, []string{"u1", "u2", "u3", "1"})
	if err != nil || len(ids) != 3 {
		t.Errorf("the users %v, %v", ids, err)
	}
	if _, found, err := people.Edge(t.Context(), db, ids["u3"], ids["u2"]); !found || err != nil {
		t.Errorf("u3 does not follow u2: %v", err)
	}

	// While a server holds the file, an import does not touch it.
	exit, text := callImport(t, "8,9\n", "-", "--data", "new/folder")
	if exit != 1 || !strings.Contains(text, "in use") || !strings.Contains(text, "tidings.db") {
		t.Errorf("on a database in use: exit code %d, %s", exit, text)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if exit, text := callImport(t, "8,9\n", "-", "--data", "new/folder"); exit != 0 {
		t.Errorf("after it was closed: exit code %d, %s", exit, text)
	}
}

// Posts are imported with the kinds that enter feeds, and a refill is queued for the feed of a user who is not dormant.
func TestRunImportOfPosts(t *testing.T) {
	t.Chdir(t.TempDir())
	db, err := sql.Open(t.Context(), sql.Config{URL: "sqlite:tidings.db"})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Write(t.Context(), func(tx *sql.Tx) error {
		ids, err := people.Ensure(t.Context(), tx, []string{"reader", "away"})
		return errors.Join(err, people.MarkActive(t.Context(), tx, []services.UserID{ids["reader"]}))
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	const file = `{"key":"1","author":"ann","at":"2026-01-30T09:30:00Z","body":"one"}
{"key":"2","author":"ann","at":"2026-01-30T09:30:00Z","body":"two","parent":"1"}
broken
`
	command, err := ParseArgs(strings.Fields("import posts - --data . --feed-kinds POST,COMMENT"), environmentOf(nil), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	exit := runImport(t.Context(), command, strings.NewReader(file), &out)
	if exit != 1 || !strings.Contains(out.String(), "2 rows: 2 posts are new, 0 existed already; 1 bad lines are in import-posts.bad") {
		t.Errorf("exit code %d: %s", exit, out.String())
	}
	if db, err = sql.Open(t.Context(), sql.Config{URL: "sqlite:tidings.db"}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ids, err := people.IDs(t.Context(), db, []string{"ann"})
	if err != nil {
		t.Fatal(err)
	}
	if listed, err := posts.PushedPostsOfAuthor(t.Context(), db, ids["ann"], 10); err != nil || len(listed) != 2 {
		t.Errorf("feeds list %v, %v", listed, err)
	}
	if waiting, _, _, err := jobs.JobCounts(t.Context(), db); err != nil || waiting != 1 {
		t.Errorf("%d jobs wait, want the refill of the one who was here: %v", waiting, err)
	}
}

func TestIsTerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	if isTerminal(file) || isTerminal(nil) {
		t.Error("a file passes for a terminal")
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if isTerminal(file) {
		t.Error("a closed file passes for a terminal")
	}
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = device.Close() }()
	if !isTerminal(device) {
		t.Error("a device passes for a file")
	}
}

func TestImportShows(t *testing.T) {
	t.Chdir(t.TempDir())
	const file = `{"key":"1","host":"ann","title":"one","plannedAt":"2026-01-30T09:30:00Z","startedAt":"2026-01-30T09:30:00Z","endedAt":"2026-01-30T10:30:00Z"}
broken
`
	command, err := ParseArgs(strings.Fields("import shows - --data ."), environmentOf(nil), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	exit := runImport(t.Context(), command, strings.NewReader(file), &out)
	if exit != 1 || !strings.Contains(out.String(), "1 rows: 1 shows are new, 0 existed already; 1 bad lines are in import-shows.bad") {
		t.Errorf("exit code %d: %s", exit, out.String())
	}
}

func TestAReplayRunsFasterByItsFactor(t *testing.T) {
	command, err := ParseArgs(strings.Fields("import shows s.jsonl --factor 60"), environmentOf(nil), &bytes.Buffer{})
	if err != nil || command.Import.Factor != 60 {
		t.Errorf("%+v, %v", command.Import, err)
	}
	if _, err = ParseArgs(strings.Fields("import shows s.jsonl --factor 1000001"), environmentOf(nil), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "0 to 1000000 is allowed") {
		t.Errorf("too fast: %v", err)
	}
	t.Chdir(t.TempDir())
	command.Import.File, command.Import.Factor = "-", 1_000_000
	var out bytes.Buffer
	const file = `{"key":"1","host":"ann","title":"one","plannedAt":"2026-01-30T09:30:00Z","startedAt":"2026-01-30T09:30:00Z","endedAt":"2026-01-30T10:30:00Z"}` + "\n"
	if exit := runImport(t.Context(), command, strings.NewReader(file), &out); exit != 0 || !strings.Contains(out.String(), "1 rows: 1 shows are new") {
		t.Errorf("exit code %d: %s", exit, out.String())
	}
}
