package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services/redis/redistest"
	"tidings/tests/eventually"
)

func TestThePrivateServerEndsWithClose(t *testing.T) {
	folder := t.TempDir()
	c, err := Open(t.Context(), Options{URL: "private", DataDir: folder})
	if err != nil {
		t.Fatal(err)
	}
	pid := privateServerProcess(c).Pid
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if isProcessRunning(pid) {
		t.Errorf("process %d runs after Close", pid)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("Close leaves %v behind, %v", left, err)
	}
}

func TestAKilledPrivateServerIsStartedAgainEmpty(t *testing.T) {
	var log redistest.LogRecorder
	c := connect(t, Options{URL: "private", Log: log.Log()})
	for round := 1; round <= 3; round++ {
		if err := c.Commands().Set(t.Context(), "key", "value", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := privateServerProcess(c).Kill(); err != nil {
			t.Fatal(err)
		}
		eventually.Succeeds(t, 5*time.Second, "it works again", func() error { return c.Ping(t.Context()) })
		if _, err := c.Commands().Get(t.Context(), "key").Result(); !errors.Is(err, redis.Nil) {
			t.Errorf("round %d: it still has the key: %v", round, err)
		}
		if replies, err := c.Run(t.Context(), addMemberScript, addMemberCalls(3, 1)); err != nil || replies[0].Value != int64(1) {
			t.Errorf("round %d: scripts: %v, %v", round, replies, err)
		}
		if n := strings.Count(log.String(), "restarted, empty"); n != round {
			t.Errorf("round %d: %d lines in the log:\n%s", round, n, log.String())
		}
	}
}

func TestTwoPrivateServersInOneFolder(t *testing.T) {
	// Two programs may share a data folder: neither removes the other's socket.
	folder := t.TempDir()
	first, second := connect(t, Options{URL: "private", DataDir: folder}), connect(t, Options{URL: "private", DataDir: folder})
	if err := first.Commands().Set(t.Context(), "key", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := second.Commands().Exists(t.Context(), "key").Result(); n != 0 || err != nil {
		t.Errorf("they share a server: %d, %v", n, err)
	}
}

func TestSettingsOfThePrivateServer(t *testing.T) {
	c := connect(t, Options{URL: "private"})
	for name, want := range map[string]string{
		"port": "0", "save": "", "appendonly": "no", "maxmemory-policy": "noeviction", "zset-max-ziplist-entries": "512", "unixsocketperm": "700",
	} {
		values, err := c.Commands().ConfigGet(t.Context(), name).Result()
		if err != nil || values[name] != want {
			t.Errorf("%s = %q, %v, want %q", name, values[name], err, want)
		}
	}
	server := c.localServer.(*privateServer)
	info, err := os.Stat(server.folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the socket: %v, %v", info.Mode(), err)
	}
	options := server.options()
	options.Password = ""
	stranger := redis.NewClient(options)
	defer stranger.Close()
	if err := stranger.Ping(t.Context()).Err(); !redis.HasErrorPrefix(err, "NOAUTH") {
		t.Errorf("without the password: %v, want NOAUTH", err)
	}
}

func TestTheTemporaryFolderIsUsedInsteadOfALongOne(t *testing.T) {
	folder := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	c := connect(t, Options{URL: "private", DataDir: folder})
	server := c.localServer.(*privateServer)
	if len(server.socket) > maxSocketPathBytes || strings.HasPrefix(server.socket, folder) {
		t.Errorf("socket %s", server.socket)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("the long folder has %v, %v", left, err)
	}
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	bin := t.TempDir()
	program := "#!/bin/sh\necho 'no luck today' >&2\nexit 3\n"
	if err := os.WriteFile(filepath.Join(bin, serverProgram), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	folder := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := Open(ctx, Options{URL: "private", DataDir: folder, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "no luck today") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v does not have the server's last output", err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("it leaves %v behind", left)
	}
}

func TestOutputTailKeepsTheLastBytes(t *testing.T) {
	var tail outputTail
	for i := range 1000 {
		fmt.Fprintf(&tail, "line %d\n", i)
	}
	if text := tail.String(); len(text) > outputTailBytes || !strings.HasSuffix(text, "line 999") {
		t.Errorf("%d bytes, ending in %q", len(text), text[max(0, len(text)-20):])
	}
}
