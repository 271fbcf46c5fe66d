package sql

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"tidings/services"
)

// lockFile makes this process the only user of the SQLite file at path. The kernel releases the lock when the process ends,
// however it ends. The file FILE.lock itself stays, since removing it would let two processes lock the database.
func lockFile(path string) (io.Closer, error) {
	file, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, services.Wrapf(services.Unavailable, err, "the database file %s cannot be opened", path)
	}
	held, err := tryLock(file, true)
	// The error names the other process for the operator. The process ID may be missing if that process has just begun.
	if held {
		holder := readLockHolder(file)
		_ = file.Close()
		return nil, services.Errorf(services.Conflict,
			"the database file %s is in use%s: SQLite serves one process; stop the other one, or use PostgreSQL for several", path, holder)
	}
	if err == nil {
		err = writeLockHolder(file)
	}
	if err != nil {
		_ = file.Close()
		return nil, services.Wrapf(services.Unavailable, err, "the database file %s cannot be locked", path)
	}
	// The file stays open: closing it would release the lock.
	return file, nil
}

// writeLockHolder writes the ID of this process into the lock file.
func writeLockHolder(file *os.File) error {
	// The former holder's ID may be longer.
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(fmt.Sprintln(os.Getpid())), 0)
	return err
}

// readLockHolder returns the process that the lock file names, as " by process ID", or "". It is for messages alone: only the lock
// itself counts.
func readLockHolder(file *os.File) string {
	var text [20]byte
	n, err := file.ReadAt(text[:], 0)
	if pid := strings.TrimSpace(string(text[:n])); pid != "" && (err == nil || errors.Is(err, io.EOF)) {
		return " by process " + pid
	}
	return ""
}
