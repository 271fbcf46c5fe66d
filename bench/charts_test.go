package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The charts in the repository show the figures of bench/RESULTS.md: after a change of either, run `go run ./bench --charts`.
func TestChartFilesAreDrawnFromTheResults(t *testing.T) {
	text, err := os.ReadFile("RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := tableRows(string(text), detailTableHead)
	for _, c := range charts {
		want, err := c.drawSVG(rows)
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if got, err := os.ReadFile(filepath.Join("..", chartsFolder, c.file)); err != nil || string(got) != want {
			t.Errorf("%s is not drawn from RESULTS.md (%v): go run ./bench --charts", c.file, err)
		}
		for _, page := range []string{"../README.md", "../docs/compare.md"} {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			_, alt, shown := strings.Cut(string(text), c.file+`" `)
			alt, _, _ = strings.Cut(alt, ">")
			for _, b := range c.bars {
				if _, number, _ := c.valueOf(b, rows); shown && !strings.Contains(alt, " "+number) {
					t.Errorf("%s describes %s without the %s of %s: %s", page, c.file, number, b.rowPrefix, alt)
				}
			}
		}
		for _, b := range c.bars {
			if value, shown, found := c.valueOf(b, rows); !found || value <= 0 || !strings.Contains(want, ">"+shown+"</text>") {
				t.Errorf("%s does not show %s: %v %q", c.file, b.rowPrefix, value, shown)
			}
		}
	}
}

func TestChartIsDrawnFromAReport(t *testing.T) {
	var report strings.Builder
	if err := newReportWithAllLines().writeMarkdown(&report); err != nil {
		t.Fatal(err)
	}
	c := chart{"c.svg", "Badges & more", "a second", "per second", "badge query", []bar{{"ours", "Tidings"}, {"theirs", "a baseline"}}}
	svg, err := c.drawSVG(tableRows(report.String(), detailTableHead))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(svg, "<title>Badges &amp; more: a second. Tidings 3,000</title>") || strings.Contains(svg, "a baseline") {
		t.Errorf("a chart with one bar and no baseline is wanted:\n%s", svg)
	}
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
	}
	c.bars[0].rowPrefix = "nobody"
	if _, err := c.drawSVG(tableRows(report.String(), detailTableHead)); !errors.Is(err, errNotMeasured) {
		t.Errorf("without a bar of ours: %v", err)
	}
}

// A run with a few rows leaves the other charts unchanged, and says so.
func TestPartialRunLeavesOtherChartsUnchanged(t *testing.T) {
	folder := t.TempDir()
	results := filepath.Join(folder, "RESULTS.md")
	table := "# Results\n\n| " + strings.Join(detailTableHead, " | ") + " |\n" + strings.Repeat("|---", len(detailTableHead)) + "|\n" +
		"| home feed page of 20 | Tidings | 1,000 | 1.00 ms | 2.00 ms | 3.00 us |  | 1 % | 3 |\n"
	if err := os.WriteFile(results, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "chart-push.svg"), []byte("former"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said []string
	if err := writeCharts(results, folder, func(format string, args ...any) { said = append(said, args[0].(string)) }); err != nil {
		t.Fatal(err)
	}
	if len(said) != len(charts)-1 || !strings.Contains(strings.Join(said, " "), "chart-push.svg") {
		t.Errorf("reported: %q", said)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "chart-push.svg")); err != nil || string(text) != "former" {
		t.Errorf("a chart without rows was changed to %q, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "chart-feed.svg")); err != nil || !strings.Contains(string(text), ">1,000</text>") {
		t.Errorf("the chart of the row: %v\n%s", err, text)
	}
}
