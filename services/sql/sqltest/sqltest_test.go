package sqltest_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// childEnv is the environment variable that tells a test binary that it is the child process of a test, which kills it.
const childEnv = "SQLTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		goleak.VerifyTestMain(m)
	}
	os.Exit(m.Run())
}

func TestEachGivesEmptyDatabases(t *testing.T) {
	var engines []string
	for range 2 {
		sqltest.EachURL(t, func(_ *testing.T, url string) {
			engine, _, _ := strings.Cut(url, ":")
			engines = append(engines, engine)
		})
		sqltest.EachEngine(t, func(t *testing.T, open func() *sql.DB) {
			s := open()
			err := s.Write(t.Context(), func(tx *sql.Tx) error {
				users, err := tx.RaiseCounter(t.Context(), "users", 1)
				if users != 1 {
					t.Errorf("the database is not empty: it has %d users before", users-1)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	if got := strings.Join(engines, " "); got != "sqlite postgres sqlite postgres" {
		t.Errorf("the engines were %s", got)
	}
}

// The database of a test has all tables already, so the program makes none. A new file, or a database of a new server, has no
// tables: the program makes them, and one log line says so.
func TestTestDatabasesHaveAllTables(t *testing.T) {
	for name, c := range map[string]struct {
		url   string
		lines int // the number of log lines that say that tables are made
	}{
		"sqlite":      {sqltest.SQLite(t), 0},
		"sqlite, new": {"sqlite:" + filepath.Join(t.TempDir(), "new.db"), 1},
		"postgres":    {sqltest.Postgres(t), 0},
		"server":      {sqltest.NewServer(t).NewDatabase(t), 1},
	} {
		t.Run(name, func(t *testing.T) {
			var said strings.Builder
			sqltest.Open(t, sql.Config{URL: c.url, Log: slog.New(slog.NewTextHandler(&said, nil))})
			if lines := strings.Count(said.String(), "migrated"); lines != c.lines {
				t.Errorf("%d lines say that tables are made, want %d: %s", lines, c.lines, said.String())
			}
		})
	}
}

func TestServerIsKilledAndStartsAgain(t *testing.T) {
	server := sqltest.NewServer(t)
	url := server.NewDatabase(t)
	for _, end := range []func(){server.Kill, server.Stop} {
		s, err := sql.Open(t.Context(), sql.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		end()
		_, err = sql.Open(t.Context(), sql.Config{URL: url})
		if !services.IsUnavailable(err) {
			t.Errorf("a server that was ended was opened: %v", err)
		}
		server.Start(t)
	}
	sqltest.Open(t, sql.Config{URL: url})
}

// After a slow write pgx can leave a goroutine that reads from its connection. So no connection is left when no test has a
// database, and a check for left goroutines at the end of a package finds none.
func TestNoConnectionIsLeftAfterTheLastTest(t *testing.T) {
	server := sqltest.NewServer(t)
	var url string
	t.Run("a test", func(t *testing.T) {
		url = server.NewDatabase(t)
		t.Run("a test within it", func(t *testing.T) { server.NewDatabase(t) })
	})
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var left int
	const count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
	if err := conn.QueryRow(t.Context(), count).Scan(&left); err != nil || left != 0 {
		t.Errorf("the server has %d more connections, want none (%v)", left, err)
	}
}

// initdb runs once on a machine: the data of each further server is a copy. Without a cache folder it runs for each server.
func TestInitdbRunsOncePerMachine(t *testing.T) {
	for name, want := range map[string]int{"cache": 1, "no cache": 0} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			home := map[int]string{1: folder}[want]
			t.Setenv("XDG_CACHE_HOME", home) // on Linux
			t.Setenv("HOME", home)           // elsewhere
			for range 2 {
				sqltest.Open(t, sql.Config{URL: sqltest.NewServer(t).NewDatabase(t)})
			}
			var whole, parts []string
			_ = filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
				switch parent := filepath.Base(filepath.Dir(path)); {
				case err != nil || parent != "tidings-tests":
				case strings.HasPrefix(filepath.Base(path), "postgres-"):
					whole = append(whole, path)
				default:
					parts = append(parts, path)
				}
				return err
			})
			if len(whole) != want || len(parts) > 0 {
				t.Errorf("the cache has %q and %q, want %d folders", whole, parts, want)
			}
		})
	}
}

// A test binary that is killed leaves no server and no folder behind.
func TestServerEndsWithItsTests(t *testing.T) {
	if os.Getenv(childEnv) != "" { // this is the binary that is killed
		fmt.Println("url " + sqltest.Postgres(t))
		select {}
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), childEnv+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	dir := ""
	said := make([]byte, 0, 1<<16)
	for dir == "" {
		n, err := out.Read(said[len(said):cap(said)])
		said = said[:len(said)+n]
		if _, url, found := strings.Cut(string(said), "host="); found && strings.Contains(url, "\n") {
			line, _, _ := strings.Cut(url, "\n")
			dir = strings.ReplaceAll(line, "%2F", "/")
		}
		if err != nil {
			t.Fatalf("the child said %q: %v", said, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid")); err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = child.Wait() // it was killed
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	check := time.NewTicker(10 * time.Millisecond)
	defer check.Stop()
	for {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the server's folder %s is still there", dir)
		case <-check.C:
		}
	}
}
