//go:build !linux

package redis

import "syscall"

func isProcessRunning(pid int) bool { return syscall.Kill(pid, 0) == nil }
