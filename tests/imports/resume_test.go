package imports

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/people"
	"tidings/services/social"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// errConnectionGone is the error of a write that breakingStore lets fail.
var errConnectionGone = errors.New("the connection is gone")

// breakingStore is a database that fails at its n-th write, before the commit or after it, which the caller cannot distinguish.
type breakingStore struct {
	*sql.DB
	writeCount, failAtWrite int  // the writes so far, and the number of the write that fails; 0: none
	failAfterCommit         bool // the write fails after its commit
}

// Write fails with errConnectionGone if it is the write number failAtWrite. Its transaction is rolled back, or with failAfterCommit
// committed.
func (b *breakingStore) Write(ctx context.Context, fn func(tx *sql.Tx) error) error {
	b.writeCount++
	if b.writeCount != b.failAtWrite {
		return b.DB.Write(ctx, fn)
	}
	if b.failAfterCommit {
		return errors.Join(b.DB.Write(ctx, fn), errConnectionGone)
	}
	return b.DB.Write(ctx, func(tx *sql.Tx) error { return errors.Join(fn(tx), errConnectionGone) })
}

// longFollowsFile is 60 lines: 20 users in a ring, each following the next and the one after it, with bad lines between.
func longFollowsFile() (text string, keys []string) {
	var lines strings.Builder
	lines.WriteString("follower,followee\n")
	for i := range 20 {
		keys = append(keys, fmt.Sprintf("u%d", i))
		fmt.Fprintf(&lines, "u%d,u%d\nu%d,u%d\n", i, (i+1)%20, i, (i+2)%20)
		if i%2 == 0 {
			fmt.Fprintf(&lines, "u%d,u%d\n", i, i)
		}
		if i == 10 {
			for range 9 {
				lines.WriteString("# a remark\n")
			}
		}
	}
	return lines.String(), keys
}

// An import that breaks at any of its writes, once before and once after the commit, has the same result as one that did not
// break: the same follows, and every bad line put aside once.
func TestAnInterruptedImportResumes(t *testing.T) {
	text, keys := longFollowsFile()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		whole := sqliteImporter(t)
		counter := &breakingStore{DB: whole.db}
		want, err := whole.importFollows(counter, importer.Options{File: whole.writeFile("f.csv", text), BatchSize: 7})
		wantPairs, wantBad := whole.followPairs(keys...), whole.readFile(want.BadFile)
		if err != nil || want.NewItems != 40 || want.BadLines != 10 || len(wantPairs) != 40 || counter.writeCount < 5 {
			t.Fatalf("the import that does not break: %v, %d writes, %+v", err, counter.writeCount, want)
		}
		im := newImporter(t, sqltest.Open(t, sql.Config{URL: url}))
		for n := range 2 * counter.writeCount {
			db := &breakingStore{DB: im.db, failAtWrite: n/2 + 1, failAfterCommit: n%2 == 1}
			prefix := fmt.Sprintf("run%d.", n)
			opts := importer.Options{File: im.writeFile(fmt.Sprintf("f%d.csv", n), text), BatchSize: 7, KeyPrefix: prefix}
			if _, err := im.importFollows(db, opts); !errors.Is(err, errConnectionGone) {
				t.Fatalf("run %d: %v", n, err)
			}
			committed := (n + 1) / 2
			second := im.mustImportFollows(opts)
			// The last commit is the end of the file: a run after it is a new import.
			if goesOn := committed > 0 && committed < counter.writeCount; (second.ResumedAfter > 0) != goesOn {
				t.Errorf("run %d, %d commits: it goes on after line %d", n, committed, second.ResumedAfter)
			}
			if second.BadLines != want.BadLines {
				t.Errorf("run %d: %d bad lines, want %d", n, second.BadLines, want.BadLines)
			}
			if got := strings.ReplaceAll(im.readFile(second.BadFile), prefix, ""); got != wantBad {
				t.Errorf("run %d, put aside (-want +got):\n%s", n, cmp.Diff(wantBad, got))
			}
			var named []string
			for _, key := range keys {
				named = append(named, prefix+key)
			}
			got := strings.Fields(strings.ReplaceAll(strings.Join(im.followPairs(named...), " "), prefix, ""))
			if diff := cmp.Diff(wantPairs, got); diff != "" {
				t.Errorf("run %d (-want +got):\n%s", n, diff)
			}
		}
	})
}

// Only an import of the same file with the same options resumes.
func TestAnotherImportStartsFromTheBeginning(t *testing.T) {
	text, keys := longFollowsFile()
	for name, change := range map[string]func(im *testImporter, opts *importer.Options){
		"both ways":    func(_ *testImporter, opts *importer.Options) { opts.BothDirections = true },
		"a prefix":     func(_ *testImporter, opts *importer.Options) { opts.KeyPrefix = "x" },
		"another path": func(im *testImporter, opts *importer.Options) { opts.File = im.writeFile("g.csv", text) },
		"another size": func(im *testImporter, opts *importer.Options) { im.writeFile("f.csv", text+"u1,u9\n") },
		"another content": func(im *testImporter, opts *importer.Options) {
			im.writeFile("f.csv", strings.Replace(text, "u0,u1", "u0,u9", 1))
		},
		"standard input": func(_ *testImporter, opts *importer.Options) { opts.File, opts.Input = "-", strings.NewReader(text) },
		"the same":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			im := sqliteImporter(t)
			opts := importer.Options{File: im.writeFile("f.csv", text), BatchSize: 10}
			if _, err := im.importFollows(&breakingStore{DB: im.db, failAtWrite: 3}, opts); !errors.Is(err, errConnectionGone) {
				t.Fatal(err)
			}
			if change != nil {
				change(im, &opts)
			}
			got := im.mustImportFollows(opts)
			if (got.ResumedAfter > 0) != (change == nil) {
				t.Errorf("it went on after line %d", got.ResumedAfter)
			}
			if n := len(im.followPairs(keys...)); change == nil && n != 40 {
				t.Errorf("%d follows, want 40", n)
			}
		})
	}
}

// An import of standard input cannot resume.
func TestAnImportOfStandardInputCannotResume(t *testing.T) {
	text, _ := longFollowsFile()
	im := sqliteImporter(t)
	for range 2 {
		_, err := im.importFollows(&breakingStore{DB: im.db, failAtWrite: 3}, importer.Options{File: "-", Input: strings.NewReader(text), BatchSize: 10})
		if !errors.Is(err, errConnectionGone) {
			t.Fatal(err)
		}
	}
	if got := im.mustImportFollows(importer.Options{File: "-", Input: strings.NewReader(text)}); got.ResumedAfter != 0 || got.GoodRows != 40 || got.SkippedRows == 0 {
		t.Errorf("got %+v", got)
	}
}

// For a truncated file, the rows before the end are imported and the error names the line. A later import of the complete
// file duplicates nothing.
func TestATruncatedFile(t *testing.T) {
	var text strings.Builder
	for i := range 8_000 {
		fmt.Fprintf(&text, "a%d,b%d\n", i*7919%20_011, i*104_729%20_011)
	}
	im := sqliteImporter(t)
	packed := gzipText(t, text.String())
	path := im.writeFile("f.csv.gz", packed[:len(packed)*2/3])
	first, err := im.importFollows(im.db, importer.Options{File: path, BatchSize: 500})
	want := fmt.Sprintf("is cut off after line %d", first.LastLine)
	if services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), want) || first.NewItems != first.LastLine || first.LastLine < 2_000 {
		t.Fatalf("%v; %+v", err, first)
	}
	second, err := im.importFollows(im.db, importer.Options{File: path, BatchSize: 500})
	if err == nil || !strings.Contains(err.Error(), want) || second.ResumedAfter != first.LastLine || second.NewItems != 0 {
		t.Errorf("again: %v; %+v", err, second)
	}
	third := im.mustImportFollows(importer.Options{File: im.writeFile("f.csv.gz", packed), BatchSize: 500})
	if third.NewItems != 8_000-first.NewItems || third.SkippedRows != first.NewItems {
		t.Errorf("the whole file: %+v after %+v", third, first)
	}
}

// A plain file that was cut within its last row looks like a whole file without its last line break: bo may have been bob. Such a
// row is set aside and reported, and its keys do not become users. An operator who knows that it is complete can import the file of
// bad lines. A compressed file shows by itself whether it was cut off, and a row that ends with CR lacks nothing but its LF.
func TestALastRowWithoutALineBreakIsSetAside(t *testing.T) {
	im := sqliteImporter(t)
	whole := "follower,followee\nalice,bob\nalice,carol,2026-01-31T09:30:00Z\nalice,dave"
	for _, cut := range []int{len(whole), len(whole) - 1, len(whole) - 5, len(whole) - 8} {
		path := im.writeFile("f.csv", whole[:cut])
		got := im.mustImportFollows(importer.Options{File: path})
		if got.GoodRows != 2 || got.BadLines != 1 || got.BadFile != path+".bad" || got.LastLine != 4 {
			t.Errorf("of %q: %+v", whole[:cut], got)
		}
		row := whole[strings.LastIndex(whole, "\n")+1 : cut]
		const reason = "# line 4: the row does not end with a line break, so it may be cut off: if it is complete, import the .bad file\n"
		if put := im.readFile(path + ".bad"); put != reason+row+"\n" || !strings.Contains(im.out.String(), strings.TrimPrefix(reason, "# ")) {
			t.Errorf("of %q: put aside %q, printed %q", whole[:cut], put, im.out.String())
		}
	}
	piped := im.mustImportFollows(importer.Options{File: "-", Input: strings.NewReader("eve,alice\neve,bo")})
	if piped.GoodRows != 1 || piped.BadLines != 1 {
		t.Errorf("of a pipe: %+v", piped)
	}
	keys := []string{"alice", "bob", "carol", "dave", "dav", "eve", "bo"}
	if diff := cmp.Diff([]string{"alice>bob", "alice>carol", "eve>alice"}, im.followPairs(keys...)); diff != "" {
		t.Error(diff)
	}
	if ids, err := people.IDs(t.Context(), im.db, keys); err != nil || len(ids) != 4 {
		t.Errorf("the users are %v, %v", ids, err)
	}
	im.mustImportFollows(importer.Options{File: im.writeFile("f.csv", whole)})
	for name, text := range map[string]string{"f.csv.bad": im.readFile(im.dir + "/f.csv.bad"), "f.csv.gz": gzipText(t, "bob,alice\nbob,dave"), "g.csv": "carol,alice\r\ncarol,dave\r", "h.csv": "dave,bob\n# whole"} {
		if got := im.mustImportFollows(importer.Options{File: im.writeFile(name, text)}); got.BadLines != 0 {
			t.Errorf("%s: %+v\n%s", name, got, im.out.String())
		}
	}
	want := []string{"alice>bob", "alice>carol", "alice>dave", "bob>alice", "bob>dave", "carol>alice", "carol>dave", "dave>bob", "eve>alice"}
	if diff := cmp.Diff(want, im.followPairs("alice", "bob", "carol", "dave", "eve")); diff != "" {
		t.Error(diff)
	}
}

// importChildVariable is the environment variable that tells TestImportChild what to import: URL|PATH, of the database and the file.
const importChildVariable = "TIDINGS_TEST_IMPORT"

// printingStore is a database that prints each commit to the standard output, and blocks after the commit number blockAfterWrite.
type printingStore struct {
	*sql.DB
	writeCount, blockAfterWrite int // the commits so far, and the number of the commit after which Write blocks
}

// Write runs a transaction, prints its number and error, and after the commit number blockAfterWrite blocks until ctx ends.
func (a *printingStore) Write(ctx context.Context, fn func(tx *sql.Tx) error) error {
	err := a.DB.Write(ctx, fn)
	a.writeCount++
	fmt.Println("commit", a.writeCount, err)
	if a.writeCount == a.blockAfterWrite {
		<-ctx.Done()
	}
	return err
}

// TestImportChild is the process that TestAKilledImportResumes kills. Without that test it returns at once.
func TestImportChild(t *testing.T) {
	url, path, asked := strings.Cut(os.Getenv(importChildVariable), "|")
	if !asked {
		return
	}
	db, err := sql.Open(t.Context(), sql.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	_, err = social.ImportFile(t.Context(), &printingStore{DB: db, blockAfterWrite: 3}, services.NewIDClock(services.SystemClock{}, 2), importer.Options{File: path, BatchSize: 10})
	t.Fatal("the import was not killed: ", err)
}

// An import that is killed with kill -9 resumes after its last commit.
func TestAKilledImportResumes(t *testing.T) {
	text, keys := longFollowsFile()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		dir := t.TempDir()
		path := dir + "/f.csv"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestImportChild$")
		child.Env = append(os.Environ(), importChildVariable+"="+url+"|"+path)
		var fault bytes.Buffer
		child.Stderr = &fault
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		last := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if last = lines.Text(); last == "commit 3 <nil>" {
				break
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := child.Wait(); err == nil || last != "commit 3 <nil>" {
			t.Fatalf("the child ended by itself: %v, %q, %s", err, last, fault.String())
		}
		im := newImporter(t, sqltest.Open(t, sql.Config{URL: url}))
		before := len(im.followPairs(keys...))
		if before == 0 || before == 40 {
			t.Fatalf("%d of 40 follows are in when the import is killed", before)
		}
		got := im.mustImportFollows(importer.Options{File: path, BatchSize: 10})
		if got.ResumedAfter == 0 || got.SkippedRows != 0 || int(got.NewItems) != 40-before || got.BadLines != 10 {
			t.Errorf("after %d follows: %+v", before, got)
		}
		if n := len(im.followPairs(keys...)); n != 40 {
			t.Errorf("%d follows, want 40", n)
		}
		if n := strings.Count(im.readFile(got.BadFile), "# line "); n != 10 {
			t.Errorf("%d bad lines are put aside, want 10", n)
		}
	})
}
