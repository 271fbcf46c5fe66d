package command

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// callDoctor runs "tidings doctor" and returns its exit code and what it printed.
func callDoctor(t *testing.T, environment []string, args ...string) (exit int, report string) {
	t.Helper()
	var out bytes.Buffer
	exit = Run(t.Context(), append([]string{"doctor"}, args...), environmentOf(environment), &out, &out)
	return exit, out.String()
}

// wantReport checks the exit code, and that the report contains each of the texts.
func wantReport(t *testing.T, exit, wantExit int, report string, words ...string) {
	t.Helper()
	if exit != wantExit {
		t.Errorf("the exit code is %d, want %d", exit, wantExit)
	}
	for _, word := range words {
		if !strings.Contains(report, word) {
			t.Errorf("the report has no %q:\n%s", word, report)
		}
	}
	if t.Failed() {
		t.Log(report)
	}
}

// An examination before the first start finds nothing wrong, and makes nothing.
func TestDoctorBeforeTheFirstStart(t *testing.T) {
	t.Chdir(t.TempDir())
	exit, report := callDoctor(t, nil, "--listen", "127.0.0.1:0", "--redis", "private", "--data", "new/folder")
	wantReport(t, exit, 0, report, "development mode", "tidings.db does not exist yet", "this process starts a redis-server of its own", " 0 failures")
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("the examination left %v, %v", left, err)
	}
}

// doctor examines a database file at a relative path like one at an absolute path. The default of --data is relative too.
func TestDoctorOfARelativePath(t *testing.T) {
	folder, name := filepath.Split(strings.TrimPrefix(sqltest.SQLite(t), "sqlite:"))
	t.Chdir(folder)
	exit, report := callDoctor(t, []string{"DATABASE_URL=sqlite:" + name}, "--listen", "127.0.0.1:0", "--redis", "private")
	wantReport(t, exit, 0, report, name+" is whole", " 0 failures")
}

// On a healthy server doctor reports what each engine is like, makes no file beside the database, and prints no secret. The
// PostgreSQL of the tests has one failure, because it runs without fsync.
func TestDoctorOfAServer(t *testing.T) {
	cache := redistest.NewServer(t).URL()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		settings := []string{"DATABASE_URL=" + url, "REDIS_URL=" + cache, "TIDINGS_JWT_SECRET=" + strings.Repeat("s3cret", 6)}
		args := []string{"--listen", "127.0.0.1:0", "--operations-listen", "127.0.0.1:0", "--jwt-audience", "tidings"}
		beside := func() []string {
			names, err := filepath.Glob(strings.TrimPrefix(url, "sqlite:") + "*")
			if err != nil {
				t.Fatal(err)
			}
			return names
		}
		before := beside()
		exit, report := callDoctor(t, settings, args...)
		if after := beside(); !slices.Equal(after, before) {
			t.Errorf("beside the database were %v, and now are %v", before, after)
		}
		if strings.HasPrefix(url, "postgres") { // databases of tests do not wait for the disk
			wantReport(t, exit, 1, report, "fsync is off", "Set fsync = on.", "clocks of this machine and of the server", " 1 failure")
		} else {
			wantReport(t, exit, 0, report, "is whole", " 0 failures")
		}
		wantReport(t, exit, exit, report, "the tables have version ", ", this program's", "version ", "answers in")
		if strings.Contains(report, "s3cret") {
			t.Error("the report has the secret")
		}
	})
}

// A database that a running node has open, and an address that it serves on, are reported and left alone.
func TestDoctorBesideARunningNode(t *testing.T) {
	url := sqltest.SQLite(t)
	db, err := sql.Open(t.Context(), sql.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	exit, report := callDoctor(t, nil, "--listen", listener.Addr().String(), "--database", url, "--redis", "embedded")
	wantReport(t, exit, 0, report, "is in use by process", "is whole", "address already in use", "If a node runs here", "slower under load")
	if err := db.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A fault that would keep a node from starting, or from keeping its promises, is reported as a failure with its remedy.
func TestDoctorFindsWhatIsWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"plain.txt": "no database, and longer than its magic number", "key.pem": "no key"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damaged := strings.TrimPrefix(sqltest.SQLite(t), "sqlite:")
	text, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	for i := 8192; i < min(len(text), 200_000); i++ {
		text[i] = 0xAA
	}
	if err := os.WriteFile("damaged.db", text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  string
		words []string
	}{
		"no PostgreSQL":         {"--database postgres://u:s3cret@127.0.0.1:1/n?connect_timeout=1", []string{"127.0.0.1:1", "Look at --database"}},
		"no Redis":              {"--redis redis://:s3cret@127.0.0.1:1", []string{"Redis at 127.0.0.1:1 does not answer", "Look at --redis"}},
		"no database file":      {"--database sqlite:plain.txt", []string{"is not a SQLite database"}},
		"a damaged database":    {"--database sqlite:damaged.db", []string{"Restore it from a backup"}},
		"a folder that is none": {"--data plain.txt/x", []string{"not a folder"}},
		"no key":                {"--jwt-public-key key.pem", []string{"--jwt-public-key", "Look at the file"}},
		"no documents":          {"--trusted-documents none.json", []string{"none.json", "Make the manifest again"}},
	} {
		exit, report := callDoctor(t, nil, append(strings.Fields(c.args), "--listen", "127.0.0.1:0")...)
		if wantReport(t, exit, 1, report, append(c.words, "failure")...); t.Failed() {
			t.Fatal(name)
		}
		if strings.Contains(report, "s3cret") {
			t.Errorf("%s: the report has the password", name)
		}
	}
}

// A folder in which nothing can be stored is a failure, whether its disk is full or read-only. The test makes such a disk, because
// root may write into any other folder.
func TestDoctorOfAFolderThatCannotBeWritten(t *testing.T) {
	folder := t.TempDir()
	if !sqltest.MountSmallDisk(t, folder, "4m") {
		return // it needs root on Linux
	}
	text, err := os.ReadFile(strings.TrimPrefix(sqltest.SQLite(t), "sqlite:"))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "tidings.db"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	url := sqltest.Postgres(t)
	fails := func(what string, args ...string) {
		t.Helper()
		exit, report := callDoctor(t, nil, append(args, "--listen", "127.0.0.1:0")...)
		wantReport(t, exit, 1, report, what, "Give this user the right to write", "failure")
	}
	exit, report := callDoctor(t, nil, "--data", folder, "--redis", "private", "--listen", "127.0.0.1:0")
	wantReport(t, exit, 0, report, "can be written", "is whole")
	release := sqltest.FillDisk(t, folder, 0)
	fails("cannot be written: no space left on device", "--data", folder, "--redis", "embedded")
	release()
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("the examination left %v, %v", left, err)
	}
	if out, err := exec.Command("mount", "-o", "remount,ro", folder).CombinedOutput(); err != nil {
		t.Fatalf("remount: %v %s", err, out)
	}
	fails("cannot be written: read-only file system", "--data", folder, "--redis", "embedded")
	fails("tidings.db is whole", "--data", folder, "--redis", "embedded")
	fails("cannot be written: read-only file system", "--data", filepath.Join(folder, "new", "folder"), "--redis", "embedded")
	// With PostgreSQL only a private Redis writes into the folder, its socket. Without one the folder need not be writable, but
	// must exist.
	for _, c := range []struct {
		args string
		want bool
	}{{"--redis private --data " + folder, true}, {"--redis embedded --data " + folder + "/new", true}, {"--redis embedded --data " + folder, false}} {
		_, report := callDoctor(t, nil, append(strings.Fields(c.args), "--database", url, "--listen", "127.0.0.1:0")...)
		if got := strings.Contains(report, "cannot be written: read-only file system"); got != c.want {
			t.Errorf("%s: the folder is reported: %v\n%s", c.args, got, report)
		}
	}
}

// A file of the database that this user may not write is a failure too. A folder in its place stands for it, since root may write all
// files.
func TestDoctorOfAFileThatCannotBeWritten(t *testing.T) {
	url := sqltest.SQLite(t)
	file := strings.TrimPrefix(url, "sqlite:")
	if err := os.Mkdir(file+".lock", 0o700); err != nil {
		t.Fatal(err)
	}
	exit, report := callDoctor(t, nil, "--database", url, "--redis", "embedded", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	wantReport(t, exit, 1, report, "tidings.db.lock cannot be written: is a directory", "1 failure")
}

// Without a redis-server, doctor says so.
func TestDoctorWithoutRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	exit, report := callDoctor(t, nil, "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	wantReport(t, exit, 0, report, "there is no redis-server in PATH: an embedded Redis is used", "Install Redis")
	exit, report = callDoctor(t, nil, "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--redis", "private")
	wantReport(t, exit, 1, report, "there is no redis-server in PATH", "1 failure")
}
