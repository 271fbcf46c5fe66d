package sqltest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// MountSmallDisk mounts an empty file system of a size, such as "8m", on a folder until the test's end. It returns false where that is
// not possible: it needs root on Linux.
func MountSmallDisk(tb testing.TB, folder, size string) (mounted bool) {
	tb.Helper()
	if err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", folder).Run(); err != nil {
		return false
	}
	tb.Cleanup(func() {
		if out, err := exec.Command("umount", folder).CombinedOutput(); err != nil {
			tb.Errorf("umount: %v %s", err, out)
		}
	})
	return true
}

// DatabaseOnSmallDisk makes a database without tables whose files are on a file system of a size, such as "8m", which is mounted on
// folder. Both results are "" where MountSmallDisk is not possible. The database can be used until the test ends.
func (s *Server) DatabaseOnSmallDisk(tb testing.TB, size string) (url, folder string) {
	tb.Helper()
	mount := filepath.Join(s.dir, "small")
	if err := os.Mkdir(mount, 0o755); err != nil {
		tb.Fatal(err)
	}
	if !MountSmallDisk(tb, mount, size) {
		return "", ""
	}
	tb.Cleanup(s.Stop) // before the file system is unmounted
	// PostgreSQL accepts only a folder that its own account owns.
	space := filepath.Join(mount, "space")
	err := os.Mkdir(space, 0o700)
	if err == nil && s.account != nil {
		err = os.Chown(space, int(s.account.Uid), int(s.account.Gid))
	}
	if err == nil {
		err = s.withAdminConnection(tb.Context(), func(conn *pgx.Conn) error {
			if _, err := conn.Exec(tb.Context(), fmt.Sprintf("CREATE TABLESPACE small LOCATION '%s'", space)); err != nil {
				return err
			}
			_, err := conn.Exec(tb.Context(), "CREATE DATABASE small TEMPLATE template0 TABLESPACE small")
			return err
		})
	}
	if err != nil {
		tb.Fatalf("sqltest: a database on a small disk: %v", err)
	}
	return s.url("small"), mount
}

// FillDisk fills the file system of a folder with a file, except for some bytes, until release removes the file. The end of the test
// removes it too, before the file system is unmounted: a database that is stopped there needs room.
func FillDisk(tb testing.TB, folder string, free int64) (release func()) {
	tb.Helper()
	path := filepath.Join(folder, "filler")
	release = sync.OnceFunc(func() {
		if err := os.Remove(path); err != nil {
			tb.Error(err)
		}
	})
	file, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(release)
	_, full := io.Copy(file, zeros{})
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		err = file.Truncate(max(size-free, 0))
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil || size < free {
		tb.Fatalf("sqltest: the disk has room for %d bytes, %v, %v", size, full, err)
	}
	return release
}

// zeros is an endless reader of zero bytes.
type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}
