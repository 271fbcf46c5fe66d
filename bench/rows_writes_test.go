package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// queryRecorder is a server that gives every request the same answer, and keeps the queries that it gets.
type queryRecorder struct {
	mu      sync.Mutex // guards queries
	queries []string   // what it was asked, in order
	answer  string     // the answer to every request
}

func (l *queryRecorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct{ Query string }
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.Header.Get("Authorization") != "Bearer dev:"+writerKey {
		http.Error(w, "not what the writer sends", http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	l.queries = append(l.queries, request.Query)
	l.mu.Unlock()
	_, _ = w.Write([]byte(l.answer)) // the client notices if the answer is missing
}

// newTestSingleWrites returns singleWrites that write to a queryRecorder in place of the server, and to a new database for the bare
// commits.
func newTestSingleWrites(t *testing.T, heard *queryRecorder, posts ...string) *singleWrites {
	t.Helper()
	server := httptest.NewServer(heard)
	t.Cleanup(server.Close)
	bare, err := openRawSQLite(filepath.Join(t.TempDir(), "bare.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bare.Close() })
	if err := createBareCommitTable(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	floor := httptest.NewServer(bareCommitHandler(bare))
	t.Cleanup(floor.Close)
	singles, err := openSingleWrites(t.Context(), strings.TrimPrefix(server.URL, "http://"), strings.TrimPrefix(floor.URL, "http://"), bare)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(singles.close)
	for kind := range singles.pids {
		singles.pids[kind] = os.Getpid() // all servers are in this process
	}
	singles.pids[bareCommitKind] = 0
	singles.unlikedPosts, singles.conversationID = posts, "conversation:7"
	return singles
}

// The kinds of writes take turns, no two writes are the same, and each write is timed.
func TestSingleWritesTakeTurns(t *testing.T) {
	heard := &queryRecorder{answer: `{"data":{"done":true}}`}
	singles := newTestSingleWrites(t, heard, "post:1", "post:2", "post:3")
	for range 2 {
		if err := singles.measureRound(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{`likePost(input: {postId: "post:1"})`, "sendMessage", "publishPost", `likePost(input: {postId: "post:2"})`, "sendMessage", "publishPost"}
	if len(heard.queries) != len(want) {
		t.Fatalf("%d mutations: %q", len(heard.queries), heard.queries)
	}
	for i, query := range heard.queries {
		if !strings.Contains(query, want[i]) {
			t.Errorf("mutation %d is %s, want %s", i, query, want[i])
		}
	}
	if sorted := slices.Sorted(slices.Values(heard.queries)); len(slices.Compact(sorted)) != len(want) {
		t.Errorf("two mutations are the same: %q", heard.queries)
	}
	var rows int
	if err := singles.bareDatabase.QueryRowContext(t.Context(), `SELECT count(*) FROM bare`).Scan(&rows); err != nil || rows != 4 {
		t.Errorf("%d rows were committed in two rounds, %v", rows, err)
	}
	for kind, name := range singleWriteNames {
		if values := singles.resultsByKind[kind]; len(values) != 2 || values[0].latencyP50 <= 0 || values[0].latencyP50 >= pauseAfterWrite+time.Minute {
			t.Errorf("%s: %+v", name, values)
		}
		// On a system that counts no processor time of threads there is none for any kind.
		if _, err := threadTime(os.Getpid()); err == nil {
			if text := singles.formatTimeAndCPU(kind); strings.HasSuffix(text, " us") != (kind != bareCommitKind) {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

// A round ends with an error when a mutation is refused, when no post is left to like, and when the context ends.
func TestRoundOfSingleWritesEndsWithAnError(t *testing.T) {
	refused := newTestSingleWrites(t, &queryRecorder{answer: `{"errors":[{"message":"no"}],"data":null}`}, "post:1")
	if err := refused.measureRound(t.Context(), 1); err == nil || !strings.HasPrefix(err.Error(), singleWriteNames[singleLikeKind]) {
		t.Errorf("a mutation that was refused: %v", err)
	}
	without := newTestSingleWrites(t, &queryRecorder{answer: `{"data":{}}`}, "post:1")
	if err := without.measureRound(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "every post is liked") {
		t.Errorf("more likes than posts: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := newTestSingleWrites(t, &queryRecorder{answer: `{"data":{}}`}, "post:1").measureRound(ended, 1); err == nil {
		t.Error("a round that was ended goes on")
	}
}
