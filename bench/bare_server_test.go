package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// callBareHandler sends a request with a token and a query to a handler of the bare server, and returns its answer.
func callBareHandler(handle http.HandlerFunc, token, query string) (status int, body string) {
	request := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(`{"query":"`+query+`"}`))
	request.Header.Set("Authorization", "Bearer "+token)
	answer := httptest.NewRecorder()
	handle(answer, request)
	return answer.Code, answer.Body.String()
}

// A page is answered with the bytes from the file, after as many commands to Redis as the page has. Without Redis there is no page.
func TestBareServerReadsRedisBeforeItAnswers(t *testing.T) {
	server := miniredis.RunT(t)
	server.HSet(documentKey(7), "n", "1")
	if _, err := server.ZAdd("{u7}:i", 0, "entry"); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(bareServerPagesFile{Redis: "redis://" + server.Addr(), Pages: map[string]bareServerPage{
		"dev:a": {Commands: inboxRedisCommands(7), Body: `{"data":{"a":1}}`}, "dev:b": {Commands: documentRedisCommands(8), Body: `{"data":{"b":2}}`},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pages.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	pages, client, err := readBareServerPages(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	handle := storedPagesHandler(pages, client)
	if status, body := callBareHandler(handle, "dev:a", "page"); status != http.StatusOK || body != `{"data":{"a":1}}` {
		t.Errorf("the first page: %d %s", status, body)
	}
	before := server.CommandCount()
	for token, reads := range map[string]int{"dev:a": 2, "dev:b": 1} {
		if status, body := callBareHandler(handle, token, "page"); status != http.StatusOK || body != pages[token].Body {
			t.Errorf("%s: %d %s", token, status, body)
		}
		if asked := server.CommandCount() - before; asked != reads {
			t.Errorf("%s was read by %d commands, want %d", token, asked, reads)
		}
		before = server.CommandCount()
	}
	if status, _ := callBareHandler(handle, "dev:nobody", "page"); status != http.StatusNotFound {
		t.Errorf("a token without a page: %d", status)
	}
	server.Close()
	if status, _ := callBareHandler(handle, "dev:a", "page"); status != http.StatusInternalServerError {
		t.Errorf("without Redis: %d", status)
	}
}

// A write is answered once its row is committed, and a second write with the same number is refused.
func TestBareServerCommitsBeforeItAnswers(t *testing.T) {
	db, err := openBareCommitDatabase("sqlite", filepath.Join(t.TempDir(), "bare.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := createBareCommitTable(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	handle := bareCommitHandler(db)
	if status, body := callBareHandler(handle, "dev:a", "5"); status != http.StatusOK || body != `{"data":{"number":5}}` {
		t.Errorf("a write: %d %s", status, body)
	}
	var body string
	if err := db.QueryRowContext(t.Context(), `SELECT body FROM bare WHERE number = 5`).Scan(&body); err != nil || body != postBody(5) {
		t.Errorf("the row has %q, %v", body, err)
	}
	for _, query := range []string{"5", "five"} {
		if status, _ := callBareHandler(handle, "dev:a", query); status != http.StatusInternalServerError {
			t.Errorf("%s: %d", query, status)
		}
	}
}

// The program serves writes as a bare server until it is stopped. Wrong arguments are an error.
func TestBareServerProcessServesWrites(t *testing.T) {
	for _, arguments := range [][]string{{"pages"}, {"writes", "sqlite"}, {"pages", filepath.Join(t.TempDir(), "none.json")}, {"other", "x"}} {
		if err := runBareServer("127.0.0.1:0", arguments[0], arguments[1:]...); err == nil {
			t.Errorf("%q is served", arguments)
		}
	}
	bare := filepath.Join(t.TempDir(), "bare.db")
	db, err := openBareCommitDatabase("sqlite", bare)
	if err == nil {
		err = createBareCommitTable(t.Context(), db)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	t.Setenv(childModeVariable, bareServerArgument)
	program, err := startBareServer(t.Context(), t.TempDir(), bareServerWritesKind, "sqlite", bare)
	if err != nil {
		t.Fatal(err)
	}
	defer program.stop()
	asked, err := newServerConnection(t.Context(), program.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = asked.conn.Close() }()
	request := newLoadTarget(program.address, 0, "9", []string{"dev:a"}).requests[0]
	if err := asked.sendAndReadAnswer(t.Context(), request); err != nil {
		t.Error(err)
	}
	if err := asked.sendAndReadAnswer(t.Context(), request); err == nil {
		t.Error("the same row twice is answered")
	}
}
