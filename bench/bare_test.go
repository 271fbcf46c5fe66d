package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// startRedisWithDocuments puts documents of three fields into a Redis of the test's own, and their keys into a file.
func startRedisWithDocuments(t *testing.T, count int) (server *miniredis.Miniredis, url, file string) {
	t.Helper()
	server = miniredis.RunT(t)
	keys := make([]string, count)
	for i := range keys {
		keys[i] = documentKey(uint32(i + 1))
		for _, field := range []string{"n", "h", "x"} {
			server.HSet(keys[i], field, fmt.Sprint(field, i))
		}
	}
	text, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "documents.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return server, "redis://" + server.Addr(), file
}

func TestBareWriterReadsADocumentForEachEvent(t *testing.T) {
	const sockets = documentsPerPipeline + 30 // more than one batch in all
	server, url, file := startRedisWithDocuments(t, 7)
	f, b := openFleetToBareWriter(t, sockets)
	reader, err := newDocumentReader(t.Context(), url, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reader.redis.Close(); err != nil {
			t.Error(err)
		}
	})
	if len(reader.firstDocumentFields) != 3 {
		t.Errorf("the document has the fields %q", reader.firstDocumentFields)
	}
	b.documents = reader
	all, before := f.expectOneEventPerSocket(), server.CommandCount()
	if err := writeOnceConnected(b, sockets)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.waitForEvents(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	// The pool of the Redis client may open more connections, at most one for each loop. Each sends a greeting, which also counts as
	// commands.
	if read := server.CommandCount() - before; read < sockets || read > sockets+20 {
		t.Errorf("%d events took %d commands", sockets, read)
	}
	server.Close()
	if _, err := b.writeFrameToAll(t.Context()); err == nil {
		t.Error("events were written without their documents")
	}
	if len(b.conns) != sockets {
		t.Errorf("%d of %d connections are left after a failed read", len(b.conns), sockets)
	}
}

func TestDocumentReaderNeedsDocuments(t *testing.T) {
	server, url, file := startRedisWithDocuments(t, 1)
	empty, broken := filepath.Join(t.TempDir(), "empty.json"), filepath.Join(t.TempDir(), "broken.json")
	for name, text := range map[string]string{empty: "[]", broken: "{"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range []struct{ url, file, want string }{
		{"http://127.0.0.1", file, "scheme"},
		{url, filepath.Join(t.TempDir(), "missing.json"), "no such file"},
		{url, empty, "names no documents"},
		{url, broken, "JSON"},
	} {
		if _, err := newDocumentReader(t.Context(), wrong.url, wrong.file); err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("%s, %s: %v, want %q", wrong.url, wrong.file, err, wrong.want)
		}
	}
	server.FlushAll()
	if _, err := newDocumentReader(t.Context(), url, file); err == nil || !strings.Contains(err.Error(), "no document") {
		t.Errorf("an empty Redis: %v", err)
	}
}
