//go:build !linux

package sql

import "syscall"

// setTCPUserTimeout does nothing: other systems have no such option, or another one.
func setTCPUserTimeout(_, _ string, _ syscall.RawConn) error { return nil }
