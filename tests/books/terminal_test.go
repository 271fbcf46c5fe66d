package books

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidings/tests/world"
)

// commandTimeout is the longest time that a command of a page may take. It is long because a machine may be busy.
const commandTimeout = 60 * time.Second

// terminal is a bash in the folder of a page, as a reader would use.
type terminal struct {
	command                   *exec.Cmd
	outputFile                string        // the file that has everything printed; "" for the shell of a page
	comparedBytes             int           // how much of the output has been compared
	ended                     chan struct{} // closed when the bash has ended
	blocksRun                 int           // the number of blocks that were run
	scriptInput, scriptOutput *os.File      // the pipes of runBlockFilesScript
}

// runBlockFilesScript reads names of files and runs the commands in them. A command that fails ends the loop.
const runBlockFilesScript = `set -eo pipefail
while read -r file; do
	source "$file" >"$file.out" 2>&1 </dev/null
	echo done >&3
done`

// newTerminal starts a bash with arguments in a process group of its own. The test's end kills the group. prepare connects the input and
// output of the bash before it starts.
func newTerminal(tb testing.TB, folder string, environment []string, prepare func(*exec.Cmd), arguments ...string) (*terminal, error) {
	t := &terminal{command: exec.Command("bash", arguments...), ended: make(chan struct{})}
	t.command.Dir, t.command.Env = folder, environment
	t.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	prepare(t.command)
	if err := t.command.Start(); err != nil {
		return nil, err
	}
	cancelKill := world.KillWhenTestsEnd(tb, -t.command.Process.Pid)
	go func() {
		_ = t.command.Wait() // the output shows whether a command failed
		close(t.ended)
	}()
	tb.Cleanup(func() {
		_ = syscall.Kill(-t.command.Process.Pid, syscall.SIGKILL) // it may have ended
		<-t.ended
		cancelKill()
	})
	return t, nil
}

// newShell starts the terminal in which blocks run one after the other.
func newShell(tb testing.TB, folder string, environment []string) (*terminal, error) {
	read, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, done, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	t, err := newTerminal(tb, folder, environment, func(command *exec.Cmd) {
		command.Stdin, command.ExtraFiles = read, []*os.File{done}
	}, "-c", runBlockFilesScript)
	_, _ = read.Close(), done.Close()
	if err == nil {
		t.scriptInput, t.scriptOutput = in, out
	}
	return t, err
}

// runBlock runs a block and returns what it printed.
func (t *terminal) runBlock(scratch, text string) (string, error) {
	t.blocksRun++
	file := filepath.Join(scratch, fmt.Sprintf("block-%d.sh", t.blocksRun))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintln(t.scriptInput, file); err != nil {
		return "", err
	}
	if err := t.scriptOutput.SetReadDeadline(time.Now().Add(commandTimeout)); err != nil {
		return "", err
	}
	_, err := t.scriptOutput.Read(make([]byte, 16))
	printed, _ := os.ReadFile(file + ".out")
	if err != nil {
		return "", fmt.Errorf("a command failed, or did not end within %s (%w); printed:\n%s", commandTimeout, err, printed)
	}
	return string(printed), nil
}

// openTerminal starts the commands of a block that keeps running, such as a server, and returns its terminal.
func openTerminal(tb testing.TB, folder, scratch string, environment []string, name, text string) (*terminal, error) {
	output, err := os.CreateTemp(scratch, name+"-*.out")
	if err != nil {
		return nil, err
	}
	t, err := newTerminal(tb, folder, environment, func(command *exec.Cmd) {
		command.Stdout, command.Stderr = output, output
	}, "-ec", text)
	_ = output.Close()
	if err == nil {
		t.outputFile = output.Name()
	}
	return t, err
}

// newOutput returns the output since the last comparison.
func (t *terminal) newOutput() string {
	all, _ := os.ReadFile(t.outputFile)
	return string(all[min(t.comparedBytes, len(all)):])
}

// awaitOutput waits until a condition holds for the output since the last comparison.
func (t *terminal) awaitOutput(tb testing.TB, what string, holds func(printed string) bool) error {
	deadline := time.Now().Add(commandTimeout)
	for !holds(t.newOutput()) {
		select {
		case <-t.ended:
			if holds(t.newOutput()) {
				return nil
			}
			return fmt.Errorf("it ended before it printed %s:\n%s", what, t.newOutput())
		case <-tb.Context().Done():
			return tb.Context().Err()
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it did not print %s; it printed:\n%s", what, t.newOutput())
		}
	}
	return nil
}

// interrupt sends Ctrl-C to the terminal's processes, and waits until the bash has ended.
func (t *terminal) interrupt() error {
	_ = syscall.Kill(-t.command.Process.Pid, syscall.SIGINT) // it may have ended
	select {
	case <-t.ended:
		return nil
	case <-time.After(commandTimeout):
		return fmt.Errorf("it did not end by Ctrl-C; it printed:\n%s", t.newOutput())
	}
}

// makeBinFolder makes a folder with the programs that a reader has: tidings, and a go command that runs tidings for "go run ." and
// "go run -v .".
func makeBinFolder(tb testing.TB) (folder string, err error) {
	program, err := world.ProgramPath()
	if err != nil {
		return "", err
	}
	folder = tb.TempDir()
	if err := os.Symlink(program, filepath.Join(folder, "tidings")); err != nil {
		return "", err
	}
	real, err := exec.LookPath("go")
	if err != nil {
		return "", err
	}
	script := strings.ReplaceAll("#!/bin/sh\nif [ \"$1 $2\" = 'run .' ]; then shift 2; exec tidings \"$@\"; fi\nif [ \"$1 $2 $3\" = 'run -v .' ]; then shift 3; exec tidings \"$@\"; fi\nexec REAL \"$@\"\n", "REAL", real)
	return folder, os.WriteFile(filepath.Join(folder, "go"), []byte(script), 0o700)
}
