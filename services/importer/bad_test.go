package importer

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
)

// Each bad line is reported with its number and reason, and written unchanged to the file of bad lines. After corrections
// that file can be imported.
func TestBadLinesAreSetAside(t *testing.T) {
	im := sqliteImporter(t)
	path := im.writeFile("f.csv", "alice,bob\nalice,alice\nbob\n\"bob,carol\ncarol,da\u200bve\nbob,alice\n")
	got := im.mustImportFollows(Options{File: path})
	if want := (Report{Kind: "follows", LastLine: 6, GoodRows: 2, NewItems: 2, BadLines: 4, BadFile: path + ".bad"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want := `# line 2: "alice" cannot follow themselves
alice,alice
# line 3: 2 or 3 columns are needed, follower,followee,since; got 1
bob
# line 4: broken quotes
"bob,carol
` + "# line 5: user key \"da\\u200bve\": only printable characters are allowed\ncarol,da\u200bve\n"
	if diff := cmp.Diff(want, im.readFile(path+".bad")); diff != "" {
		t.Errorf("put aside (-want +got):\n%s", diff)
	}
	for line := range strings.Lines(want) {
		if printed, isRemark := strings.CutPrefix(line, "# "); isRemark && !strings.Contains(im.out.String(), printed) {
			t.Errorf("not printed: %s", printed)
		}
	}
	mended := strings.NewReplacer("alice,alice", "alice,carol", "\nbob\n", "\nbob,dave\n", "\"bob", "bob", "da\u200bve", "dave").Replace(want)
	if got := im.mustImportFollows(Options{File: im.writeFile("f.csv.bad", mended)}); got.NewItems != 4 || got.BadLines != 0 {
		t.Errorf("the mended lines: %+v", got)
	}
	if diff := cmp.Diff([]string{"alice>bob", "alice>carol", "bob>alice", "bob>carol", "bob>dave", "carol>dave"}, im.followPairs("alice", "bob", "carol", "dave")); diff != "" {
		t.Error(diff)
	}
	// Importing a file without bad lines removes a file of bad lines from an earlier run.
	im.mustImportFollows(Options{File: im.writeFile("f.csv", "alice,bob\n")})
	if _, err := os.Stat(path + ".bad"); !os.IsNotExist(err) {
		t.Errorf("the bad lines of the import before are still there: %v", err)
	}
}

func TestOnlyTheFirstBadLinesArePrinted(t *testing.T) {
	im := sqliteImporter(t)
	got := im.mustImportFollows(Options{File: im.writeFile("f.csv", "alice,bob\n"+strings.Repeat("x\n", 3_000)+strings.Repeat("y", 9_000)+",b\nbob,alice\n"), BatchSize: 100})
	if got.BadLines != 3_001 || got.NewItems != 2 || got.LastLine != 3_003 {
		t.Errorf("got %+v", got)
	}
	if n := strings.Count(im.out.String(), "\n"); n != maxPrintedBadLines+1 || !strings.Contains(im.out.String(), "further bad lines are in "+got.BadFile) {
		t.Errorf("%d lines were printed:\n%s", n, im.out.String())
	}
	text := im.readFile(got.BadFile)
	if n := strings.Count(text, "\n"); n != 2*3_001 || !strings.Contains(text, "# line 3002: longer than 4096 bytes\nyyy") {
		t.Errorf("%d lines are put aside", n)
	}
}

// Bad lines of an earlier run that are read again are removed from the file first.
func TestBadLinesOfAnEarlierRun(t *testing.T) {
	im := sqliteImporter(t)
	const before = "# line 3: reason\nx\n# line 7: reason\ny\n"
	for done, want := range map[int64]string{7: before, 6: "# line 3: reason\nx\n", 3: "# line 3: reason\nx\n", 2: ""} {
		bad := badLines{path: im.writeFile("f.bad", before), out: &im.out}
		if err := bad.reopenCutAfter(done); err != nil {
			t.Fatal(err)
		}
		if got := int64(strings.Count(want, "#")); bad.count != got {
			t.Errorf("after line %d: %d bad lines, want %d", done, bad.count, got)
		}
		bad.add(9, []byte("z"), errConnectionGone)
		if err := bad.close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want+"# line 9: "+errConnectionGone.Error()+"\nz\n", im.readFile(bad.path)); diff != "" {
			t.Errorf("after line %d (-want +got):\n%s", done, diff)
		}
	}
	// A run that died while it wrote a remark left a part of it, from which no line number can be read.
	cut := badLines{path: im.writeFile("f.bad", "# line 3: reason\nx\n# line 1"), out: &im.out}
	if err := cut.reopenCutAfter(3); err != nil {
		t.Fatal(err)
	}
	cut.add(17, []byte("z"), errConnectionGone)
	if err := cut.close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("# line 3: reason\nx\n# line 17: "+errConnectionGone.Error()+"\nz\n", im.readFile(cut.path)); diff != "" {
		t.Errorf("after half a remark (-want +got):\n%s", diff)
	}
	missing := badLines{path: im.dir + "/none.bad", out: &im.out}
	if err := missing.reopenCutAfter(5); err != nil || missing.count != 0 || missing.pathIfAny() != "" {
		t.Errorf("without a file: %v, %d", err, missing.count)
	}
}

// tickingClock is a clock that advances by a step at each reading.
type tickingClock struct {
	now  time.Time
	step time.Duration
}

// Now advances the clock by a step, and returns the new time.
func (c *tickingClock) Now() time.Time {
	c.now = c.now.Add(c.step)
	return c.now
}

// Progress is printed as the options say: in lines, as a bar, or not at all.
func TestProgress(t *testing.T) {
	text := "alice,bob\n" + strings.Repeat("bob,alice\n", 999)
	for name, c := range map[string]struct {
		opts Options
		step time.Duration
		want func(printed string) bool
	}{
		"a line each 5 s": {Options{}, 3 * time.Second, func(printed string) bool {
			return strings.Count(printed, "\n") == 2 && strings.Contains(printed, "100 %")
		}},
		"no line before": {Options{}, 100 * time.Millisecond, func(printed string) bool { return printed == "" }},
		"a bar": {Options{OutIsTerminal: true}, 200 * time.Millisecond, func(printed string) bool {
			return strings.Count(printed, "\r[====") >= 4 && strings.HasSuffix(printed, " \r")
		}},
		"nothing if quiet": {Options{Quiet: true}, time.Minute, func(printed string) bool { return printed == "" }},
		"no bar if quiet":  {Options{Quiet: true, OutIsTerminal: true}, time.Minute, func(printed string) bool { return printed == "" }},
		"no share of a pipe": {Options{File: "-", Input: strings.NewReader(text)}, 6 * time.Second, func(printed string) bool {
			return strings.Contains(printed, "250 rows  ") && strings.Contains(printed, " follows/s\n") && !strings.Contains(printed, "%")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			im := sqliteImporter(t)
			if c.opts.File == "" {
				c.opts.File = im.writeFile("f.csv", text)
			}
			c.opts.BatchSize, c.opts.Out, c.opts.Clock = 250, &im.out, &tickingClock{now: im.now, step: c.step}
			report, err := Follows(t.Context(), im.db, services.NewIDClock(im, 1), c.opts)
			if err != nil || report.GoodRows != 1000 || report.Took <= 0 {
				t.Fatalf("%v; %+v", err, report)
			}
			if printed := im.out.String(); !c.want(printed) {
				t.Errorf("printed: %q", printed)
			}
		})
	}
}

// The rate is the rate of this run. The remaining time is estimated from the bytes since the start of this run.
func TestProgressText(t *testing.T) {
	clock := &tickingClock{now: time.Unix(0, 0)}
	p := newProgress(Options{Clock: clock}, 1_000, clock.now)
	report := Report{Kind: "follows", GoodRows: 30_000, NewItems: 50_000, SkippedRows: 10_000}
	if got, want := p.text(report, 250, 10*time.Second), " 25 %  30,000 rows  6,000 follows/s  30s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.startAt(200)
	if got := p.text(report, 250, 10*time.Second); !strings.HasSuffix(got, "  2m30s left") {
		t.Errorf("after 20 %% were done before: %q", got)
	}
	p.drawsBar = true
	if got := p.text(report, 1_200, 10*time.Second); !strings.HasPrefix(got, "["+strings.Repeat("=", barWidth)+"] 100 %") || !strings.HasSuffix(got, " 0s left") || len(got) > 79 {
		t.Errorf("at the end: %q", got)
	}
}

// A line that is longer than the buffers is one line, and bounded.
func TestLongLines(t *testing.T) {
	im := sqliteImporter(t)
	s, err := openSource(Options{File: im.writeFile("f", fmt.Sprintf("%s\nb\n%s", strings.Repeat("a", 1<<20), strings.Repeat("c", 300_000)))})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		line, err := s.nextLine()
		if err != nil {
			break
		}
		got = append(got, fmt.Sprintf("%d:%c%d", s.lineNumber, line[0], len(line)))
	}
	if diff := cmp.Diff([]string{"1:a4097", "2:b1", "3:c4097"}, got); diff != "" {
		t.Error(diff)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
