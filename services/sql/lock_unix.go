//go:build unix

package sql

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a file for this process, alone or with other readers. held is true if another process holds the lock.
func tryLock(file *os.File, alone bool) (held bool, err error) {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	err = syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// freeSpace is the number of bytes that this process may still write in a folder.
func freeSpace(folder string) (uint64, error) {
	var at syscall.Statfs_t
	err := syscall.Statfs(folder, &at)
	return uint64(at.Bavail) * uint64(at.Bsize), err //nolint:unconvert // the types differ between systems
}
