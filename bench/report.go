package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// nan stands for a figure that was not measured.
var nan = math.NaN()

// goal is a lower or an upper bound that the value of a line of the report should meet; the zero value is no goal.
type goal struct {
	atLeast, atMost float64 // the bound; the other one is 0
	text            string  // how the table shows the goal
}

// atLeast and atMost make goals. text is how the table shows the goal.
func atLeast(bound float64, text string) goal { return goal{atLeast: bound, text: text} }
func atMost(bound float64, text string) goal  { return goal{atMost: bound, text: text} }

// verdict returns "yes" or "no": whether a value meets the goal. It is "" if there is no goal, and "?" if there is no value.
func (g goal) verdict(value float64) string {
	switch {
	case g == (goal{}):
		return ""
	case math.IsNaN(value):
		return "?"
	case g.atLeast > 0 && value >= g.atLeast, g.atMost > 0 && value <= g.atMost:
		return "yes"
	}
	return "no"
}

// resultLine is one line of the table of results: a measurement, or the reason why it failed.
type resultLine struct {
	measurement     string  // what was measured
	reference       string  // what our figure is compared with: a baseline or a limit
	ourFigure       string  // our figure, as text
	referenceFigure string  // the figure of the reference, as text
	value           float64 // the value that the goal bounds: a ratio, or a figure of Tidings
	unit            string  // of value; "x" is a ratio
	goal            goal
	whyAbsent       string // "" if there is a value
}

// cells returns the cells of the line in the table.
func (l resultLine) cells() []string {
	if l.whyAbsent != "" {
		return []string{l.measurement, l.reference, "", "", "not measured: " + strings.Join(strings.Fields(l.whyAbsent), " "), l.goal.text, ""}
	}
	return []string{l.measurement, l.reference, l.ourFigure, l.referenceFigure, formatFigure(l.value) + " " + l.unit, l.goal.text, l.goal.verdict(l.value)}
}

// detailLine is one line of the table "Behind it": the series of one program.
type detailLine struct {
	measurement, label string // what is measured, and the program or the kind of requests
	results            series
}

// cells returns the cells of the line in the table "Behind it".
func (d detailLine) cells() []string {
	latency := func(value time.Duration) string {
		if value == 0 {
			return ""
		}
		return formatMilliseconds(value)
	}
	optional := func(value float64, unit string) string {
		if math.IsNaN(value) {
			return ""
		}
		return formatFigure(value) + unit
	}
	spread := ""
	if s := d.results.rateSpread(); len(d.results) > 1 && !math.IsNaN(s) {
		spread = fmt.Sprintf("%.0f %%", 100*s)
	}
	return []string{
		d.measurement, d.label, optional(d.results.medianRate(), ""), latency(d.results.medianLatencyP50()), latency(d.results.medianLatencyP99()),
		optional(d.results.medianServerCPUMicros(), " us"), optional(d.results.medianBytesPerSocketOrEntry()/1024, " KB"), spread, fmt.Sprint(len(d.results)),
	}
}

// report holds the results of a run.
type report struct {
	machine     []string     // the description of the machine, one fact per line
	command     string       // that started the run
	date        time.Time    // when the run began
	quickRun    bool         // whether it was a run with --quick
	resultLines []resultLine // of the table
	detailLines []detailLine // of the table "Behind it"
	// everyoneCheckLines has a line for each check of the rows everyone and liveday: how many badges, feeds or boards were right.
	everyoneCheckLines []string
	// scriptTimeLines has the duration of the slowest call of each Lua script.
	scriptTimeLines []string
	// clientCPULines has a line for each measured program: how much processor time this program, as the client, took for one of its
	// answers.
	clientCPULines []string
	notes          []string // the conditions that a reader must know
}

// The heads of the two tables: of results, and "Behind it".
var (
	resultTableHead = []string{"what", "baseline or limit in the same run", "ours", "theirs", "result", "goal", "met"}
	detailTableHead = []string{"what", "who", "per second", "p50", "p99", "server CPU each", "memory each", "spread", "rounds"}
)

// printTable writes the table of results and the lines of the checks, scripts and client, for a terminal.
func (r *report) printTable(out io.Writer) error {
	rows := [][]string{resultTableHead}
	for _, l := range r.resultLines {
		rows = append(rows, l.cells())
	}
	_, err := io.WriteString(out, alignRows(rows)+strings.Join(append(slices.Concat(r.everyoneCheckLines, r.scriptTimeLines, r.clientCPULines), ""), "\n"))
	return err
}

// writeMarkdown writes the report as bench/RESULTS.md keeps it.
func (r *report) writeMarkdown(out io.Writer) error {
	var text strings.Builder
	text.WriteString("# Results\n\n")
	if r.quickRun {
		text.WriteString("**A quick run, to see that everything works. Its figures say nothing.**\n\n")
	}
	fmt.Fprintf(&text, "Written by `%s` on %s. `README.md` says what is measured and how.\n\n", r.command, r.date.UTC().Format("2 January 2006, 15:04 UTC"))
	text.WriteString("## Machine\n\n")
	for _, fact := range r.machine {
		text.WriteString("- " + fact + "\n")
	}
	text.WriteString("\n## Table\n\nRates are answers or events a second, medians of the rounds. A result in \"x\" is a ratio of ours to theirs.\n\n")
	rows := [][]string{resultTableHead}
	for _, l := range r.resultLines {
		rows = append(rows, l.cells())
	}
	writeTable(&text, rows)
	text.WriteString("\n## Behind it\n\nMedians of the rounds. \"Server CPU each\" is the processor time of the server's process for one answer or event, " +
		"without Redis and the client; \"spread\" is how far the rates of the rounds lie apart.\n\n")
	rows = [][]string{detailTableHead}
	for _, d := range r.detailLines {
		rows = append(rows, d.cells())
	}
	writeTable(&text, rows)
	writeSection(&text, "Everyone", "A real follow graph is imported, some publish, and every person's badge and feed, read through the API, is held "+
		"against a count straight from the rows of the file.", r.everyoneCheckLines)
	writeSection(&text, "Scripts", "The slowest call of each Lua script, by Redis' own clock, over all that this run did.", r.scriptTimeLines)
	writeSection(&text, "Client", "The processor time of the bench itself for one answer, beside that of the servers above: it takes its part of the processors from the faster program most.", r.clientCPULines)
	writeSection(&text, "To be known", "", r.notes)
	_, err := io.WriteString(out, text.String())
	return err
}

// writeSection writes items as a list, under a heading and the sentence about. It writes nothing if there are no items.
func writeSection(text *strings.Builder, heading, about string, items []string) {
	if len(items) == 0 {
		return
	}
	text.WriteString("\n## " + heading + "\n\n")
	if about != "" {
		text.WriteString(about + "\n\n")
	}
	for _, item := range items {
		text.WriteString("- " + item + "\n")
	}
}

// writeTable writes a Markdown table. The first row is the head.
func writeTable(text *strings.Builder, rows [][]string) {
	for i, row := range rows {
		text.WriteString("|")
		for _, cell := range row {
			text.WriteString(" " + strings.ReplaceAll(cell, "|", "\\|") + " |")
		}
		text.WriteString("\n")
		if i == 0 {
			text.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
}

// alignRows returns the rows as text, in aligned columns.
func alignRows(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		var out strings.Builder
		for i, cell := range row {
			out.WriteString(cell + strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
		}
		text.WriteString(strings.TrimRight(out.String(), " ") + "\n")
	}
	return text.String()
}

// formatFigure prints a number with about three significant digits, and all digits before the point: 12,345, 123, 12.3, 1.23.
func formatFigure(value float64) string {
	switch size := math.Abs(value); {
	case math.IsNaN(value):
		return "?"
	case size >= 999.5:
		return formatThousands(int64(math.Round(value)))
	case size >= 99.95:
		return fmt.Sprintf("%.0f", value)
	case size >= 9.995:
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.2f", value)
}

// formatThousands prints a number with a comma between groups of three digits.
func formatThousands(value int64) string {
	digits := fmt.Sprint(value)
	sign := ""
	if value < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func formatMilliseconds(value time.Duration) string {
	return formatFigure(float64(value)/float64(time.Millisecond)) + " ms"
}
