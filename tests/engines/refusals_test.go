package engines

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// A database without room reports that it refuses writes, from the first refused write until a write is on disk again. Reads, and
// writes that fail for other reasons, do not change the report.
func TestFullDatabaseRefusesWrites(t *testing.T) {
	b := newTestDB(t, sqltest.SQLite(t))
	limit := func(pages string) {
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := sqltest.QueryLines(b.Ctx, tx, "PRAGMA max_page_count = "+pages)
			return err
		})
	}
	big := func(tx *sql.Tx) error {
		return putPost(b.Ctx, tx, 1, 2, strings.Repeat("x", 1<<20))
	}
	want := func(refuses bool, when string) {
		t.Helper()
		if b.RefusesWrites() != refuses {
			t.Errorf("%s: %v, want %v", when, !refuses, refuses)
		}
	}
	wantCode(t, b.Write(b.Ctx, func(*sql.Tx) error { return errDeliberate }), services.Internal)
	ended, cancel := context.WithCancel(b.Ctx)
	cancel()
	_ = b.Write(ended, big)
	want(false, "after errors of callers")
	if err := b.CheckWrites(ended); err != nil {
		t.Errorf("while all is well it is not tried at all: %v", err)
	}
	limit(must(sqltest.QueryLines(b.Ctx, b, "PRAGMA page_count"))(t)[0])
	wantCode(t, b.Write(b.Ctx, big), services.Unavailable)
	want(true, "without room")
	b.MustWrite(func(*sql.Tx) error { return nil })
	want(true, "after a write of nothing")
	if err := b.CheckWrites(ended); err == nil {
		t.Error("a check without time must not try to write")
	}
	want(true, "after a try that did not happen")
	limit("1000000")
	want(true, "before anything is tried")
	watch, stop := context.WithCancel(b.Ctx)
	watched := make(chan error, 1)
	go func() { watched <- b.WatchWrites(watch) }()
	deadline := time.After(30 * time.Second)
	for b.RefusesWrites() {
		select {
		case <-deadline:
			t.Fatal("it refuses writes for ever")
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	if err := <-watched; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
	b.MustWrite(big)
}

// A database whose disk has room for only a page or two reports that it refuses writes as long as the disk is so full. CheckWrites must
// not take a small test write that still fits for a success, because the next write of a user would fail. Once there is room, the test
// write succeeds, and leaves that room free.
func TestAlmostFullDiskRefusesWrites(t *testing.T) {
	const free = 24 << 10
	t.Run("sqlite", func(t *testing.T) {
		folder, url := t.TempDir(), sqltest.SQLite(t)
		if !sqltest.MountSmallDisk(t, folder, "16m") {
			return
		}
		text, err := os.ReadFile(strings.TrimPrefix(url, "sqlite:"))
		path := filepath.Join(folder, "tidings.db")
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		testAlmostFullDisk(t, "sqlite:"+path, folder, free)
	})
	t.Run("postgres", func(t *testing.T) {
		if url, folder := sqltest.NewServer(t).DatabaseOnSmallDisk(t, "64m"); folder != "" {
			testAlmostFullDisk(t, url, folder, free)
		}
	})
}

// testAlmostFullDisk tests a database in a folder on a small disk of its own. It fills the disk up to a number of free bytes, and checks
// that the database refuses writes until there is room again.
func testAlmostFullDisk(t *testing.T, url, folder string, free int64) {
	s := sqltest.Open(t, sql.Config{URL: url, Log: slog.New(slog.DiscardHandler)})
	defer func() { _ = s.Close() }() // before the small disk is unmounted
	body := make([]byte, 256<<10)
	_, _ = rand.Read(body)
	id := services.PostID(0)
	put := func() error {
		id++
		return s.Write(t.Context(), func(tx *sql.Tx) error { return putPost(t.Context(), tx, 1, id, hex.EncodeToString(body)) })
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	must(s.EmptyWAL(t.Context()))(t)
	release := sqltest.FillDisk(t, folder, free)
	for try := range 5 {
		wantCode(t, put(), services.Unavailable)
		if err := s.CheckWrites(t.Context()); err == nil || !s.RefusesWrites() {
			t.Fatalf("try %d: %v, writes are refused: %v; the next write fails", try, err, s.RefusesWrites())
		}
	}
	release()
	before := must(freeBytes(folder))(t)
	if err := s.CheckWrites(t.Context()); err != nil || s.RefusesWrites() {
		t.Fatalf("with room again: %v, writes are refused: %v", err, s.RefusesWrites())
	}
	if after := must(freeBytes(folder))(t); after+64<<10 < before {
		t.Errorf("the test write took %d bytes", before-after)
	}
	if err := put(); err != nil {
		t.Error(err)
	}
}

// If the database's user may not create the table that tests for room, the test write alone decides. Otherwise the node would stay
// unready for ever.
func TestWritesAreAcceptedAgainWithoutGrowth(t *testing.T) {
	b := newTestDB(t, sqltest.Postgres(t))
	b.MustWrite(func(tx *sql.Tx) error { return execute(b.Ctx, tx, "CREATE TABLE tidings_growth (value INT)") })
	refused := sqltest.PostgresError("53100", "no space")
	if err := b.Write(b.Ctx, func(*sql.Tx) error { return refused }); err == nil || !b.RefusesWrites() {
		t.Fatalf("%v, writes are refused: %v", err, b.RefusesWrites())
	}
	if err := b.CheckWrites(b.Ctx); err != nil || b.RefusesWrites() {
		t.Errorf("%v, writes are refused: %v", err, b.RefusesWrites())
	}
}

// freeBytes returns the free bytes of a folder's file system.
func freeBytes(folder string) (int64, error) {
	var at syscall.Statfs_t
	err := syscall.Statfs(folder, &at)
	return int64(at.Bavail) * int64(at.Bsize), err
}
