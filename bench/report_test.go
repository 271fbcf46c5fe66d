package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGoalVerdict(t *testing.T) {
	for _, test := range []struct {
		goal  goal
		value float64
		want  string
	}{
		{atLeast(1.5, ""), 1.5, "yes"}, {atLeast(1.5, ""), 1.49, "no"}, {atLeast(1.5, ""), nan, "?"},
		{atMost(0.25, ""), 0.25, "yes"}, {atMost(0.25, ""), 0.26, "no"}, {atMost(0.25, ""), nan, "?"},
		{goal{}, 1, ""}, {goal{}, nan, ""},
	} {
		if got := test.goal.verdict(test.value); got != test.want {
			t.Errorf("%+v of %v: %q, want %q", test.goal, test.value, got, test.want)
		}
	}
}

func TestFigure(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0.00", 0.256: "0.26", 9.99: "9.99", 12.34: "12.3", 123.4: "123", 999.6: "1,000", 99.96: "100", 9.996: "10.0", 1234: "1,234", 1234567.8: "1,234,568", -1234: "-1,234", -5: "-5.00",
	} {
		if got := formatFigure(value); got != want {
			t.Errorf("formatFigure(%v) = %q, want %q", value, got, want)
		}
	}
	if got := formatFigure(nan); got != "?" {
		t.Errorf("formatFigure(NaN) = %q", got)
	}
	if got := formatMilliseconds(1500 * time.Microsecond); got != "1.50 ms" {
		t.Errorf("formatMilliseconds = %q", got)
	}
}

func TestAlignedColumns(t *testing.T) {
	got := alignRows([][]string{{"a", "bb", "c"}, {"wide", "", "é"}, {"x", "yyy", ""}})
	want := "a     bb   c\nwide       é\nx     yyy\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// newReportWithAllLines returns a report with a line of every kind.
func newReportWithAllLines() *report {
	return &report{
		machine: []string{"processor: Example", "Go: 1.26"}, command: "go run ./bench --rounds 2",
		date: time.Date(2026, 1, 31, 9, 30, 0, 0, time.FixedZone("", 3600)),
		resultLines: []resultLine{
			{measurement: "badge query", reference: "(a) baseline", ourFigure: "3,000/s", referenceFigure: "2,000/s", value: 1.5, unit: "x", goal: atLeast(1.5, ">= 1.5 x")},
			{measurement: "memory", reference: "x | y", ourFigure: "9.00 KB", value: 0.3, unit: "x", goal: atMost(0.25, "<= 0.25 x")},
			{measurement: "board", reference: "badge query", goal: atLeast(0.5, ">= 0.5 x"), whyAbsent: "no board\nyet"},
		},
		detailLines: []detailLine{
			{measurement: "badge query", label: "ours", results: series{
				{ratePerSecond: 2990, latencyP50: time.Millisecond, latencyP99: 5 * time.Millisecond, serverCPUPerAnswer: 100 * time.Microsecond, bytesPerSocketOrEntry: nan},
				{ratePerSecond: 3010, latencyP50: time.Millisecond, latencyP99: 5 * time.Millisecond, serverCPUPerAnswer: 100 * time.Microsecond, bytesPerSocketOrEntry: nan},
			}},
			{measurement: "sockets", label: "ours", results: series{{ratePerSecond: nan, serverCPUPerAnswer: -1, bytesPerSocketOrEntry: 9 * 1024}}},
		},
		clientCPULines: []string{"badge query, ours: 9.00 us"},
		notes:          []string{"Everything shares the processors."},
	}
}

func TestMarkdown(t *testing.T) {
	var out strings.Builder
	if err := newReportWithAllLines().writeMarkdown(&out); err != nil {
		t.Fatal(err)
	}
	want := `# Results

Written by ` + "`go run ./bench --rounds 2`" + ` on 31 January 2026, 08:30 UTC. ` + "`README.md`" + ` says what is measured and how.

## Machine

- processor: Example
- Go: 1.26

## Table

Rates are answers or events a second, medians of the rounds. A result in "x" is a ratio of ours to theirs.

| what | baseline or limit in the same run | ours | theirs | result | goal | met |
|---|---|---|---|---|---|---|
| badge query | (a) baseline | 3,000/s | 2,000/s | 1.50 x | >= 1.5 x | yes |
| memory | x \| y | 9.00 KB |  | 0.30 x | <= 0.25 x | no |
| board | badge query |  |  | not measured: no board yet | >= 0.5 x |  |

## Behind it

Medians of the rounds. "Server CPU each" is the processor time of the server's process for one answer or event, without Redis and the client; "spread" is how far the rates of the rounds lie apart.

| what | who | per second | p50 | p99 | server CPU each | memory each | spread | rounds |
|---|---|---|---|---|---|---|---|---|
| badge query | ours | 3,000 | 1.00 ms | 5.00 ms | 100 us |  | 1 % | 2 |
| sockets | ours |  |  |  |  | 9.00 KB |  | 1 |

## Client

The processor time of the bench itself for one answer, beside that of the servers above: it takes its part of the processors from the faster program most.

- badge query, ours: 9.00 us

## To be known

- Everything shares the processors.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestMarkdownMarksAQuickRun(t *testing.T) {
	r := newReportWithAllLines()
	r.quickRun = true
	var out strings.Builder
	if err := r.writeMarkdown(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "Its figures say nothing.") {
		t.Errorf("no warning in\n%s", out.String())
	}
}

func TestRateAndCPU(t *testing.T) {
	known := series{{ratePerSecond: 1000, serverCPUPerAnswer: 20 * time.Microsecond}, {ratePerSecond: 3000, serverCPUPerAnswer: 40 * time.Microsecond}}
	if got := formatRateAndCPU(known); got != "2,000/s, 30.0 us" {
		t.Errorf("got %q", got)
	}
	if got := formatRateAndCPU(series{{ratePerSecond: 1000, serverCPUPerAnswer: -1}}); got != "1,000/s" {
		t.Errorf("without the processor time: %q", got)
	}
	var l resultLine
	l.compareCPU(&contender{results: known}, &contender{results: series{{ratePerSecond: 500, serverCPUPerAnswer: 60 * time.Microsecond}}})
	if l.value != 0.5 || l.referenceFigure != "500/s, 60.0 us" {
		t.Errorf("got %+v", l)
	}
}

func TestMissingBaselineIsLeftOut(t *testing.T) {
	b := &bench{}
	absent, err := b.startBaseline(t.Context(), func(context.Context) (*program, error) { return nil, errNodeJSMissing })
	if err != nil || absent.program != nil || absent.whyAbsent != errNodeJSMissing.Error() {
		t.Errorf("got %+v, %v", absent, err)
	}
	absent.stop()
	broken := errors.New("broken")
	if _, err := b.startBaseline(t.Context(), func(context.Context) (*program, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("any other error ends the run: %v", err)
	}
	bun, mercurius, all := b.addBaselineContenders(badgeQuery, absent, absent, &contender{})
	if bun != nil || mercurius != nil || len(all) != 1 {
		t.Errorf("got %v, %v, %v", bun, mercurius, all)
	}
}

func TestBunIsFoundAmongThePackages(t *testing.T) {
	folder := t.TempDir()
	if got := findBunBinary(folder); got != "" {
		t.Errorf("nothing is installed: %q", got)
	}
	want := filepath.Join(folder, "node_modules", "@oven", "bun-linux-x64", "bin", "bun")
	if err := errors.Join(os.MkdirAll(filepath.Dir(want), 0o700), os.WriteFile(want, nil, 0o700)); err != nil {
		t.Fatal(err)
	}
	if got := findBunBinary(folder); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEmptySectionsAreOmitted(t *testing.T) {
	r := newReportWithAllLines()
	r.everyoneCheckLines, r.scriptTimeLines, r.notes = []string{"10 of 10 badges right"}, []string{"inbox_add: 0.30 ms"}, nil
	var out strings.Builder
	if err := r.writeMarkdown(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## Everyone\n\nA real follow graph", "\n\n- 10 of 10 badges right\n\n## Scripts\n\n", "\n\n- inbox_add: 0.30 ms\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "To be known") {
		t.Errorf("a heading without anything below it in\n%s", out.String())
	}
}

func TestPrintTable(t *testing.T) {
	var out strings.Builder
	if err := newReportWithAllLines().printTable(&out); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(out.String(), "\n")
	if len(rows) != 6 || !strings.HasPrefix(rows[4], "badge query, ours: 9.00 us") || !strings.HasPrefix(rows[0], "what ") || !strings.HasSuffix(rows[1], "yes") || !strings.HasSuffix(rows[2], "no") {
		t.Errorf("got\n%s", out.String())
	}
	if !strings.Contains(rows[3], "not measured: no board") {
		t.Errorf("the line without a value does not say why:\n%s", rows[3])
	}
}

// brokenWriter is a writer that always fails.
type brokenWriter struct{}

// errBrokenWriter is what brokenWriter returns.
var errBrokenWriter = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBrokenWriter }

func TestReportThatCannotBeWrittenIsAnError(t *testing.T) {
	if err := newReportWithAllLines().writeMarkdown(brokenWriter{}); !errors.Is(err, errBrokenWriter) {
		t.Errorf("writeMarkdown: %v", err)
	}
	if err := newReportWithAllLines().printTable(brokenWriter{}); !errors.Is(err, errBrokenWriter) {
		t.Errorf("printTable: %v", err)
	}
}
