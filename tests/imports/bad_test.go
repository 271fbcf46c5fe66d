package imports

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/social"
)

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

// Each bad line is reported with its number and reason, and written unchanged to the file of bad lines. After corrections
// that file can be imported.
func TestBadLinesAreSetAside(t *testing.T) {
	im := sqliteImporter(t)
	path := im.writeFile("f.csv", "alice,bob\nalice,alice\nbob\n\"bob,carol\ncarol,da\u200bve\nbob,alice\n")
	got := im.mustImportFollows(importer.Options{File: path})
	if want := (importer.Report{Kind: "follows", LastLine: 6, GoodRows: 2, NewItems: 2, BadLines: 4, BadFile: path + ".bad"}); got != want {
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
	if got := im.mustImportFollows(importer.Options{File: im.writeFile("f.csv.bad", mended)}); got.NewItems != 4 || got.BadLines != 0 {
		t.Errorf("the mended lines: %+v", got)
	}
	if diff := cmp.Diff([]string{"alice>bob", "alice>carol", "bob>alice", "bob>carol", "bob>dave", "carol>dave"}, im.followPairs("alice", "bob", "carol", "dave")); diff != "" {
		t.Error(diff)
	}
	// Importing a file without bad lines removes a file of bad lines from an earlier run.
	im.mustImportFollows(importer.Options{File: im.writeFile("f.csv", "alice,bob\n")})
	if _, err := os.Stat(path + ".bad"); !os.IsNotExist(err) {
		t.Errorf("the bad lines of the import before are still there: %v", err)
	}
}

func TestOnlyTheFirstBadLinesArePrinted(t *testing.T) {
	im := sqliteImporter(t)
	got := im.mustImportFollows(importer.Options{File: im.writeFile("f.csv", "alice,bob\n"+strings.Repeat("x\n", 3_000)+strings.Repeat("y", 9_000)+",b\nbob,alice\n"), BatchSize: 100})
	if got.BadLines != 3_001 || got.NewItems != 2 || got.LastLine != 3_003 {
		t.Errorf("got %+v", got)
	}
	if n := strings.Count(im.out.String(), "\n"); n != 21 || !strings.Contains(im.out.String(), "further bad lines are in "+got.BadFile) {
		t.Errorf("%d lines were printed:\n%s", n, im.out.String())
	}
	text := im.readFile(got.BadFile)
	if n := strings.Count(text, "\n"); n != 2*3_001 || !strings.Contains(text, "# line 3002: longer than 4096 bytes\nyyy") {
		t.Errorf("%d lines are put aside", n)
	}
}

// Progress is printed as the options say: in lines, as a bar, or not at all.
func TestProgress(t *testing.T) {
	text := "alice,bob\n" + strings.Repeat("bob,alice\n", 999)
	for name, c := range map[string]struct {
		opts importer.Options
		step time.Duration
		want func(printed string) bool
	}{
		"a line each 5 s": {importer.Options{}, 3 * time.Second, func(printed string) bool {
			return strings.Count(printed, "\n") == 2 && strings.Contains(printed, "100 %")
		}},
		"no line before": {importer.Options{}, 100 * time.Millisecond, func(printed string) bool { return printed == "" }},
		"a bar": {importer.Options{OutIsTerminal: true}, 200 * time.Millisecond, func(printed string) bool {
			return strings.Count(printed, "\r[====") >= 4 && strings.HasSuffix(printed, " \r")
		}},
		"nothing if quiet": {importer.Options{Quiet: true}, time.Minute, func(printed string) bool { return printed == "" }},
		"no bar if quiet":  {importer.Options{Quiet: true, OutIsTerminal: true}, time.Minute, func(printed string) bool { return printed == "" }},
		"no share of a pipe": {importer.Options{File: "-", Input: strings.NewReader(text)}, 6 * time.Second, func(printed string) bool {
			return strings.Contains(printed, "250 rows  ") && strings.Contains(printed, " follows/s\n") && !strings.Contains(printed, "%")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			im := sqliteImporter(t)
			if c.opts.File == "" {
				c.opts.File = im.writeFile("f.csv", text)
			}
			c.opts.BatchSize, c.opts.Out, c.opts.Clock = 250, &im.out, &tickingClock{now: im.now, step: c.step}
			report, err := social.ImportFile(t.Context(), im.db, services.NewIDClock(im, 1), c.opts)
			if err != nil || report.GoodRows != 1000 || report.Took <= 0 {
				t.Fatalf("%v; %+v", err, report)
			}
			if printed := im.out.String(); !c.want(printed) {
				t.Errorf("printed: %q", printed)
			}
		})
	}
}
