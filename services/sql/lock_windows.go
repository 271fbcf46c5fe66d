package sql

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockedByteOffset is the place of the one byte of a lock file that is locked, far behind the text of the file: on Windows other
// processes cannot read locked bytes.
const lockedByteOffset = 1 << 30

// tryLock locks a file for this process, alone or with other readers. held is true if another process holds the lock.
func tryLock(file *os.File, alone bool) (held bool, err error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if alone {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err = windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockedByteOffset})
	// The error depends on how the file was opened.
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return true, nil
	}
	return false, err
}

// freeSpace is the number of bytes that this process may still write in a folder.
func freeSpace(folder string) (free uint64, err error) {
	path, err := windows.UTF16PtrFromString(folder)
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
	}
	return free, err
}
