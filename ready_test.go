package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidings/services/store/storetest"
)

// A node takes traffic once it has read the shows of boards: before that it cannot say what runs.
func TestANodeIsReadyWhenItsShowsAre(t *testing.T) {
	n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded", manual: true})
	n.ready.set(true)
	answer := func() (int, string) {
		t.Helper()
		response, err := http.Get(n.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	if status, text := answer(); status != http.StatusServiceUnavailable || !strings.Contains(text, "shows") {
		t.Errorf("before its shows were read: %d %q", status, text)
	}
	if _, err := n.mirror.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, text := answer(); status != http.StatusOK {
		t.Errorf("afterwards: %d %q", status, text)
	}
	whole := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded"})
	eventually(t, 30*time.Second, "a node that runs is ready by itself", func() bool {
		response, err := http.Get(whole.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}
