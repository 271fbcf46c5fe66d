package imports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/feed"
	"tidings/services/importer"
	"tidings/services/notifications/notificationstest"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// importPosts imports a file of posts.
func (im *testImporter) importPosts(db importer.DB, opts importer.Options) (importer.Report, error) {
	opts.Clock, opts.Out, opts.Quiet = im, &im.out, true
	report, err := feed.ImportFile(im.t.Context(), db, services.NewIDClock(im, 1), []services.PostKind{services.PostKindPost}, opts)
	report.Took = 0
	return report, err
}

// mustImportPosts imports a file of posts, and fails the test on an error.
func (im *testImporter) mustImportPosts(opts importer.Options) importer.Report {
	im.t.Helper()
	report, err := im.importPosts(im.db, opts)
	if err != nil {
		im.t.Fatalf("%v\n%s", err, im.out.String())
	}
	return report
}

// postLinesOf lists a user's posts in SQL, the newest first, each as "body time".
func (im *testImporter) postLinesOf(key string) (lines []string) {
	im.t.Helper()
	userIDs, err := people.IDs(im.t.Context(), im.db, []string{key})
	if err != nil {
		im.t.Fatal(err)
	}
	ids, err := posts.PushedPostsOfAuthor(im.t.Context(), im.db, userIDs[key], 1000)
	if err != nil {
		im.t.Fatal(err)
	}
	found, err := posts.ByID(im.t.Context(), im.db, ids)
	if err != nil {
		im.t.Fatal(err)
	}
	for _, id := range ids {
		lines = append(lines, found[id].Body+" "+id.Time().Format("15:04:05.000"))
	}
	return lines
}

// postsFile is the text of a file of posts, with a blank line and a post without a key.
const postsFile = `{"key":"p1","author":"ann","at":"2026-01-30T09:30:00Z","body":"one"}
{"key":"p3","author":"ann","at":"2026-01-30T09:30:00.007+00:00","body":"three"}
{"key":"p2","author":"ann","at":"2026-01-30T09:30:00Z","body":"two"}
{"key":"c1","author":"bob","at":"2026-01-30T09:31:00Z","body":"an answer to @ann","parent":"p1"}

{"key":"c2","author":"ann","at":"2026-01-30T09:32:00Z","body":"an answer to the answer","parent":"c1"}
{"author":"bob","at":"2026-01-30T09:33:00Z","body":"without a key"}
`

// Imported posts have their own times and order, their kinds, and positions in feeds; they notify nobody. A second import of the file
// adds nothing, and an import of a copy adds only the post without a key.
func TestImportedPosts(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		w := fanouttest.New(t, fanouttest.Options{SQLURL: url, RedisURL: "embedded"})
		im := newImporter(t, w.DB)
		file := im.writeFile("archive.jsonl", postsFile)
		want := importer.Report{Kind: "posts", LastLine: 7, GoodRows: 6, NewItems: 6}
		if diff := cmp.Diff(want, im.mustImportPosts(importer.Options{File: file, BatchSize: 2})); diff != "" {
			t.Fatalf("the report (-want +got):\n%s", diff)
		}
		check := func(bobs ...string) {
			t.Helper()
			if diff := cmp.Diff([]string{"three 09:30:00.007", "two 09:30:00.000", "one 09:30:00.000"}, im.postLinesOf("ann")); diff != "" {
				t.Errorf("of ann (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(bobs, im.postLinesOf("bob")); diff != "" {
				t.Errorf("of bob (-want +got):\n%s", diff)
			}
		}
		check("without a key 09:33:00.000")
		known := im.readPosts("p1", "c1", "c2", "none", "")
		if len(known) != 3 || known["c1"].Kind != services.PostKindComment || known["c2"].Kind != services.PostKindReply {
			t.Errorf("they are %+v", known)
		}
		found, err := posts.ByID(t.Context(), im.db, []services.PostID{known["c1"].ID})
		w.Must(err)
		if c1 := found[known["c1"].ID]; c1.Parent != known["p1"].ID || !c1.OffFeed || !c1.UpdatedAt.Equal(c1.ID.Time()) {
			t.Errorf("the comment is %+v", c1)
		}
		w.RunAllJobs(w.Fanout)
		for _, recipient := range []services.UserID{1, 2} {
			if counts := notificationstest.CountsFromFacts(w, recipient); len(counts) > 0 {
				t.Errorf("somebody was notified: %+v", counts)
			}
		}
		if diff := cmp.Diff(importer.Report{Kind: "posts", ResumedAfter: 7, LastLine: 7}, im.mustImportPosts(importer.Options{File: file})); diff != "" {
			t.Errorf("the report of the second time (-want +got):\n%s", diff)
		}
		check("without a key 09:33:00.000")
		want = importer.Report{Kind: "posts", LastLine: 7, GoodRows: 6, NewItems: 1, SkippedRows: 5}
		if diff := cmp.Diff(want, im.mustImportPosts(importer.Options{File: im.writeFile("copy.jsonl", postsFile)})); diff != "" {
			t.Errorf("the report of a copy (-want +got):\n%s", diff)
		}
		check("without a key 09:33:00.000", "without a key 09:33:00.000")
		answer := fmt.Sprintf(`{"author":"carl","at":"2026-01-30T10:00:00Z","body":"x","parent":"post:%s"}`, known["c2"].ID)
		if got := im.mustImportPosts(importer.Options{File: "-", Input: strings.NewReader(answer), KeyPrefix: "u-"}); got.NewItems != 1 {
			t.Errorf("an answer to an id: %+v\n%s", got, im.out.String())
		}
	})
}

// An import that breaks at any of its writes, before the commit or after it, has the same result as one that does not break: every
// post once, in order, and every bad line put aside once.
func TestAnInterruptedImportOfPostsResumes(t *testing.T) {
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, `{"key":"k%d","author":"a%d","at":"2026-01-30T09:%02d:00Z","body":"%d"}`+"\n", i, i%3, i/5, i)
		if i%10 == 9 {
			fmt.Fprintf(&text, `{"author":"a%d","at":"2026-01-30T09:%02d:00Z","body":"no key %d"}`+"\n", i%3, i/5, i)
			fmt.Fprintf(&text, `{"key":"x%d","author":"a1","at":"2026-01-30T09:00:00Z","body":"bad","parent":"none"}`+"\n", i)
		}
	}
	sqltest.EachURL(t, func(t *testing.T, url string) {
		whole := sqliteImporter(t)
		counter := &breakingStore{DB: whole.db}
		want, err := whole.importPosts(counter, importer.Options{File: whole.writeFile("f.jsonl", text.String()), BatchSize: 7})
		if err != nil || want.NewItems != 44 || want.BadLines != 4 || counter.writeCount < 5 {
			t.Fatalf("the import that does not break: %v, %d writes, %+v", err, counter.writeCount, want)
		}
		wantBad := whole.readFile(want.BadFile)
		for n := range 2 * counter.writeCount {
			im := newImporter(t, sqltest.Open(t, sql.Config{URL: url}))
			// On PostgreSQL all runs share one database, so the keys of posts and users belong to this run.
			mine := strings.NewReplacer(`"key":"`, fmt.Sprintf(`"key":"r%d.`, n)).Replace(text.String())
			opts := importer.Options{File: im.writeFile("f.jsonl", mine), BatchSize: 7, KeyPrefix: fmt.Sprintf("r%d.", n)}
			if _, err := im.importPosts(&breakingStore{DB: im.db, failAtWrite: n/2 + 1, failAfterCommit: n%2 == 1}, opts); !errors.Is(err, errConnectionGone) {
				t.Fatalf("run %d: %v", n, err)
			}
			got := im.mustImportPosts(opts)
			if got.BadLines != 4 || strings.ReplaceAll(im.readFile(got.BadFile), fmt.Sprintf("r%d.", n), "") != wantBad {
				t.Errorf("run %d: %d bad lines:\n%s", n, got.BadLines, im.readFile(got.BadFile))
			}
			for _, author := range []string{"a0", "a1", "a2"} {
				if diff := cmp.Diff(whole.postLinesOf(author), im.postLinesOf(opts.KeyPrefix+author)); diff != "" {
					t.Errorf("run %d: the posts of %s (-want +got):\n%s", n, author, diff)
				}
			}
			if err := im.db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// For a gzip file that is cut off, the error names the line. The lines before it are imported, and an import of the whole file
// adds the rest.
func TestATruncatedImportOfPosts(t *testing.T) {
	im := sqliteImporter(t)
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, `{"key":"k%d","author":"ann","at":"2026-01-30T09:30:00Z","body":"%x"}`+"\n", i, i*i*7919)
	}
	packed := gzipText(t, text.String())
	got, err := im.importPosts(im.db, importer.Options{File: im.writeFile("a.jsonl.gz", packed[:len(packed)/2])})
	if services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), fmt.Sprintf("a.jsonl.gz is cut off after line %d: the lines before are imported", got.LastLine)) {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.NewItems == 0 || got.NewItems != got.LastLine || got.BadLines != 0 {
		t.Errorf("of the half: %+v", got)
	}
	if rest := im.mustImportPosts(importer.Options{File: im.writeFile("a.jsonl.gz", packed)}); rest.NewItems+got.NewItems != 3000 || rest.SkippedRows != got.NewItems {
		t.Errorf("of the whole after %d: %+v", got.NewItems, rest)
	}
}

// Bad lines are reported and put aside and make no post; the others are imported.
func TestBadLinesOfPosts(t *testing.T) {
	im := sqliteImporter(t)
	const at = `"at":"2026-01-30T09:30:00Z"`
	line := func(fields string) string { return `{"author":"x",` + at + `,"body":"b",` + fields + `}` }
	bad := []struct{ line, says string }{ // says is a part of the reason that is written above the line
		{`not JSON`, "not one JSON object with key, author, at, body and parent"},
		{line(`"extra":1`), `unknown field "extra"`},
		{line(`"key":"k"`) + ` {}`, "not one JSON object with key, author, at, body and parent: there is more text after it"},
		{line(`"key":"k"`) + `}`, "not one JSON object with key, author, at, body and parent: there is more text after it"},
		{`[` + line(`"key":"k"`) + `]`, "not one JSON object with key, author, at, body and parent: it is a list"},
		{`"post"`, "not one JSON object with key, author, at, body and parent: it is a text"},
		{line(`"key":12`), "key: a text is needed, got a number"},
		{line(`"parent":{}`), "parent: a text is needed, got an object"},
		{`{"author":"x",` + at + `,"body":"` + "\xff" + `"}`, "not valid UTF-8"},
		{`{"author":"x",` + at + `,"body":"\ud83d"}`, `\ud83d is half of a surrogate pair`},
		{`{` + at + `,"body":"b"}`, "author: a key is empty"},
		{`{"author":" a",` + at + `,"body":"b"}`, `author: user key " a"`},
		{`{"author":"x",` + at + `,"body":""}`, "body: 1 to 5000 characters are allowed, got 0"},
		{`{"author":"x",` + at + `,"body":" \n "}`, "body: 1 to 5000 characters are allowed, got nothing but white space"},
		{`{"author":"x",` + at + `,"body":"` + strings.Repeat("b", 5001) + `"}`, "body: 1 to 5000 characters are allowed, got 5001"},
		{`{"author":"x",` + at + `,"body":"\u0000"}`, "body: has a NUL character"},
		{`{"author":"x","body":"b"}`, `at is ""`},
		{`{"author":"x","at":"yesterday","body":"b"}`, `at is "yesterday": a time like`},
		{`{"author":"x","at":"1969-12-31T23:59:59Z","body":"b"}`, "before 1970 or in the future"},
		{`{"author":"x","at":"2026-01-31T12:00:01Z","body":"b"}`, "before 1970 or in the future"},
		{line(`"key":"` + strings.Repeat("k", 129) + `"`), "key: a ref has 1 to 128 characters, got 129"},
		{line(`"key":" k"`), `key: ref " k": it must not begin or end with a space`},
		{line(`"key":"a\u0301"`), "normal form C"},
		{line(`"parent":"k\n"`), "parent: ref \"k\\n\": only printable characters are allowed"},
		{line(`"key":"post:1"`), "key: \"post:1\" has the form of an ID of Tidings"},
		{line(`"key":"self","parent":"self"`), `parent: "self" answers itself`},
		{line(`"parent":"post:1"`), "parent: \"post:1\" is not the id of a post"},
		{line(`"parent":"post:0000000000009"`), `parent: there is no "post:0000000000009"`},
		{line(`"parent":"later"`), `parent: there is no "later"; a parent must come before its answers`},
		{line(`"parent":"gone"`), `parent: "gone" is deleted`},
		{`{"author":"x",` + at + `,"body":"` + strings.Repeat("b", 1<<17) + `"}`, "longer than 131072 bytes"},
	}
	im.mustImportPosts(importer.Options{File: "-", Input: strings.NewReader(line(`"key":"gone"`))})
	gone := im.readPosts("gone")
	err := im.db.Write(t.Context(), func(tx *sql.Tx) error { _, _, err := posts.Delete(t.Context(), tx, gone["gone"].ID); return err })
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{line(`"key":"good"`)}
	for _, one := range bad {
		lines = append(lines, one.line)
	}
	lines = append(lines, line(`"key":"later"`), line(`"key":"last","parent":"good"`))
	file := im.writeFile("p.jsonl", strings.Join(lines, "\n"))
	report := im.mustImportPosts(importer.Options{File: file})
	want := importer.Report{Kind: "posts", LastLine: int64(len(lines)), GoodRows: 3, NewItems: 3, BadLines: int64(len(bad)), BadFile: file + ".bad"}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Errorf("the report (-want +got):\n%s", diff)
	}
	if text := report.String(); text != fmt.Sprintf("3 rows: 3 posts are new, 0 existed already; %d bad lines are in %s.bad; 0.0 s", len(bad), file) {
		t.Errorf("it reads %q", text)
	}
	aside := im.readFile(file + ".bad")
	for i, one := range bad {
		if want := fmt.Sprintf("# line %d: ", i+2); !strings.Contains(aside, want) || !strings.Contains(aside, one.says) {
			t.Errorf("%.60s is not put aside with %q:\n%.3000s", one.line, one.says, aside)
		}
		if !strings.Contains(aside, one.line[:min(len(one.line), 1<<17)]) {
			t.Errorf("%.60s was not put aside as it was", one.line)
		}
	}
	if ids, err := people.IDs(t.Context(), im.db, []string{"a b", "x"}); err != nil || len(ids) != 1 {
		t.Errorf("the users %v, %v", ids, err)
	}
	if _, err := im.importPosts(im.db, importer.Options{File: im.writeFile("csv", strings.Repeat("a,b\n", 1001))}); services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), "JSON Lines") {
		t.Errorf("another kind of file: %v", err)
	}
	if _, err := im.importPosts(im.db, importer.Options{File: im.dir + "/none"}); services.CodeOf(err) != services.Invalid {
		t.Errorf("no file: %v", err)
	}
}

// publishingStore is a database in which another client publishes, at most publishesLeft times, in a millisecond that is imported. The
// import has to plan new IDs, and no post may be lost or duplicated.
type publishingStore struct {
	*sql.DB
	t             *testing.T
	publishesLeft int
}

// Each runs the statement. If the statement has read which IDs are used in the milliseconds that are imported, Each then
// publishes a post in one of them, at most publishesLeft times in all.
func (p *publishingStore) Each(ctx context.Context, st sql.Statement, args []any, scan func(into func(...any) error) error) error {
	err := p.DB.Each(ctx, st, args, scan)
	if st.Text(sql.SQLite) != sql.Statements()["the newest posts of moments"].Text(sql.SQLite) {
		return err
	}
	if p.publishesLeft--; p.publishesLeft < 0 {
		return err
	}
	moment := services.SortableIDAt(time.Date(2026, 1, 30, 9, 30, 0, 0, time.UTC))
	newest, newestErr := posts.NewestAt(ctx, p.DB, []services.SortableID{moment})
	live := services.Post{ID: max(services.PostID(moment), newest[moment]+1), Author: 9, Kind: services.PostKindPost, Body: "live"}
	if err := errors.Join(newestErr, p.Write(ctx, func(tx *sql.Tx) error { return posts.Insert(ctx, tx, live) })); err != nil {
		p.t.Error(err)
	}
	return err
}

// If others publish in the milliseconds of a batch, the import plans the batch again with new IDs. It fails if that never ends.
func TestPostsPublishedDuringAnImportMakeItPlanAgain(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		im := newImporter(t, sqltest.Open(t, sql.Config{URL: url}))
		var text strings.Builder
		for i := range 100 {
			fmt.Fprintf(&text, `{"key":"k%d","author":"ann","at":"2026-01-30T09:30:00Z","body":"%d"}`+"\n", i, i)
		}
		got, err := im.importPosts(&publishingStore{im.db, t, 5}, importer.Options{File: im.writeFile("a.jsonl", text.String())})
		if err != nil || got.NewItems != 100 || len(im.postLinesOf("ann")) != 100 {
			t.Errorf("%+v, %v", got, err)
		}
		im2 := newImporter(t, im.db)
		_, err = im2.importPosts(&publishingStore{im.db, t, 1000}, importer.Options{File: "-", Input: strings.NewReader(strings.ReplaceAll(text.String(), `:"k`, `:"l`))})
		if err == nil || !strings.Contains(err.Error(), "lines to 100") {
			t.Errorf("when it never ends: %v", err)
		}
		if posts := im.postLinesOf("ann"); len(posts) != 100 {
			t.Errorf("%d posts of an import that did not come through", len(posts))
		}
	})
}

// However posts are distributed over files, batches and milliseconds, each has its own time and a unique ID, and within a
// millisecond the later line is the newer post.
func TestOrderOfImportedPosts(t *testing.T) {
	histories.ReduceRapidChecks(t, 5)
	rapid.Check(t, func(r *rapid.T) {
		im := sqliteImporter(t)
		defer func() { _ = im.db.Close() }()
		began := time.Date(2026, 1, 30, 9, 30, 0, 0, time.UTC)
		type placed struct { // a post of the file; ms is its time in milliseconds after began
			ms   int
			body string
		}
		var all []placed
		for file := range rapid.IntRange(1, 3).Draw(r, "files") {
			var text strings.Builder
			for i, ms := range rapid.SliceOfN(rapid.IntRange(0, 5), 0, 30).Draw(r, "milliseconds") {
				one := placed{ms, fmt.Sprintf("%d/%d", file, i)}
				all = append(all, one)
				moment := began.Add(time.Duration(ms) * time.Millisecond).Format(time.RFC3339Nano)
				fmt.Fprintf(&text, `{"author":"ann","at":"%s","body":"%s"}`+"\n", moment, one.body)
			}
			im.mustImportPosts(importer.Options{File: "-", Input: strings.NewReader(text.String()), BatchSize: rapid.IntRange(1, 7).Draw(r, "batch")})
		}
		slices.SortStableFunc(all, func(a, b placed) int { return a.ms - b.ms })
		var want []string
		for _, one := range slices.Backward(all) {
			want = append(want, one.body+" "+began.Add(time.Duration(one.ms)*time.Millisecond).Format("15:04:05.000"))
		}
		if diff := cmp.Diff(want, im.postLinesOf("ann")); diff != "" {
			r.Fatalf("the feed (-want +got):\n%s", diff)
		}
	})
}
