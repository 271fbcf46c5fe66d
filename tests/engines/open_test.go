package engines

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

func TestOpenTwiceFindsTheSameFacts(t *testing.T) {
	sqltest.EachEngine(t, func(t *testing.T, open func() *sql.DB) {
		first := open()
		b := &testDB{&peopletest.TestDB{TestDB: &sqltest.TestDB{DB: first, T: t, Ctx: t.Context()}}}
		b.MakeUsers("alice", "bob")
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		if err := first.Close(); err != nil {
			t.Fatalf("closing again: %v", err)
		}
		ids, err := people.IDs(t.Context(), open(), []string{"bob", "alice", "carol"})
		equal(t, must(ids, err)(t), map[string]services.UserID{"alice": 1, "bob": 2})
	})
}

func TestDialectAndPing(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		if !strings.HasSuffix(b.T.Name(), b.DialectName()) {
			b.T.Errorf("the dialect is %s", b.DialectName())
		}
		if err := b.Ping(b.Ctx); err != nil {
			b.T.Error(err)
		}
	})
}

func TestAfterCloseEverythingIsUnavailable(t *testing.T) {
	sqltest.EachEngine(t, func(t *testing.T, open func() *sql.DB) {
		s := open()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wantCode(t, s.Ping(t.Context()), services.Unavailable)
		wantCode(t, s.Write(t.Context(), func(*sql.Tx) error { return nil }), services.Unavailable)
		_, err := people.ByID(t.Context(), s, []services.UserID{1})
		wantCode(t, err, services.Unavailable)
	})
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, url, says string
		code            services.Code
	}{
		{"Empty", "", "no scheme", services.Invalid},
		{"NoScheme", "tidings.db", "no scheme", services.Invalid},
		{"WrongScheme", "mysql://root:sesame@localhost/db", `"mysql"`, services.Invalid},
		{"NoFile", "sqlite:", "does not name a file", services.Invalid},
		{"InMemory", "sqlite::memory:", "does not name a file", services.Invalid},
		{"NoFolder", "sqlite:" + filepath.Join(dir, "nowhere", "tidings.db"), "nowhere", services.Unavailable},
		{"AFolder", "sqlite:" + dir, dir, services.Unavailable},
		{"NotADatabase", "sqlite:" + write("text.db", strings.Repeat("not a database\n", 1000)), "text.db", services.Invalid},
		{"BadPort", "postgres://user:sesame@localhost:port/db", "not well formed", services.Invalid},
		{"BadEscape", "postgres://user:ses%zzame@localhost/db", "not well formed", services.Invalid},
		{"BadParameter", "postgres://localhost/db?password=sesame&sslmode=perhaps", "sslmode must be one of disable, allow, prefer", services.Invalid},
		{"Refused", "postgres://user:sesame@" + refusingAddress(t) + "/tidings", "database tidings of user user at 127.0.0.1", services.Unavailable},
		{"NoSuchDatabase", strings.Replace(sqltest.Postgres(t), "/test_", "/nothing_", 1), "does not exist (3D000)", services.Unavailable},
		{"NoSuchCertificate", "postgres://user:sesame@localhost/db?sslmode=verify-ca&sslrootcert=/nowhere", "the file that sslrootcert names", services.Invalid},
		{"NoSuchUser", urlWithUser(sqltest.Postgres(t), "somebody:sesame"), `role "somebody" does not exist`, services.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := sql.Open(t.Context(), sql.Config{URL: c.url})
			if s != nil {
				t.Error("there is a database with the error")
			}
			wantCode(t, err, c.code)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error does not say %q: %v", c.says, err)
			}
			if strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "zzame") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
}

// urlWithUser returns a URL with another user and password.
func urlWithUser(address, user string) string {
	_, rest, _ := strings.Cut(address, "://")
	if _, host, named := strings.Cut(rest, "@"); named {
		rest = host
	}
	return "postgres://" + user + "@" + rest
}

// refusingAddress returns an address without a listener.
func refusingAddress(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// A failed open keeps no lock on the file: once the file is removed, a database can be made in its place.
func TestFailedOpenLeavesTheFileFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidings.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 8192)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sql.Open(t.Context(), sql.Config{URL: "sqlite:" + path})
	wantCode(t, err, services.Invalid)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	sqltest.Open(t, sql.Config{URL: "sqlite:" + path})
}

func TestFileNamesAreUsedUnchanged(t *testing.T) {
	for _, name := range []string{"a b.db", "50%.db", "what?.db", "a#b.db", "ü.db"} {
		path := filepath.Join(t.TempDir(), name)
		sqltest.Open(t, sql.Config{URL: "sqlite:" + path})
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestTablesOfANewerProgramAreLeftAlone(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		s := sqltest.Open(t, sql.Config{URL: url})
		err := s.Write(t.Context(), func(tx *sql.Tx) error {
			return execute(t.Context(), tx, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, TRUE)")
		})
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		_, err = sql.Open(t.Context(), sql.Config{URL: url})
		wantCode(t, err, services.Conflict)
		if !strings.Contains(err.Error(), "99999") {
			t.Errorf("the error does not name the version: %v", err)
		}
	})
}

func TestSecondProcessIsRefused(t *testing.T) {
	url := sqltest.SQLite(t)
	sqltest.Open(t, sql.Config{URL: url})
	for name, refused := range map[string]string{"InThisProcess": openErrorInThisProcess(t, url), "InAnother": openErrorInChild(t, url)} {
		file := strings.TrimPrefix(url, "sqlite:")
		if !strings.Contains(refused, string(services.Conflict)) || !strings.Contains(refused, file) || !strings.Contains(refused, "process") {
			t.Errorf("%s: a second opening was answered with %q", name, refused)
		}
	}
}

// openErrorInThisProcess returns the code and the text of the error that opening the database in this process gives.
func openErrorInThisProcess(t *testing.T, url string) string {
	_, err := sql.Open(t.Context(), sql.Config{URL: url})
	return string(services.CodeOf(err)) + " " + err.Error()
}

// openErrorInChild returns the code and the text of the error that opening the database in another process gives.
func openErrorInChild(t *testing.T, url string) string {
	_, out := startChild(t, "open", url)
	said, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}

func TestAnsweredWritesSurviveKill(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		sqltest.Open(t, sql.Config{URL: url}).Close() // creates the tables before the child is killed
		cmd, out := startChild(t, "write", url)
		acks := readAcksAndKill(t, cmd, out, 500)
		wantAckedPosts(t, sqltest.Open(t, sql.Config{URL: url}), acks)
	})
}

func TestAnsweredWritesSurviveTheServersKill(t *testing.T) {
	server := sqltest.NewServer(t)
	url := server.NewDatabase(t)
	sqltest.Open(t, sql.Config{URL: url}).Close()
	_, out := startChild(t, "write", url)
	var acks []services.PostID
	for len(acks) < 300 {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		acks = append(acks, services.PostID(must(services.ParseSortableID(strings.TrimSpace(line)))(t)))
	}
	server.Kill()
	for { // reads the rest of the writes that were acknowledged before the kill
		line, err := out.ReadString('\n')
		id, notID := services.ParseSortableID(strings.TrimSpace(line))
		if err != nil || notID != nil {
			break
		}
		acks = append(acks, services.PostID(id))
	}
	server.Start(t)
	wantAckedPosts(t, sqltest.Open(t, sql.Config{URL: url}), acks)
}

// wantAckedPosts checks that every post whose write was answered exists with its job, and that no job exists without its post.
func wantAckedPosts(t *testing.T, db *sql.DB, acks []services.PostID) {
	t.Helper()
	all := must(postsOfFirstAuthor(t.Context(), db))(t)
	there := map[services.PostID]bool{}
	for _, id := range all {
		there[id] = true
	}
	for _, id := range acks {
		if !there[id] {
			t.Errorf("post %s was answered and is lost", id)
		}
	}
	waiting, _, _, err := jobs.JobCounts(t.Context(), db)
	if err != nil || waiting != len(all) {
		t.Errorf("%d posts have %d jobs (%v)", len(all), waiting, err)
	}
	t.Logf("%d answered, %d there", len(acks), len(all))
}

func TestDatabaseAwayAndBack(t *testing.T) {
	server := sqltest.NewServer(t)
	b := newTestDB(t, server.NewDatabase(t))
	b.MakeUsers("alice")
	server.Stop()
	err := b.Write(b.Ctx, func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, []services.UserID{1}) })
	wantCode(t, err, services.Unavailable)
	_, err = people.ByID(b.Ctx, b.TestDB.DB, []services.UserID{1})
	wantCode(t, err, services.Unavailable)
	_, err = jobs.Claim(b.Ctx, b.DB, []string{"any"}, 1, 1, 0)
	wantCode(t, err, services.Unavailable)
	wantCode(t, b.Ping(b.Ctx), services.Unavailable)
	server.Start(t)
	eventually.Holds(t, "a write passes again", func() bool {
		return b.Write(b.Ctx, func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, []services.UserID{1}) }) == nil
	})
	equal(t, len(must(people.ByID(b.Ctx, b.TestDB.DB, []services.UserID{1}))(t)), 1)
}

// A file that is not a database is refused before anything is written beside it.
func TestAFileThatIsNoDatabaseIsNotChanged(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "accounts")
	if err := os.WriteFile(path, []byte("root:x:0:0"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sql.Open(t.Context(), sql.Config{URL: "sqlite:" + path})
	if services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), path) {
		t.Errorf("opened, or refused with %v", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside it there are %v, %v", entries, err)
	}
}

// Only the owner can read database files, even in a folder that everybody can read, and even if an older program made the files.
func TestDatabaseFilesArePrivate(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "tidings.db")
	check := func() {
		t.Helper()
		for _, name := range []string{"", "-wal", "-shm", ".lock"} {
			info, err := os.Stat(path + name)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != 0o600 {
				t.Errorf("tidings.db%s has the mode %o", name, got)
			}
		}
	}
	open := func() *sql.DB {
		t.Helper()
		s, err := sql.Open(t.Context(), sql.Config{URL: "sqlite:" + path})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	check()
	for _, name := range []string{"", "-wal", "-shm"} { // as an older program could leave the files when it was killed
		if err := os.Chmod(path+name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Close(), os.WriteFile(path+"-wal", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	s = open()
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
