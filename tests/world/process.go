package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// WaitForJobs waits until all jobs are done and none is dead.
func (p *Process) WaitForJobs(within time.Duration) {
	p.tb.Helper()
	p.WaitForJobsExceptPlanned(within, 0)
}

// WaitForJobsExceptPlanned waits until at most planned jobs wait, namely those that are planned for later, and no job is dead.
func (p *Process) WaitForJobsExceptPlanned(within time.Duration, planned int) {
	p.tb.Helper()
	EventuallySucceeds(p.tb, within, func() error {
		var data struct {
			Admin struct{ Jobs struct{ Waiting, Dead int } }
		}
		if err := Ask(p.URL, "root:admin", `{admin{jobs{waiting dead}}}`, nil, &data); err != nil {
			return err
		}
		if jobs := data.Admin.Jobs; jobs.Waiting > planned || jobs.Dead > 0 {
			return fmt.Errorf("%d jobs wait, %d are dead", jobs.Waiting, jobs.Dead)
		}
		return nil
	})
}

// tempFolder is the folder in which the program is built. It is read at the start, because tests may change TMPDIR later.
var tempFolder = os.TempDir()

// buildFolder is the folder with the built program; "" until a test has called ProgramPath.
var buildFolder string

// Main runs the tests of a package that starts the program. Afterwards it removes the built program. It returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if buildFolder != "" {
		_ = os.RemoveAll(buildFolder)
	}
	return code
}

// ProgramPath returns the path of the server's binary. The first call builds it.
var ProgramPath = sync.OnceValues(func() (path string, err error) {
	if buildFolder, err = os.MkdirTemp(tempFolder, "tidings-*"); err != nil {
		return "", err
	}
	path = filepath.Join(buildFolder, "tidings")
	// Go's test cache must know that the tests depend on the whole program. The tests import all of it except server.go, so this file
	// is named here: the cache notes each file that a test looks at.
	if _, err := os.Stat(filepath.Join(RepositoryRoot(), "server.go")); err != nil {
		return "", err
	}
	return path, BuildProgram(RepositoryRoot(), path)
})

// BuildProgram builds the program of a folder into a file. It uses go run, because no other command keeps the linked program in Go's
// cache: one package of tests links the program, and the others copy it.
func BuildProgram(folder, file string) error {
	run := exec.Command("go", "run", "-race=false", "-exec", "cp", ".", file)
	run.Dir = folder
	if out, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program of %s: %w\n%s", folder, err, out)
	}
	return nil
}

// Process is the program, running as a separate process.
type Process struct {
	tb       testing.TB
	Command  *exec.Cmd
	URL      string        // where it serves, once that is known
	Output   processOutput // its standard output and its standard error
	Ended    chan struct{} // closed when the process has ended
	exitCode int           // the exit code, -1 after a signal; valid once Ended is closed
}

// processOutput is the output of a process so far.
type processOutput struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (t *processOutput) Write(piece []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(piece)
}

func (t *processOutput) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// LaunchProcess starts the program with arguments, without the settings of the environment. If shell is not "", a shell runs it before
// the program. The process is killed at the test's end, and also if the test binary is killed.
func LaunchProcess(tb testing.TB, shell string, arguments ...string) *Process {
	tb.Helper()
	path, err := ProgramPath()
	if err != nil {
		tb.Fatal(err)
	}
	return LaunchOtherProgram(tb, path, shell, arguments...)
}

// LaunchOtherProgram starts the program at path in the way that LaunchProcess starts the server.
func LaunchOtherProgram(tb testing.TB, path, shell string, arguments ...string) *Process {
	tb.Helper()
	p := &Process{tb: tb, Ended: make(chan struct{})}
	if p.Command = exec.Command(path, arguments...); shell != "" {
		p.Command = exec.Command("/bin/sh", append([]string{"-c", shell + ` && exec "$0" "$@"`, path}, arguments...)...)
	}
	p.Command.Dir, p.Command.Stdout, p.Command.Stderr = tb.TempDir(), &p.Output, &p.Output
	p.Command.Env = EnvironmentWithoutSettings()
	if err := p.Command.Start(); err != nil {
		tb.Fatal(err)
	}
	cancelKill := KillWhenTestsEnd(tb, p.Command.Process.Pid)
	go func() {
		_ = p.Command.Wait() // the state has the exit code
		cancelKill()
		p.exitCode = p.Command.ProcessState.ExitCode()
		close(p.Ended)
	}()
	tb.Cleanup(p.Kill)
	return p
}

// EnvironmentWithoutSettings returns this process's environment without the settings of the program.
func EnvironmentWithoutSettings() (plain []string) {
	for _, setting := range os.Environ() {
		if name, _, _ := strings.Cut(setting, "="); !strings.HasPrefix(name, "TIDINGS_") && name != "DATABASE_URL" && name != "REDIS_URL" {
			plain = append(plain, setting)
		}
	}
	return plain
}

// KillWhenTestsEnd starts a shell that kills a process when this test binary ends. A negative pid means a process group. cancelKill
// stops the shell without killing the process.
func KillWhenTestsEnd(tb testing.TB, pid int) (cancelKill func()) {
	tb.Helper()
	watcher := exec.Command("/bin/sh", "-c", `read -r word; kill -KILL -- "$0"`, fmt.Sprint(pid))
	in, err := watcher.StdinPipe()
	if err == nil {
		err = watcher.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return func() {
		_ = watcher.Process.Kill()
		_ = watcher.Wait()
		_ = in.Close()
	}
}

// StartServingProcess launches the program and waits until it serves.
func StartServingProcess(tb testing.TB, shell string, arguments ...string) *Process {
	tb.Helper()
	p, serves := TryServingProcess(tb, shell, arguments...)
	if !serves {
		tb.Fatalf("the process ended with %d: %s", p.exitCode, p.Output.String())
	}
	return p
}

// TryServingProcess launches the program and waits until it serves, or has ended: then serves is false.
func TryServingProcess(tb testing.TB, shell string, arguments ...string) (p *Process, serves bool) {
	tb.Helper()
	p = LaunchProcess(tb, shell, append([]string{"--listen", "127.0.0.1:0", "--log-level", "error", "--rate-limits", "off"}, arguments...)...)
	Eventually(tb, 30*time.Second, "the process serves or ends", func() bool {
		select {
		case <-p.Ended:
			return true
		default:
		}
		_, rest, found := strings.Cut(p.Output.String(), "Tidings serves ")
		p.URL, _, _ = strings.Cut(rest, " ")
		serves = found
		return found
	})
	return p, serves
}

// Kill ends the process as kill -9 does.
func (p *Process) Kill() {
	_ = p.Command.Process.Kill() // it may have ended already
	<-p.Ended
}

// Terminate asks the process to end.
func (p *Process) Terminate() {
	p.tb.Helper()
	if err := p.Command.Process.Signal(syscall.SIGTERM); err != nil {
		p.tb.Fatal(err)
	}
}

// WaitExit waits for the end and returns the exit code.
func (p *Process) WaitExit(within time.Duration) int {
	p.tb.Helper()
	Eventually(p.tb, within, "the process ends", func() bool {
		select {
		case <-p.Ended:
			return true
		default:
			return false
		}
	})
	return p.exitCode
}
