package main

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// chartsFolder is the folder of the charts: beside the pages that show them.
const chartsFolder = "docs"

// chart is a picture of a few rows of the table "Behind it" in bench/RESULTS.md: a bar for each program.
type chart struct {
	file, title string // the name of the file in chartsFolder, and the text at the top
	unit        string // what the numbers mean, and whether more is better
	valueColumn string // the column of the table that has the numbers
	measurement string // the cell "what" of the rows
	bars        []bar  // our own first
}

// bar is one bar of a chart, for one program: its row is the one whose cell "who" begins with rowPrefix.
type bar struct{ rowPrefix, label string }

// charts are the charts that README.md and docs/compare.md show.
var charts = []chart{
	{"chart-feed.svg", "Home feed, a page of 20", "answers a second, more is better", "per second", "home feed page of 20", []bar{
		{"Tidings", "Tidings"}, {"Bun", "Bun + graphql-jit + Bun's Redis client"}, {"Mercurius", "Mercurius + ioredis"},
		{"stock gqlgen", "stock gqlgen, one Redis call a command"},
	}},
	{"chart-badge.svg", "Badge query over HTTP", "answers a second, more is better", "per second", "badge query over HTTP", []bar{
		{"Tidings, 200 followed", "Tidings"}, {"Bun", "Bun + graphql-jit + Bun's Redis client"}, {"Mercurius", "Mercurius + ioredis"},
		{"our own static", "the limit: a query that reads nothing"},
	}},
	{"chart-push.svg", "10,000 sockets, one event each at once", "events a second, more is better", "per second", "push: 10,000 sockets, one event each at once", []bar{
		{"Tidings", "Tidings, with the read of the document"}, {"stock gqlgen", "stock gqlgen, nothing to read"}, {"bare TCP", "the limit: the same bytes over bare TCP"},
	}},
	{"chart-memory.svg", "Memory of a socket", "KB with one subscription, less is better", "memory each", "push: 10,000 sockets, one event each at once", []bar{
		{"Tidings", "Tidings"}, {"stock gqlgen", "stock gqlgen"}, {"bare TCP", "the limit: a bare TCP connection"},
	}},
	{"chart-counters.svg", "Counters of a hot group, 16 clients", "changes a second, more is better", "per second", "one hot group: a member's counter and sum, 16 clients", []bar{
		{"our script", "Tidings"}, {"a lock key", "a lock key in Redis"}, {"WATCH", "WATCH, MULTI, EXEC"},
	}},
}

// errNotMeasured is the error of a chart whose first row, our own, is not in the results.
var errNotMeasured = errors.New("not measured")

// writeCharts draws every chart whose rows are in a file of results. A chart without our own row stays unchanged, and say reports it.
func writeCharts(results, folder string, say func(format string, args ...any)) error {
	text, err := os.ReadFile(results)
	if err != nil {
		return err
	}
	rows := tableRows(string(text), detailTableHead)
	for _, c := range charts {
		drawn, err := c.drawSVG(rows)
		if errors.Is(err, errNotMeasured) {
			say("%s stays as it is: %v", c.file, err)
			continue
		}
		if err := errors.Join(err, os.WriteFile(filepath.Join(folder, c.file), []byte(drawn), fs.FileMode(0o644))); err != nil {
			return err
		}
	}
	return nil
}

// tableRows reads the rows of the Markdown table with this head. A row maps the name of each column to the text of its cell.
func tableRows(text string, head []string) (rows []map[string]string) {
	var first strings.Builder
	writeTable(&first, [][]string{head})
	_, table, _ := strings.Cut(text, first.String())
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "|") || len(cells) != len(head) {
			break
		}
		row := map[string]string{}
		for i, name := range head {
			row[name] = strings.Trim(cells[i], "| ")
		}
		rows = append(rows, row)
	}
	return rows
}

// valueOf returns the number that a bar shows, and its text in the results. found is false if the row or its cell is
// missing.
func (c chart) valueOf(b bar, rows []map[string]string) (value float64, text string, found bool) {
	for _, row := range rows {
		if row["what"] != c.measurement || !strings.HasPrefix(row["who"], b.rowPrefix) {
			continue
		}
		text = row[c.valueColumn]
		number, _, _ := strings.Cut(strings.ReplaceAll(text, ",", ""), " ")
		value, err := strconv.ParseFloat(number, 64)
		return value, text, err == nil
	}
	return 0, "", false
}

// The dimensions of a chart, in pixels.
const (
	chartWidth        = 420
	chartHeaderHeight = 58 // title and unit
	barStep           = 42 // from one bar to the next
	barHeight         = 14
	barWidest         = 300 // the width of the longest bar
	chartMargin       = 18  // from the left edge to the texts and the bars
)

// chartStyle is the part of a chart with the colours of a dark screen. The colours of a light screen are attributes of the shapes,
// which every program that draws SVG supports.
const chartStyle = `<style>@media (prefers-color-scheme: dark) { .page { fill: #0f172a; stroke: #334155 } .text { fill: #f1f5f9 } .soft { fill: #a8b3c4 } ` +
	`.ours { fill: #60a5fa } .theirs { fill: #64748b } }</style>`

// drawSVG draws the chart. Programs that were not measured are omitted.
func (c chart) drawSVG(rows []map[string]string) (string, error) {
	type drawn struct {
		bar
		value float64
		text  string
	}
	var bars []drawn
	widest := 0.0
	for i, b := range c.bars {
		value, text, found := c.valueOf(b, rows)
		if !found && i == 0 {
			return "", fmt.Errorf("%q of %q: %w", c.valueColumn, c.measurement, errNotMeasured)
		}
		if found {
			bars = append(bars, drawn{b, value, text})
			widest = max(widest, value)
		}
	}
	height := chartHeaderHeight + len(bars)*barStep
	var summary []string
	var out strings.Builder
	for i, b := range bars {
		summary = append(summary, b.label+" "+b.text)
		y, class, fill := chartHeaderHeight+i*barStep, "theirs", "#94a3b8"
		if i == 0 {
			class, fill = "ours", "#2563eb"
		}
		width := max(2, barWidest*b.value/widest)
		fmt.Fprintf(&out, "<text class=\"soft\" x=\"%d\" y=\"%d\" font-size=\"12\" fill=\"#475569\">%s</text>\n", chartMargin, y+10, html.EscapeString(b.label))
		fmt.Fprintf(&out, "<rect class=%q x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\" fill=%q/>\n", class, chartMargin, y+16, width, barHeight, fill)
		fmt.Fprintf(&out, "<text class=\"text\" x=\"%.1f\" y=\"%d\" font-size=\"13\" fill=\"#0f172a\">%s</text>\n", chartMargin+width+8, y+28, html.EscapeString(b.text))
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img" font-family="system-ui, sans-serif">
<title>%[3]s: %[4]s. %[5]s</title>
%[6]s
<rect class="page" x="0.5" y="0.5" width="%[7]d" height="%[8]d" rx="6" fill="#ffffff" stroke="#cbd5e1"/>
<text class="text" x="%[9]d" y="28" font-size="15" font-weight="600" fill="#0f172a">%[3]s</text>
<text class="soft" x="%[9]d" y="46" font-size="12" fill="#475569">%[4]s</text>
%[10]s</svg>
`, chartWidth, height, html.EscapeString(c.title), html.EscapeString(c.unit), html.EscapeString(strings.Join(summary, "; ")), chartStyle,
		chartWidth-1, height-1, chartMargin, out.String()), nil
}
