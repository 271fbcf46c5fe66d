package redis

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidings/tests/eventually"
)

// isProcessRunning reports whether a process exists and is not a zombie: a container may have no process that reaps orphans.
func isProcessRunning(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(status), ") Z ")
}

func TestThePrivateServerDiesWithItsKilledParent(t *testing.T) {
	folder, err := os.MkdirTemp("", "killed") // with the name of the test in it the path of the socket could be too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentProcessFolderEnv+"="+folder)
	stdin, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	pid, bad := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || bad != nil || !isProcessRunning(pid) {
		_ = parent.Process.Kill()
		t.Fatalf("the parent said %q, %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	eventually.Succeeds(t, 5*time.Second, "the server ends", func() error {
		if isProcessRunning(pid) {
			return fmt.Errorf("process %d runs", pid)
		}
		return nil
	})

	left, err := filepath.Glob(filepath.Join(folder, folderPattern))
	if err != nil || len(left) != 1 {
		t.Fatalf("a killed parent leaves its folder: %v, %v", left, err)
	}
	// A process's last thread may hold the socket a moment longer than its first thread runs.
	eventually.Succeeds(t, 5*time.Second, "nobody listens", func() error {
		connection, err := net.Dial("unix", filepath.Join(left[0], socketName))
		if err == nil {
			_ = connection.Close()
			return errors.New("somebody does")
		}
		return nil
	})
	connect(t, Options{URL: "private", DataDir: folder})
	if _, err := os.Stat(left[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the next Open does not take %s away: %v", left[0], err)
	}
}

func TestThePasswordIsNotAmongTheArguments(t *testing.T) {
	c := connect(t, Options{URL: "private"})
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", privateServerProcess(c).Pid))
	if err != nil || len(line) == 0 || strings.Contains(string(line), c.localServer.(*privateServer).password) {
		t.Errorf("the arguments: %q, %v", line, err)
	}
}
