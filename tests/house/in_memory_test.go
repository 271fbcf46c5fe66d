package house

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// runUnderInMemoryScript runs a script of sh under tests/in-memory.sh, which keeps the temporary files of a command in memory, as the
// Makefile does. more are variables that are added to the environment. It returns what the script printed.
func runUnderInMemoryScript(t *testing.T, script string, more ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, "../in-memory.sh", "sh", "-c", script)
	// The tests themselves may run under in-memory.sh, which sets TMPDIR.
	run.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "TMPDIR=") }), more...)
	run.Stderr = os.Stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%s: %v, it printed %q", script, err, out)
	}
	return string(out)
}

// in-memory.sh gives every run the same folder for temporary files. With another folder Go's test cache would not hold, and Go would run
// tests again that have not changed. A run does not wait for a process that an earlier run has left behind.
func TestEveryRunHasTheSameFolderInMemory(t *testing.T) {
	first := runUnderInMemoryScript(t, `echo "folder=$TMPDIR"; (sleep 100 >/dev/null 2>&1 & echo $!)`)
	folder, orphan, _ := strings.Cut(first, "\n")
	t.Cleanup(func() { _ = exec.Command("kill", strings.TrimSpace(orphan)).Run() })
	for range 2 {
		if again := runUnderInMemoryScript(t, `echo "folder=$TMPDIR"`); strings.TrimSpace(again) != folder {
			t.Errorf("a run has %q, the next one %q", folder, again)
		}
	}
}

// If TMPDIR is set already, in-memory.sh keeps it. If its command fails, in-memory.sh ends with the same exit code.
func TestARunKeepsItsOwnTemporaryFolder(t *testing.T) {
	own := t.TempDir()
	if got := runUnderInMemoryScript(t, `echo "$TMPDIR"`, "TMPDIR="+own); strings.TrimSpace(got) != own {
		t.Errorf("TMPDIR is %q, want %s", got, own)
	}
	run := exec.Command("../in-memory.sh", "sh", "-c", "exit 7")
	if _ = run.Run(); run.ProcessState.ExitCode() != 7 {
		t.Errorf("the command ended with 7, the run with %d", run.ProcessState.ExitCode())
	}
}
