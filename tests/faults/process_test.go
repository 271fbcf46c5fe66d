package faults

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m)) }

// A start that cannot succeed ends at once, with the exit code for the kind of the fault and a message that names the fault, the
// value and the remedy, but never a password.
func TestStartsThatCannotSucceed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	used := sqltest.SQLite(t)
	holder := world.StartServingProcess(t, "", "--database", used, "--redis", "embedded")

	unborn := filepath.Join(t.TempDir(), "unborn.db")
	for name, c := range map[string]struct {
		arguments []string
		code      int
		says      []string
	}{
		"a second process on one file": {[]string{"--database", used, "--redis", "embedded"}, 1,
			[]string{strings.TrimPrefix(used, "sqlite:"), fmt.Sprintf("in use by process %d", holder.Command.Process.Pid), "use PostgreSQL for several"}},
		"a Redis URL that is none":            {[]string{"--redis", "redis://:secret@127.0.0.1:port"}, 1, []string{"redis:// URL of Redis cannot be read"}},
		"a Redis scheme that is none":         {[]string{"--redis", "rediz://:secret@127.0.0.1:1"}, 2, []string{"--redis (REDIS_URL)", "rediz://"}},
		"a file for a folder":                 {[]string{"--data", file}, 1, []string{"--data " + file, "the folder cannot be made"}},
		"a file on the way":                   {[]string{"--database", "sqlite:" + file + "/tidings.db", "--redis", "embedded"}, 1, []string{file + "/tidings.db", "cannot be opened"}},
		"no database":                         {[]string{"--database", "sqlite:" + file, "--redis", "embedded"}, 1, []string{file, "is not a SQLite database"}},
		"no PostgreSQL there":                 {[]string{"--database", "postgres://tidings:secret@" + nobody.Addr().String() + "/tidings", "--redis", "embedded"}, 1, []string{nobody.Addr().String()}},
		"a key that is not there":             {[]string{"--jwt-public-key", file + "/key.pem", "--database", "sqlite:" + unborn, "--redis", "embedded"}, 1, []string{"--jwt-public-key (TIDINGS_JWT_PUBLIC_KEY)", file + "/key.pem"}},
		"keys that are not there":             {[]string{"--jwks", file + "/keys.json", "--database", "sqlite:" + unborn, "--redis", "embedded"}, 1, []string{"--jwks (TIDINGS_JWKS)", file + "/keys.json"}},
		"a TLS mode that is none":             {[]string{"--database", "postgres://tidings:secret@localhost/tidings?sslmode=maybe", "--redis", "embedded"}, 1, []string{"sslmode must be one of disable"}},
		"the port is taken":                   {[]string{"--listen", taken.Addr().String(), "--redis", "embedded"}, 1, []string{"--listen " + taken.Addr().String(), "in use"}},
		"the port for operators is taken":     {[]string{"--operations-listen", taken.Addr().String(), "--redis", "embedded"}, 1, []string{"--operations-listen " + taken.Addr().String(), "in use"}},
		"one address for both":                {[]string{"--listen", taken.Addr().String(), "--operations-listen", taken.Addr().String()}, 2, []string{"--operations-listen (TIDINGS_OPERATIONS_LISTEN)", "it must differ from the address of --listen"}},
		"operators everywhere in development": {[]string{"--operations-listen", ":0"}, 2, []string{"--operations-listen", `":0"`, "development mode", "--jwt-secret"}},
		"an address that is none":             {[]string{"--operations-listen", "localhost"}, 2, []string{"--operations-listen", "it must be HOST:PORT"}},
		"a flag that is none":                 {[]string{"--databse", "x"}, 2, []string{"unknown flag --databse", `did you mean "--database"?`, "tidings --help"}},
		"a value that is none":                {[]string{"--drain", "1h"}, 2, []string{"--drain (TIDINGS_DRAIN)", `"1h0m0s"`, "0s to 12s"}},
		"two faults":                          {[]string{"--drain", "x", "--workers", "0"}, 2, []string{"--drain", "--workers", `"0"`, "1 to 256"}},
		"a command that is none":              {[]string{"sevre"}, 2, []string{"unexpected argument sevre", `did you mean "serve"?`}},
		"everybody in development":            {[]string{"--listen", "0.0.0.0:0"}, 2, []string{"--listen", `"0.0.0.0:0"`, "development mode", "--jwt-secret"}},
		"a secret that is too short":          {[]string{"--jwt-secret", "hunter2"}, 2, []string{"--jwt-secret", "at least 32 bytes are needed, got 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			arguments := append([]string{"--listen", "127.0.0.1:0", "--data", t.TempDir(), "--log-level", "error"}, c.arguments...)
			p := world.LaunchProcess(t, "", arguments...)
			code, said := p.WaitExit(20*time.Second), p.Output.String()
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("it said %q, want %q in it", said, want)
				}
			}
			for _, never := range []string{"secret@", ":secret", "hunter2", "panic", "goroutine", "tidings: tidings:"} {
				if strings.Contains(said, never) {
					t.Errorf("it said %q, with %q in it", said, never)
				}
			}
		})
	}
	if _, err := os.Stat(unborn); !os.IsNotExist(err) {
		t.Errorf("a node without its key made a database: %v", err)
	}

	var data struct {
		Viewer struct{ User struct{ Key string } }
	}
	if err := world.Ask(holder.URL, "alice", `{viewer{user{key}}}`, nil, &data); err != nil || data.Viewer.User.Key != "alice" {
		t.Errorf("the first process on the file: %+v, %v", data, err)
	}
}

// terminate ends a process by SIGTERM, and checks that it ends well.
func terminate(t *testing.T, p *world.Process) {
	t.Helper()
	p.Terminate()
	if code := p.WaitExit(15 * time.Second); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.Output.String())
	}
}

// restart ends a process and starts another one with its data and its port, after a call of meanwhile. It returns false if another
// process has taken the port meanwhile.
func restart(t *testing.T, data string, meanwhile func(address string)) (serves bool) {
	t.Helper()
	first := world.StartServingProcess(t, "", "--data", data)
	address := strings.TrimPrefix(first.URL, "http://")
	terminate(t, first)
	meanwhile(address)
	second, serves := world.TryServingProcess(t, "", "--listen", address, "--data", data)
	switch {
	case serves:
		terminate(t, second)
	case !strings.Contains(second.Output.String(), "address already in use"):
		t.Fatalf("the second process ended: %s", second.Output.String())
	}
	return serves
}

// SIGTERM ends an idle process with exit code 0 and frees the file and the port for the next process.
func TestCleanRestart(t *testing.T) {
	data := t.TempDir()
	served := restart(t, data, func(address string) {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return // somebody else has it
		}
		t.Cleanup(func() { _ = listener.Close() })
	})
	if served {
		t.Error("a process serves on a port that another one has")
	}
	// Any process of the machine may get a free port. A process that does not free its own would have it each time.
	for attempts := 5; !restart(t, data, func(string) {}); attempts-- {
		if attempts == 1 {
			t.Fatal("each port is still in use")
		}
	}
	leftovers, err := filepath.Glob(filepath.Join(data, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range leftovers {
		if name := filepath.Base(path); name != "tidings.db" && name != "tidings.db.lock" {
			t.Errorf("%s was left behind", path)
		}
	}
}
