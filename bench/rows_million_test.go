package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPublishToEverybody(t *testing.T) {
	asked := map[string]int{}
	a := stubAPI(t, func(q question) string {
		if q.token != hostToken {
			t.Errorf("asked as %s", q.token)
		}
		asked[q.Query]++
		return `{"data":{}}`
	})
	for _, what := range []string{announcement, dot} {
		for i := range 2 * dotCount {
			if err := a.publishToAll(t.Context(), what, i); err != nil {
				t.Fatal(err)
			}
		}
	}
	raised := 0
	for query := range asked {
		if strings.Contains(query, "raiseDot") {
			raised++
		}
	}
	if raised != dotCount || len(asked) != dotCount+1 {
		t.Errorf("%d different dots were raised: %v", raised, asked)
	}
}

func TestReportMillion(t *testing.T) {
	b := &bench{report: &report{}}
	made := func(who string, took time.Duration, grown int64) *audience {
		return &audience{
			who: who, fleet: &fleet{sockets: make([]*socket, 3)}, grown: map[string]int64{announcement: grown, dot: 0},
			delays: map[string]series{announcement: {{rate: 1, p50: took}}, dot: {{rate: 1, p50: took}}},
		}
	}
	b.reportMillion(made("1,000,000 users", 3*time.Millisecond, 4096), made("10 users", 2*time.Millisecond, 0))
	if len(b.report.lines) != 4 || len(b.report.details) != 6 {
		t.Fatalf("%d lines, %d details", len(b.report.lines), len(b.report.details))
	}
	var verdicts []string
	for _, l := range b.report.lines {
		verdicts = append(verdicts, fmt.Sprint(formatFigure(l.value), " ", l.goal.verdict(l.value)))
	}
	if got := strings.Join(verdicts, ", "); got != "1.50 no, 4.00 no, 1.50 no, 0.00 yes" {
		t.Errorf("got %s", got)
	}
}

func TestSum(t *testing.T) {
	if got := sum([]time.Duration{time.Second, 2 * time.Second}); got != 3*time.Second || sum(nil) != 0 {
		t.Errorf("got %v", got)
	}
}
