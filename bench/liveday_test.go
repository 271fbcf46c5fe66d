package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestReadBoardReadsEveryPage(t *testing.T) {
	pages := []string{
		`{"edges":[{"status":"LIVE","node":{"title":"a"}},{"status":"UPCOMING","node":{"title":"b"}}],"pageInfo":{"hasNextPage":true,"endCursor":"c1"},"end":null}`,
		`{"edges":[{"status":"REPLAY","node":{"title":"c"}}],"pageInfo":{"hasNextPage":false,"endCursor":"c2"},"end":"RETENTION"}`,
	}
	asked := 0
	a := startStubAPI(t, func(q receivedRequest) string {
		if want := []string{"after: null", `after: "c1"`}[asked%2]; !strings.Contains(q.Query, want) {
			t.Errorf("asked was %s, want %s", q.Query, want)
		}
		asked++
		return `{"data":{"viewer":{"liveBoard":` + pages[(asked-1)%2] + `}}}`
	})
	lines, end, err := readBoard(t.Context(), a, "ann", 2)
	if err != nil || end != "RETENTION" || !slices.Equal(lines, []string{"a LIVE", "b UPCOMING", "c REPLAY"}) {
		t.Errorf("%v, %q, %v", lines, end, err)
	}
	for says, page := range map[string]string{
		"a page has none": `{"edges":[],"pageInfo":{"hasNextPage":true}}`,
		"session ended":   `{"edges":[{"node":{}}],"pageInfo":{"hasNextPage":true,"endCursor":"x"},"newSession":true}`,
	} {
		a := startStubAPI(t, func(receivedRequest) string { return `{"data":{"viewer":{"liveBoard":` + page + `}}}` })
		if _, _, err := readBoard(t.Context(), a, "ann", 2); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestWriteBoardFollows(t *testing.T) {
	var text bytes.Buffer
	if err := (&bench{options: options{readersPerFollowCount: 2}}).writeBoardFollows(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if want := 2 * (10 + 200 + 2000); len(lines) != want || lines[10] != fmt.Sprintf("%s,host-0", readerKey(10, 1)) {
		t.Errorf("%d lines, the eleventh is %s; want %d", len(lines), lines[10], want)
	}
}

func TestSecondPageCursorNeedsAFullPage(t *testing.T) {
	page := func(edges int, next bool) string {
		return fmt.Sprintf(`{"data":{"viewer":{"liveBoard":{"edges":[%s],"pageInfo":{"hasNextPage":%t,"endCursor":"c"}}}}}`,
			strings.TrimSuffix(strings.Repeat("{},", edges), ","), next)
	}
	for answer, fits := range map[string]bool{page(pageSize, true): true, page(pageSize, false): false, page(3, true): false} {
		cursor, err := secondPageCursor(t.Context(), startStubAPI(t, func(receivedRequest) string { return answer }), "ann")
		if (err == nil) != fits || fits && cursor != "c" {
			t.Errorf("%.60s: %q, %v", answer, cursor, err)
		}
	}
}
