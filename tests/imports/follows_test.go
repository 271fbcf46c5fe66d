package imports

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/people"
	"tidings/services/social"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// testImporter is a database, a folder and a stopped clock: everything that an import of the tests uses.
type testImporter struct {
	t   *testing.T
	db  *sql.DB
	dir string       // where files are written
	now time.Time    // of the clock
	out bytes.Buffer // what the last import printed
}

// newImporter makes an importer on a database. Its folder becomes the working folder: bad lines of the standard input are written there.
func newImporter(t *testing.T, db *sql.DB) *testImporter {
	t.Helper()
	im := &testImporter{t: t, db: db, dir: t.TempDir(), now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	t.Chdir(im.dir)
	return im
}

// sqliteImporter makes an importer on a new SQLite file.
func sqliteImporter(t *testing.T) *testImporter {
	return newImporter(t, sqltest.Open(t, sql.Config{URL: sqltest.SQLite(t)}))
}

// Now makes the importer the clock of its imports.
func (im *testImporter) Now() time.Time { return im.now }

// writeFile writes a file and returns its path.
func (im *testImporter) writeFile(name, text string) string {
	im.t.Helper()
	path := filepath.Join(im.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		im.t.Fatal(err)
	}
	return path
}

// readFile returns the text of a file.
func (im *testImporter) readFile(path string) string {
	im.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		im.t.Fatal(err)
	}
	return string(text)
}

// importFollows imports a file of follows into db: the database of the importer, or a wrapper of it.
func (im *testImporter) importFollows(db importer.DB, opts importer.Options) (importer.Report, error) {
	im.out.Reset()
	opts.Out, opts.Clock = &im.out, im
	return social.ImportFile(im.t.Context(), db, services.NewIDClock(im, 1), opts)
}

// mustImportFollows imports follows, and fails the test on an error.
func (im *testImporter) mustImportFollows(opts importer.Options) importer.Report {
	im.t.Helper()
	report, err := im.importFollows(im.db, opts)
	if err != nil {
		im.t.Fatalf("%v\n%s", err, im.out.String())
	}
	return report
}

// sinceByFollow reads every follow among the keys back: "alice>bob" -> since.
func (im *testImporter) sinceByFollow(keys ...string) map[string]services.SortableID {
	im.t.Helper()
	ids, err := people.IDs(im.t.Context(), im.db, keys)
	if err != nil {
		im.t.Fatal(err)
	}
	names := map[services.UserID]string{}
	for key, id := range ids {
		names[id] = key
	}
	all := map[string]services.SortableID{}
	for id, followee := range names {
		edges, err := people.Followers(im.t.Context(), im.db, id, 0, 100_000, time.Time{})
		if err != nil {
			im.t.Fatal(err)
		}
		for _, edge := range edges {
			all[names[edge.Follower]+">"+followee] = services.SortableID(edge.PostsCountAfter)
		}
	}
	return all
}

// followPairs returns the follows among the keys, such as "alice>bob", sorted.
func (im *testImporter) followPairs(keys ...string) []string {
	return slices.Sorted(maps.Keys(im.sinceByFollow(keys...)))
}

// gzipText compresses a text with gzip.
func gzipText(t *testing.T, text string) string {
	t.Helper()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

func TestImportFollows(t *testing.T) {
	sqltest.EachEngine(t, func(t *testing.T, open func() *sql.DB) {
		im := newImporter(t, open())
		path := im.writeFile("follows.csv", "follower,followee,since\nalice,bob\n\n# a remark\n alice , carol ,2026-01-02T03:04:05.678Z\r\n\"bob\",\"alice\",\nalice,bob,2020-01-01T00:00:00+02:00\ncarol,bob\n")
		got := im.mustImportFollows(importer.Options{File: path})
		if want := (importer.Report{Kind: "follows", LastLine: 8, GoodRows: 5, NewItems: 4, SkippedRows: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		now := services.SortableIDAt(im.now)
		follows := im.sinceByFollow("alice", "bob", "carol")
		if since := follows["alice>carol"]; since != services.SortableIDAt(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)) {
			t.Errorf("alice follows carol since %v", since.Time())
		}
		for _, pair := range []string{"bob>alice", "carol>bob"} {
			if since := follows[pair]; since < now || since.Time() != im.now {
				t.Errorf("%s since %v, want the time of the import", pair, since.Time())
			}
		}
		if diff := cmp.Diff([]string{"alice>bob", "alice>carol", "bob>alice", "carol>bob"}, im.followPairs("alice", "bob", "carol")); diff != "" {
			t.Error(diff)
		}

		// Existing follows stay as they are, and a finished import starts from the beginning.
		im.now = im.now.Add(time.Hour)
		again := im.mustImportFollows(importer.Options{File: path})
		if want := (importer.Report{Kind: "follows", LastLine: 8, GoodRows: 5, SkippedRows: 5}); again != want {
			t.Errorf("again: got %+v, want %+v", again, want)
		}
		if diff := cmp.Diff(follows, im.sinceByFollow("alice", "bob", "carol")); diff != "" {
			t.Errorf("the second import changed (-first +second):\n%s", diff)
		}
	})
}

func TestImportBothWaysWithPrefix(t *testing.T) {
	sqltest.EachEngine(t, func(t *testing.T, open func() *sql.DB) {
		im := newImporter(t, open())
		path := im.writeFile("friends.csv", "id_1,id_2\n1,2\n2,1\n1,3\n")
		got := im.mustImportFollows(importer.Options{File: path, BothDirections: true, KeyPrefix: "u-"})
		if want := (importer.Report{Kind: "follows", LastLine: 4, GoodRows: 3, NewItems: 4, SkippedRows: 2}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if diff := cmp.Diff([]string{"u-1>u-2", "u-1>u-3", "u-2>u-1", "u-3>u-1"}, im.followPairs("u-1", "u-2", "u-3", "1", "2", "3")); diff != "" {
			t.Error(diff)
		}
	})
}

// The rows are the same for every form of the file.
func TestImportFormsOfFiles(t *testing.T) {
	rows := "alice,bob\nbob,carol\n"
	for name, text := range map[string]string{
		"plain":                  rows,
		"gzip":                   gzipText(t, rows),
		"gzip in two pieces":     gzipText(t, "alice,bob\n") + gzipText(t, "bob,carol\n"),
		"lines end with CR LF":   strings.ReplaceAll(rows, "\n", "\r\n"),
		"no end of line":         gzipText(t, strings.TrimSuffix(rows, "\n")),
		"a byte order mark":      "\xef\xbb\xbffrom,to\n" + rows,
		"a mark in gzip":         gzipText(t, "\xef\xbb\xbf"+rows),
		"a header in capitals":   "From,To\n" + rows,
		"a quoted header":        "\"source\",\"target\",\"weight\"\n" + rows,
		"empty lines and blanks": "\n  \n" + strings.ReplaceAll(rows, ",", " ,\t"),
	} {
		t.Run(name, func(t *testing.T) {
			im := sqliteImporter(t)
			got := im.mustImportFollows(importer.Options{File: im.writeFile("f", text)})
			if got.GoodRows != 2 || got.NewItems != 2 || got.BadLines != 0 {
				t.Errorf("got %+v\n%s", got, im.out.String())
			}
			if diff := cmp.Diff([]string{"alice>bob", "bob>carol"}, im.followPairs("alice", "bob", "carol")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A file whose header names the columns in reverse order is refused completely.
func TestImportRefusesAReversedHeader(t *testing.T) {
	im := sqliteImporter(t)
	file := im.writeFile("friends.csv", "user_id,follower_id\nalice,bob\n")
	got, err := im.importFollows(im.db, importer.Options{File: file})
	if services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "user_id,follower_id") || got.GoodRows != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if pairs := im.followPairs("alice", "bob"); len(pairs) != 0 {
		t.Errorf("in are %v", pairs)
	}
}

// A header is found behind comments and empty lines too: it is no row, and a header in reverse order is refused.
func TestImportFindsAHeaderBehindComments(t *testing.T) {
	im := sqliteImporter(t)
	got := im.mustImportFollows(importer.Options{File: im.writeFile("f.csv", "# exported today\n\nfollower,followee\nalice,bob\nfrom,to\n")})
	if got.GoodRows != 2 || got.BadLines != 0 {
		t.Errorf("%+v", got)
	}
	if pairs := im.followPairs("alice", "bob", "from", "to"); !slices.Equal(pairs, []string{"alice>bob", "from>to"}) {
		t.Errorf("in are %v", pairs)
	}
	if got, err := im.importFollows(im.db, importer.Options{File: im.writeFile("g.csv", "# exported today\nfollowee,follower\nalice,carol\n")}); services.CodeOf(err) != services.Invalid {
		t.Errorf("in reverse order: %+v, %v", got, err)
	}
}

func TestImportEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "\n", "follower,followee\n", gzipText(t, "")} {
		im := sqliteImporter(t)
		if got := im.mustImportFollows(importer.Options{File: im.writeFile("f", text)}); got.GoodRows != 0 || got.BadLines != 0 {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// The limit of follows per user does not apply to an import.
func TestImportIgnoresTheLimitOfFollows(t *testing.T) {
	im := sqliteImporter(t)
	var text strings.Builder
	for i := range 2_500 {
		fmt.Fprintf(&text, "alice,friend%d\n", i)
	}
	if got := im.mustImportFollows(importer.Options{File: im.writeFile("f", text.String()), BatchSize: 700}); got.NewItems != 2_500 {
		t.Errorf("got %+v", got)
	}
}

func TestImportFromStandardInput(t *testing.T) {
	im := sqliteImporter(t)
	got := im.mustImportFollows(importer.Options{File: "-", Input: strings.NewReader(gzipText(t, "alice,bob\nalice,alice\n"))})
	if want := (importer.Report{Kind: "follows", LastLine: 2, GoodRows: 1, NewItems: 1, BadLines: 1, BadFile: "import-follows.bad"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if text := im.readFile("import-follows.bad"); !strings.Contains(text, "alice,alice\n") {
		t.Errorf("the bad lines: %q", text)
	}
	if _, err := im.importFollows(im.db, importer.Options{File: "-"}); services.CodeOf(err) != services.Invalid {
		t.Errorf("without an input: %v", err)
	}
}

// An import that cannot read its file, or cannot save its bad lines, ends with an error that says why.
func TestImportFaults(t *testing.T) {
	im := sqliteImporter(t)
	cut := gzipText(t, strings.Repeat("alice,bob\n", 10))
	blocked := im.writeFile("blocked.csv", "alice,alice\n")
	if err := os.Mkdir(blocked+".bad", 0o700); err != nil {
		t.Fatal(err)
	}
	im.writeFile("blocked.csv.bad/kept", "")
	var noise strings.Builder
	for i := range 1_000 {
		fmt.Fprintf(&noise, "%d;%d\n", i, i+1)
	}
	for name, c := range map[string]struct {
		file, word string
		code       services.Code
	}{
		"no file":         {filepath.Join(im.dir, "none.csv"), "none.csv", services.Invalid},
		"a folder":        {im.dir, "is a folder", services.Invalid},
		"not gzip":        {im.writeFile("not.gz", "\x1f\x8b and no more"), "begins like a gzip file", services.Invalid},
		"cut gzip":        {im.writeFile("cut.gz", cut[:len(cut)-9]), "is cut off after line", services.Invalid},
		"not our columns": {im.writeFile("noise.csv", noise.String()), "none of its first 1000 lines", services.Invalid},
		"no room for bad": {blocked, "bad lines cannot be saved", services.Unavailable},
	} {
		_, err := im.importFollows(im.db, importer.Options{File: c.file})
		if services.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %s: %v", name, services.CodeOf(err), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := social.ImportFile(ctx, im.db, services.NewIDClock(im, 1), importer.Options{File: im.writeFile("f", "alice,bob\n")}); err == nil {
		t.Error("an import that was called off says nothing")
	}
	if got := im.followPairs("alice", "bob"); slices.Contains(got, "bob>alice") {
		t.Errorf("what failed is in: %v", got)
	}
}

// Bad lines contain keys and texts of users, so only the owner can read the file, even if it existed before.
func TestOnlyTheOwnerCanReadBadLines(t *testing.T) {
	im := sqliteImporter(t)
	path := im.writeFile("follows.csv", "alice,alice\n")
	for _, mode := range []os.FileMode{0, 0o644} {
		if mode != 0 {
			if err := os.Chmod(path+".bad", mode); err != nil {
				t.Fatal(err)
			}
		}
		im.mustImportFollows(importer.Options{File: path})
		info, err := os.Stat(path + ".bad")
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("the file has the mode %o", got)
		}
	}
}
