package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPublishToEverybody(t *testing.T) {
	asked := map[string]int{}
	a := startStubAPI(t, func(q receivedRequest) string {
		if q.token != hostToken {
			t.Errorf("asked as %s", q.token)
		}
		asked[q.Query]++
		return `{"data":{}}`
	})
	for _, what := range []string{announcementKind, dotKind} {
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
	made := func(who string, took time.Duration, grown int64) *serverWithUsers {
		return &serverWithUsers{
			label: who, onlineSockets: &socketFleet{sockets: make([]*socket, 3)}, redisGrowthBytesByKind: map[string]int64{announcementKind: grown, dotKind: 0},
			mutationTimesByKind: map[string]series{announcementKind: {{ratePerSecond: 1, latencyP50: took}}, dotKind: {{ratePerSecond: 1, latencyP50: took}}},
		}
	}
	b.reportMillionUsers(made("1,000,000 users", 3*time.Millisecond, 4096), made("10 users", 2*time.Millisecond, 0))
	if len(b.report.resultLines) != 4 || len(b.report.detailLines) != 6 {
		t.Fatalf("%d lines, %d details", len(b.report.resultLines), len(b.report.detailLines))
	}
	var verdicts []string
	for _, l := range b.report.resultLines {
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
