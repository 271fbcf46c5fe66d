//go:build !linux

package redistest

import "syscall"

const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
	// diesWithUs: a server would outlive the test binary, so that none is kept beyond its test.
	diesWithUs = false
)

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
