package importer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// errUnusable is the reason of the bad lines.
var errUnusable = errors.New("it cannot be used")

// writeFile writes a file in a new folder and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readFile returns the text of a file.
func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Bad lines of an earlier run that are read again are removed from the file first.
func TestBadLinesOfAnEarlierRun(t *testing.T) {
	const before = "# line 3: reason\nx\n# line 7: reason\ny\n"
	for done, want := range map[int64]string{7: before, 6: "# line 3: reason\nx\n", 3: "# line 3: reason\nx\n", 2: ""} {
		bad := badLines{path: writeFile(t, before), out: io.Discard, maxKeptBytes: 100}
		if err := bad.reopenCutAfter(done); err != nil {
			t.Fatal(err)
		}
		if got := int64(strings.Count(want, "#")); bad.count != got {
			t.Errorf("after line %d: %d bad lines, want %d", done, bad.count, got)
		}
		bad.add(9, []byte("z"), errUnusable)
		if err := bad.close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want+"# line 9: "+errUnusable.Error()+"\nz\n", readFile(t, bad.path)); diff != "" {
			t.Errorf("after line %d (-want +got):\n%s", done, diff)
		}
	}
	// A run that died while it wrote a remark left a part of it, from which no line number can be read.
	cut := badLines{path: writeFile(t, "# line 3: reason\nx\n# line 1"), out: io.Discard, maxKeptBytes: 100}
	if err := cut.reopenCutAfter(3); err != nil {
		t.Fatal(err)
	}
	cut.add(17, []byte("z"), errUnusable)
	if err := cut.close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("# line 3: reason\nx\n# line 17: "+errUnusable.Error()+"\nz\n", readFile(t, cut.path)); diff != "" {
		t.Errorf("after half a remark (-want +got):\n%s", diff)
	}
	missing := badLines{path: t.TempDir() + "/none.bad", out: io.Discard, maxKeptBytes: 100}
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

// The rate is the rate of this run. The remaining time is estimated from the bytes since the start of this run.
func TestProgressText(t *testing.T) {
	clock := &tickingClock{now: time.Unix(0, 0)}
	p := newProgress(Options{Clock: clock}, Form{CountedUnit: "follows"}, 1_000, clock.now)
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
	s, err := openSource(Options{File: writeFile(t, fmt.Sprintf("%s\nb\n%s", strings.Repeat("a", 1<<20), strings.Repeat("c", 300_000)))}, Form{MaxBytesPerLine: 4096})
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
