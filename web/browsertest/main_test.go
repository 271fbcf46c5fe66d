package browsertest

import (
	"os"
	"os/exec"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Main(m.Run)) }

// The browser ends with the tests, and leaves no file behind.
func TestMainStopsTheBrowser(t *testing.T) {
	temporary := t.TempDir()
	tests := exec.Command(os.Args[0], "-test.run=^TestTabsOfAProfileShareOnlyLocalStorage$", "-test.v")
	tests.Env = append(os.Environ(), "TMPDIR="+temporary)
	if out, err := tests.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
