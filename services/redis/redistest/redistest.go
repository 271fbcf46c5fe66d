// Package redistest gives tests a Redis of their own: real servers on loopback, alone, as a cluster or under sentinels,
// and a proxy that simulates network faults.
//
// It guarantees that no test sees another's data, and that every server ends with its test, or on Linux with the test binary at
// the latest, even if the binary is killed. Without redis-server in PATH a test fails and says how to install it: a test that did
// not run has not passed.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	serverProgram      = "redis-server"
	folderPrefix       = "redistest-"         // begins the names of the servers' folders
	serverStartTimeout = 10 * time.Second     // for the first answer of a server
	pollInterval       = 5 * time.Millisecond // the pause between two attempts to reach it
	startAttempts      = 20                   // ports to try
	// Servers have ports from firstPort on. These and the ports of the cluster bus (10,000 above) are below the range from which the
	// system assigns ports.
	firstPort = 10_000
	portCount = 12_000 // how many ports servers may have
)

// EachRedis runs a test once for every kind of Redis: "embedded", "redis" and "cluster". The URL is for redis.Open.
func EachRedis(t *testing.T, run func(t *testing.T, url string)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { run(t, "embedded") })
	t.Run("redis", func(t *testing.T) { run(t, Redis(t)) })
	t.Run("cluster", func(t *testing.T) { run(t, Cluster(t)) })
}

// Redis starts an empty server for this test and returns its URL.
func Redis(tb testing.TB) (url string) {
	tb.Helper()
	return NewServer(tb).URL()
}

// Server is a redis-server of a test. Its methods fail the test if they cannot do their work. They are for one goroutine at a
// time.
type Server struct {
	tb          testing.TB // the test that has it now
	programPath string     // of redis-server
	folder      string     // has its configuration, its output and what it saves
	port        int
	settings    string    // beyond the settings of every server
	isSentinel  bool      // it is a sentinel, and has no data
	command     *exec.Cmd // its process; nil: it is not running
	outputFile  *os.File  // takes what the server prints
}

// NewServer starts an empty server for this test.
func NewServer(tb testing.TB) *Server {
	tb.Helper()
	s := newServer(tb, "")
	tb.Cleanup(s.remove)
	return s
}

// newServer starts a server. The caller must remove it.
func newServer(tb testing.TB, settings string) *Server {
	tb.Helper()
	return newServerOrSentinel(tb, settings, false)
}

// newServerOrSentinel starts a data server or a sentinel. A port that was free a moment ago may be taken by now, so it tries several.
func newServerOrSentinel(tb testing.TB, settings string, sentinel bool) *Server {
	tb.Helper()
	path, err := exec.LookPath(serverProgram)
	if err != nil {
		tb.Fatalf("redis-server is not in PATH and the tests need it: apt-get install redis-server (Debian), brew install redis (macOS)")
	}
	removeStaleFoldersOnce()
	folder, err := os.MkdirTemp("", fmt.Sprintf("%s%d-*", folderPrefix, os.Getpid()))
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{tb: tb, programPath: path, folder: folder, settings: settings + debugCommandSetting(), isSentinel: sentinel}
	for range startAttempts {
		if s.port = freePort(tb); s.start() == nil {
			return s
		}
	}
	err = s.start()
	s.remove()
	tb.Fatalf("redis-server does not start: %v", err)
	return nil
}

// debugCommandSetting returns the line of the configuration that allows the DEBUG command, which a server refuses by default since
// version 7.
var debugCommandSetting = sync.OnceValue(func() string {
	text, err := exec.Command(serverProgram, "--version").Output()
	if err != nil || bytes.Contains(text, []byte("v=6.")) || bytes.Contains(text, []byte("v=5.")) {
		return ""
	}
	return "enable-debug-command local\n"
})

// removeStaleFoldersOnce runs removeStaleFolders once in a test binary.
var removeStaleFoldersOnce = sync.OnceFunc(removeStaleFolders)

// removeStaleFolders removes the folders of test binaries that have ended: nothing else removes the folder of a cluster that was kept
// to the end.
func removeStaleFolders() {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*-*"))
	for _, folder := range folders {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), folderPrefix), "-")
		if pid, err := strconv.Atoi(owner); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(folder)
		}
	}
}

// freePort returns a port without a listener; the port 10,000 above it has none either.
func freePort(tb testing.TB) int {
	for range 1000 {
		port := firstPort + rand.IntN(portCount)
		if canListen(port) && canListen(port+10_000) {
			return port
		}
	}
	tb.Fatalf("no free port between %d and %d", firstPort, firstPort+portCount)
	return 0
}

// canListen reports whether a port can be had, by taking it for a moment.
func canListen(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && listener.Close() == nil
}

// URL is the server's URL for redis.Open.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Addr is host:port, the same after every Start.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Start restarts a killed server on its old port, empty or as the command SAVE left it, and waits until it answers.
func (s *Server) Start() {
	s.tb.Helper()
	if s.command != nil {
		s.tb.Fatal("Start: the server runs already")
	}
	if err := s.start(); err != nil {
		s.tb.Fatalf("redis-server does not start again on port %d: %v", s.port, err)
	}
}

// start writes the configuration anew, because a sentinel changes its own, and starts the process.
func (s *Server) start() error {
	output, err := os.Create(filepath.Join(s.folder, "output"))
	if err != nil {
		return err
	}
	config := filepath.Join(s.folder, "redis.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\ndaemonize no\nloglevel notice\n", s.port, s.folder)
	arguments := []string{config}
	if s.isSentinel {
		arguments = append(arguments, "--sentinel")
	} else {
		text += "save \"\"\nappendonly no\n"
	}
	if err := os.WriteFile(config, []byte(text+s.settings), 0o600); err != nil {
		return err
	}
	// The process has no pipes and no goroutine, because a server that is kept for the next test must not look like a leak.
	command := exec.Command(s.programPath, arguments...)
	command.Stdout, command.Stderr, command.SysProcAttr = output, output, childAttributes()
	if err := command.Start(); err != nil {
		return errors.Join(err, output.Close())
	}
	s.command, s.outputFile = command, output
	if err := s.awaitPong(); err != nil {
		s.Kill()
		return err
	}
	return nil
}

// awaitPong waits for the answer of this process, and not of another process that may have taken the port.
func (s *Server) awaitPong() error {
	deadline := time.Now().Add(serverStartTimeout)
	for {
		err := s.runCommands(func(ctx context.Context, client *redis.Client) error {
			info, err := client.Info(ctx, "server").Result()
			if err == nil && !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.command.Process.Pid)) {
				err = fmt.Errorf("another server has port %d", s.port)
			}
			return err
		})
		if err == nil {
			return nil
		}
		output, _ := os.ReadFile(s.outputFile.Name())
		if bytes.Contains(output, []byte("Failed listening")) || bytes.Contains(output, []byte("FATAL CONFIG")) || time.Now().After(deadline) {
			return fmt.Errorf("%w: %s", err, output)
		}
		time.Sleep(pollInterval)
	}
}

// runCommands runs commands on a new connection.
func (s *Server) runCommands(run func(context.Context, *redis.Client) error) error {
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, PoolSize: 10})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), serverStartTimeout)
	defer cancel()
	return run(ctx, client)
}

// mustRunCommands runs commands on a new connection, and fails the test on an error; what names their work in the failure.
func (s *Server) mustRunCommands(what string, run func(context.Context, *redis.Client) error) {
	s.tb.Helper()
	if err := s.runCommands(run); err != nil {
		s.tb.Fatalf("%s on the server at %s: %v", what, s.Addr(), err)
	}
}

// Kill ends the server as kill -9 does. Writes since SAVE are lost. It does nothing if the server is not running.
func (s *Server) Kill() {
	if s.command == nil {
		return
	}
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
	_ = s.outputFile.Close()
	s.command = nil
}

// Pause suspends the server: connections stay open and nothing answers.
func (s *Server) Pause() { s.signal("Pause", pauseSignal) }

// Resume continues a paused server.
func (s *Server) Resume() { s.signal("Resume", resumeSignal) }

// signal sends a signal to the process.
func (s *Server) signal(what string, signal os.Signal) {
	s.tb.Helper()
	if s.command == nil {
		s.tb.Fatalf("%s: the server does not run", what)
	}
	if err := s.command.Process.Signal(signal); err != nil {
		s.tb.Fatalf("%s: %v", what, err)
	}
}

// Flush empties the server, its scripts included.
func (s *Server) Flush() {
	s.tb.Helper()
	s.mustRunCommands("Flush", func(ctx context.Context, client *redis.Client) error {
		return errors.Join(client.FlushAll(ctx).Err(), client.ScriptFlush(ctx).Err())
	})
}

// Do runs one command and returns its answer, for changes that a test makes without the client under test.
func (s *Server) Do(args ...any) any {
	s.tb.Helper()
	var value any
	s.mustRunCommands(fmt.Sprint(args...), func(ctx context.Context, client *redis.Client) (err error) {
		if value, err = client.Do(ctx, args...).Result(); errors.Is(err, redis.Nil) {
			err = nil
		}
		return err
	})
	return value
}

// remove ends the server for good, and removes its folder.
func (s *Server) remove() {
	s.Kill()
	_ = os.RemoveAll(s.folder)
}
