//go:build unix

package node

import "syscall"

// openFilesLimit is the number of files that this process may open; known says whether there is such a limit. It is the hard limit,
// because Go raises the soft one to it at the start.
func openFilesLimit() (limit uint64, known bool) {
	var files syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	return uint64(files.Max), err == nil //nolint:unconvert // the types differ between systems
}
