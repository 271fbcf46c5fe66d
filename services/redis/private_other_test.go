//go:build !linux

package redis

import "syscall"

// isProcessRunning reports whether a process exists. A zombie counts too.
func isProcessRunning(pid int) bool { return syscall.Kill(pid, 0) == nil }
