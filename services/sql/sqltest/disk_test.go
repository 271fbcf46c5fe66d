package sqltest_test

import (
	"os"
	"path/filepath"
	"testing"

	"tidings/services/sql/sqltest"
)

// A disk that a test has filled has room again after the test, whether the test released it or failed before.
func TestAFilledDiskIsFreedAtTheEndOfTheTest(t *testing.T) {
	folder := t.TempDir()
	if !sqltest.MountSmallDisk(t, folder, "1m") {
		return // it needs root on Linux
	}
	write := func() error {
		path := filepath.Join(folder, "file")
		defer func() { _ = os.Remove(path) }()
		return os.WriteFile(path, make([]byte, 4096), 0o600)
	}
	for _, released := range []bool{false, true} {
		t.Run("", func(t *testing.T) {
			release := sqltest.FillDisk(t, folder, 0)
			if err := write(); err == nil {
				t.Error("the disk is not full")
			}
			if released {
				release()
			}
		})
		if err := write(); err != nil {
			t.Errorf("released %t: %v", released, err)
		}
	}
}
