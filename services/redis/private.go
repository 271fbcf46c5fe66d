package redis

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tidings/services"

	"github.com/redis/go-redis/v9"
)

// The constants are the folder, the times and the settings of a private server. The server saves nothing: all of its data is in
// SQL.
const (
	socketName             = "redis.sock"          // the name of the socket in its folder
	folderPattern          = "tidings-redis-*"     // the pattern for the name of the folder with the socket
	maxSocketPathBytes     = 100                   // bytes of a path; the system's own limit is 104 to 108
	privateStartTimeout    = 5 * time.Second       // how long Open waits for the first answer
	privatePingInterval    = 5 * time.Millisecond  // the pause between two pings until then
	firstRestartPause      = 50 * time.Millisecond // the pause before the first restart
	slowestRestartPause    = 5 * time.Second       // the longest pause before a restart
	restartPauseResetAfter = 10 * time.Second      // after a server that ran for this long, the pauses start from the shortest again
	outputTailBytes        = 2048                  // bytes of a server's last output
	// privateSettings are the lines of the server's configuration that are always the same.
	privateSettings = "port 0\nsave \"\"\nappendonly no\ndaemonize no\nmaxmemory-policy noeviction\nunixsocketperm 700\nloglevel warning\n"
)

// privateServer is a redis-server of this process's own: on a socket that only this user may open, with a password of this run, and
// without data on disk. On Linux it dies with the process, however the process ends; elsewhere it ends with Close.
type privateServer struct {
	program  string // the path of redis-server
	folder   string // has the socket and nothing else
	socket   string // the path of the socket
	password string // which every client needs
	log      *slog.Logger
	stop     context.CancelFunc // ends keepRunning
	done     chan struct{}      // closed when keepRunning has returned

	// startState decides whether startPrivate or keepRunning reports the first end of the server, so that exactly one of them does.
	startState atomic.Int32
	mu         sync.Mutex // guards process
	// process is the running server, nil between two runs. The lock keeps close from killing a server that has just been
	// replaced.
	process *os.Process
}

// The constants are the states of a private server. A server that ends before its first answer is not restarted.
const (
	serverStarting = iota // it has not answered yet
	serverReady           // it has answered: it is restarted whenever it ends
	serverFailed          // it ended before its first answer
)

// startPrivate starts a server, waits until it answers, and keeps it running until close.
func startPrivate(ctx context.Context, dataDir string, log *slog.Logger) (*privateServer, error) {
	program, err := exec.LookPath(serverProgram)
	if err != nil {
		return nil, fmt.Errorf("a private Redis needs redis-server in PATH (Debian: apt-get install redis-server; macOS: brew install redis): %w", err)
	}
	folder, err := socketFolder(dataDir)
	if err != nil {
		return nil, err
	}
	// The server outlives the context of Open: only close ends it.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &privateServer{program: program, folder: folder, socket: filepath.Join(folder, socketName), password: rand.Text(), log: log,
		stop: stop, done: make(chan struct{})}
	first := make(chan error, 1)
	go s.keepRunning(running, first)
	deadline, cancel := context.WithTimeout(ctx, privateStartTimeout)
	defer cancel()
	err = s.awaitPong(deadline, first)
	// The server may have answered, and then ended before this line.
	if err == nil && !s.startState.CompareAndSwap(serverStarting, serverReady) {
		err = <-first
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// socketFolder makes a folder for the socket, in the data folder unless its path is too long for a socket. Each server
// has a folder of its own, which nobody else may enter.
func socketFolder(dataDir string) (string, error) {
	if dataDir == "" {
		dataDir = os.TempDir()
	}
	// The system's limit of a socket's path is short, and a data folder may lie deep.
	for _, parent := range []string{dataDir, os.TempDir(), "/tmp"} {
		parent, err := filepath.Abs(parent)
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(parent, 0o700); err != nil {
			return "", err
		}
		removeDeadSocketFolders(parent)
		folder, err := os.MkdirTemp(parent, folderPattern)
		if err != nil {
			return "", err
		}
		if len(filepath.Join(folder, socketName)) <= maxSocketPathBytes {
			return folder, nil
		}
		if err := os.Remove(folder); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("no folder with a path under %d bytes for the socket of redis-server", maxSocketPathBytes)
}

// removeDeadSocketFolders removes the folders of killed processes: the folders whose socket has no listener.
func removeDeadSocketFolders(parent string) {
	sockets, _ := filepath.Glob(filepath.Join(parent, folderPattern, socketName))
	// A running server of another process answers, and its folder stays.
	for _, socket := range sockets {
		connection, err := net.Dial("unix", socket)
		if err == nil {
			_ = connection.Close()
			continue
		}
		// A socket without a listener belongs to a dead server. Any other error may come from the server of another user: its
		// folder stays.
		if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.RemoveAll(filepath.Dir(socket))
		}
	}
}

// options returns the options with which a client reaches the server. They stay the same when the server is restarted.
func (s *privateServer) options() *redis.Options {
	return &redis.Options{Network: "unix", Addr: s.socket, Password: s.password}
}

// keepRunning restarts the server whenever it ends, until ctx ends. first receives the error of a server that ended before its first
// answer.
func (s *privateServer) keepRunning(ctx context.Context, first chan<- error) {
	defer close(s.done)
	// A child with Pdeathsig is killed when the thread that started it ends: this goroutine keeps the thread while the server
	// runs. The thread is unlocked after that and not ended, since another child may depend on it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pause := firstRestartPause
	for {
		started := time.Now()
		err := s.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.startState.CompareAndSwap(serverStarting, serverFailed) {
			first <- err
			return
		}
		if time.Since(started) > restartPauseResetAfter {
			pause = firstRestartPause
		}
		s.log.Error("the private redis-server has ended: it is restarted, empty", "cause", err, "pause", pause)
		if services.Sleep(ctx, pause) != nil {
			return
		}
		// A server that dies at once, as for want of memory, must not keep a processor busy with its restarts.
		pause = min(2*pause, slowestRestartPause)
	}
}

// run runs the server once, until ctx ends at the latest. The settings go through its standard input and not its arguments,
// which any user of the machine can read.
func (s *privateServer) run(ctx context.Context) error {
	// The folder is made again at each restart: another program may have removed it from the folder for temporary files.
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return err
	}
	tail := &outputTail{}
	// "-" reads the configuration from the standard input.
	command := exec.Command(s.program, "-")
	command.Dir = s.folder
	command.SysProcAttr = childAttributes()
	command.Stdin = strings.NewReader(fmt.Sprintf("%sunixsocket %q\nrequirepass %s\n%s",
		privateSettings, s.socket, s.password, listpackConfigLines()))
	command.Stdout, command.Stderr = tail, tail
	// The lock makes the check and the start one step: close either stops the start or finds the process to kill.
	s.mu.Lock()
	err := ctx.Err()
	if err == nil {
		err = command.Start()
	}
	if err == nil {
		s.process = command.Process
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	err = command.Wait()
	s.mu.Lock()
	s.process = nil
	s.mu.Unlock()
	if err == nil {
		err = errors.New("it ended by itself")
	}
	return fmt.Errorf("%w: %s", err, tail)
}

// awaitPong waits until the server answers, or ends first.
func (s *privateServer) awaitPong(ctx context.Context, first <-chan error) error {
	for {
		err := s.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case ended := <-first:
			return fmt.Errorf("redis-server did not start: %w", ended)
		case <-ctx.Done():
			return fmt.Errorf("redis-server did not answer in time: %w", err)
		case <-time.After(privatePingInterval):
		}
	}
}

// ping asks the server once for an answer, on a connection of its own: a client that has failed to dial would not retry for a second.
func (s *privateServer) ping(ctx context.Context) error {
	options := s.options()
	options.MaxRetries, options.DialerRetries, options.Protocol = -1, 1, 2
	client := redis.NewClient(options)
	defer client.Close()
	return client.Ping(ctx).Err()
}

// close kills the server: it keeps nothing that an orderly end could save.
func (s *privateServer) close() error {
	s.stop()
	s.mu.Lock()
	if s.process != nil {
		_ = s.process.Kill()
	}
	s.mu.Unlock()
	// When keepRunning has returned, nothing writes into the folder any more.
	<-s.done
	return os.RemoveAll(s.folder)
}

// outputTail keeps the end of a server's output, for the log.
type outputTail struct {
	mu   sync.Mutex // guards text
	text []byte     // the last outputTailBytes bytes at most
}

// Write keeps the last bytes of both outputs.
func (w *outputTail) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text...)
	w.text = w.text[max(0, len(w.text)-outputTailBytes):]
	return len(text), nil
}

// String is what was written last.
func (w *outputTail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(bytes.TrimSpace(w.text))
}
