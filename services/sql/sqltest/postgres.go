package sqltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Server is a PostgreSQL server on a unix socket in a folder of its own.
type Server struct {
	binFolder         string              // the folder of PostgreSQL's programs
	dir               string              // the data and the socket
	account           *syscall.Credential // of the server's processes; nil: the account that runs the test
	supervisor        *exec.Cmd           // runs supervisorScript
	supervisorInput   *os.File            // while it is open the supervisor waits
	databasesMade     atomic.Int64        // the number of databases that newDatabaseFrom has made
	idleConnection    chan *pgx.Conn      // at most one connection for the next admin statement
	testsWithDatabase atomic.Int64        // the number of running tests that have a database, once for each database
}

// supervisorScript starts the server and ends it when its standard input ends: by Stop, or because the test binary has
// ended in whatever way.
const supervisorScript = `"$1/postgres" -D "$2/data" -k "$2" & server=$!
read -r word
case "$word" in kill) kill -KILL $(head -1 "$2/data/postmaster.pid") ;; *) kill -INT $server ;; esac
wait $server
[ "$word" ] || rm -rf "$2"`

// serverSettings make a small server.
const serverSettings = `
listen_addresses = ''
max_connections = 200
shared_buffers = 32MB
max_wal_size = 256MB
autovacuum_naptime = 10s
`

// nonDurableSettings do not wait for the disk: tests kill processes, but do not crash the machine. Nothing is vacuumed by
// itself: the server would start a process for each database of each test, again and again.
const nonDurableSettings = serverSettings + `
fsync = off
full_page_writes = off
autovacuum = off
`

// Postgres is the URL of a new database on this test binary's PostgreSQL server, which the first call starts. The database has all
// tables, and they are empty. The server ends with the test binary.
func Postgres(tb testing.TB) (url string) {
	tb.Helper()
	server, err := sharedServer()
	if err != nil {
		tb.Fatal(err)
	}
	return server.newDatabaseFrom(tb, templateDatabase)
}

// NewServer starts a server for one test alone, which may Stop, Kill and Start it. The test's end closes it.
func NewServer(tb testing.TB) *Server {
	tb.Helper()
	server, err := startServer(nonDurableSettings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Close)
	return server
}

// NewDurableServer starts a server outside of a test, for programs that measure: it waits for the disk, as a server in production
// does.
func NewDurableServer() (*Server, error) { return startServer(serverSettings) }

// Close ends the server and deletes its data.
func (s *Server) Close() { s.shutDown("") }

// CreateDatabase makes a database without tables, and returns its URL.
func (s *Server) CreateDatabase(ctx context.Context, name string) (url string, err error) {
	return s.url(name), s.createFromTemplate(ctx, name, "template0")
}

// NewDatabase is the URL of a new database of the server, without tables: sql.Open makes them.
func (s *Server) NewDatabase(tb testing.TB) (url string) {
	tb.Helper()
	return s.newDatabaseFrom(tb, "template0")
}

// newDatabaseFrom makes a database as a copy of a template, which takes less time than to make the tables.
func (s *Server) newDatabaseFrom(tb testing.TB, template string) (url string) {
	tb.Helper()
	s.testsWithDatabase.Add(1)
	tb.Cleanup(func() {
		if s.testsWithDatabase.Add(-1) == 0 {
			s.closeIdleConnection()
		}
	})
	// Databases are not dropped one by one: the end of the server deletes all of them.
	name := fmt.Sprintf("test_%d", s.databasesMade.Add(1))
	if err := s.createFromTemplate(tb.Context(), name, template); err != nil {
		tb.Fatalf("sqltest: create a database: %v", err)
	}
	return s.url(name)
}

// createFromTemplate makes a database as a copy of a template.
func (s *Server) createFromTemplate(ctx context.Context, name, template string) error {
	return s.withAdminConnection(ctx, func(conn *pgx.Conn) error {
		statement := "CREATE DATABASE " + name + " TEMPLATE " + template
		// To copy the files takes half as long as to write their pages to the log as well. Version 14 always copies files.
		version, _, _ := strings.Cut(conn.PgConn().ParameterStatus("server_version"), ".")
		if major, _ := strconv.Atoi(version); major >= 15 {
			statement += " STRATEGY FILE_COPY"
		}
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

// LockTable locks a table of a database until release or the test's end: every read and write of it waits.
func LockTable(tb testing.TB, url, table string) (release func()) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err == nil {
		_, err = conn.Exec(tb.Context(), "BEGIN; LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE")
	}
	if err != nil {
		tb.Fatalf("sqltest: lock %s: %v", table, err)
	}
	release = sync.OnceFunc(func() { _ = conn.Close(context.Background()) }) // which ends the transaction
	tb.Cleanup(release)
	return release
}

// Stop ends the server as an administrator would: running statements are aborted, answered ones are kept.
func (s *Server) Stop() { s.shutDown("stop") }

// Kill ends the server by kill -9.
func (s *Server) Kill() { s.shutDown("kill") }

// Start starts the server again after Stop or Kill, on the same data and the same URLs.
func (s *Server) Start(tb testing.TB) {
	tb.Helper()
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
}

// url is the URL of a database of this server: its host is the folder of the socket.
func (s *Server) url(database string) string {
	return "postgres://postgres@/" + database + "?" + url.Values{"host": {s.dir}}.Encode()
}

// withAdminConnection calls use with a connection outside of every test's database. The connection is kept for the next call, because a
// new one is a new process of the server, until no running test has a database.
func (s *Server) withAdminConnection(ctx context.Context, use func(*pgx.Conn) error) error {
	conn, err := s.idleOrNewConnection(ctx)
	if err != nil {
		return err
	}
	if err := use(conn); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	select {
	case s.idleConnection <- conn:
		return nil
	default:
		return conn.Close(ctx)
	}
}

// idleOrNewConnection is the idle connection, or a new one.
func (s *Server) idleOrNewConnection(ctx context.Context) (*pgx.Conn, error) {
	select {
	case conn := <-s.idleConnection:
		return conn, nil
	default:
		return pgx.Connect(ctx, s.url("postgres"))
	}
}

// closeIdleConnection closes the idle connection. After a slow write pgx can leave a goroutine that reads from its connection, and
// packages of tests end with a check that no goroutine is left.
func (s *Server) closeIdleConnection() {
	select {
	case conn := <-s.idleConnection:
		_ = conn.Close(context.Background()) // its server may be gone
	default:
	}
}

// startServer makes the data of a new server with these settings and starts it.
func startServer(settings string) (*Server, error) {
	bin, err := findPostgresPrograms()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	s := &Server{binFolder: bin, dir: dir, idleConnection: make(chan *pgx.Conn, 1)}
	if err := s.useNonRootAccount(); err != nil {
		return nil, err
	}
	if err := s.makeDataFolder(); err != nil {
		return nil, err
	}
	config, err := os.OpenFile(filepath.Join(dir, "data", "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	_, err = config.WriteString(settings)
	if err := errors.Join(err, config.Close()); err != nil {
		return nil, err
	}
	return s, s.start()
}

// findPostgresPrograms returns the folder of PostgreSQL's programs, which Debian and macOS keep out of PATH.
func findPostgresPrograms() (bin string, err error) {
	if found, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(found), nil
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin"} {
		found, _ := filepath.Glob(filepath.Join(pattern, "postgres")) // the patterns are good
		if len(found) > 0 {
			return filepath.Dir(found[len(found)-1]), nil
		}
	}
	return "", errors.New("sqltest: these tests need PostgreSQL 14 or newer and found no program postgres: " +
		"run apt-get install postgresql (Debian) or brew install postgresql (macOS), or put its bin folder into PATH")
}

// useNonRootAccount gives the folder to an account that PostgreSQL accepts: PostgreSQL refuses to run as root.
func (s *Server) useNonRootAccount() error {
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return fmt.Errorf("sqltest: PostgreSQL does not run as root, and there is no account postgres or nobody: %w", err)
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(account.Gid)
	if err != nil {
		return err
	}
	s.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.dir, uid, gid)
}

// command is a command under the server's account, in its folder.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	// The command has a process group of its own, so that a Ctrl-C at the tests ends the server through its supervisor alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.account}
	return cmd
}

// start runs the server and waits until it answers.
func (s *Server) start() error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		again, err := s.tryStart(deadline)
		if err == nil || !again || time.Now().After(deadline) {
			return err
		}
		s.shutDown("stop")
	}
}

// tryStart runs the server once. again says that another try may help: the remaining processes of a server that was
// killed take a moment to end.
func (s *Server) tryStart(deadline time.Time) (again bool, err error) {
	log, err := os.OpenFile(filepath.Join(s.dir, "server.log"), os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return false, err
	}
	defer log.Close()
	// The supervisor reads from the pipe. However the test binary ends, the pipe is closed, and the supervisor ends the server.
	in, supervisorInput, err := os.Pipe()
	if err != nil {
		return false, err
	}
	defer in.Close()
	// supervisorInput is the test binary's end of the pipe. No other process has it: the kernel closes it with the process.
	s.supervisorInput = supervisorInput
	s.supervisor = s.command("/bin/sh", "-c", supervisorScript, "supervisor", s.binFolder, s.dir)
	s.supervisor.Stdin, s.supervisor.Stdout, s.supervisor.Stderr = in, log, log
	if err := s.supervisor.Start(); err != nil {
		return false, fmt.Errorf("sqltest: start PostgreSQL: %w", err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		if err = s.withAdminConnection(ctx, func(conn *pgx.Conn) error { return conn.Ping(ctx) }); err == nil {
			return false, nil
		}
		said, _ := os.ReadFile(log.Name()) // for the message
		// The shared memory of a killed server exists until its last process has ended.
		if bytes.Contains(said, []byte("is still in use")) {
			return true, fmt.Errorf("sqltest: PostgreSQL did not start: %w\n%s", err, said)
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("sqltest: PostgreSQL did not start: %w\n%s", err, said)
		case <-retry.C:
		}
	}
}

// shutDown tells the supervisor by a word how the server shall end, "stop" or "kill", and waits for both. The word "" stops the server
// and deletes its data.
func (s *Server) shutDown(word string) {
	if s.supervisorInput == nil {
		return
	}
	if word != "" {
		_, _ = fmt.Fprintln(s.supervisorInput, word)
	}
	_ = s.supervisorInput.Close()
	s.supervisorInput = nil
	_ = s.supervisor.Wait() // the exit code of a server that was ended says nothing
}

// PostgresError makes an error of the type that PostgreSQL's driver returns.
func PostgresError(code, message string) error { return &pgconn.PgError{Code: code, Message: message} }
