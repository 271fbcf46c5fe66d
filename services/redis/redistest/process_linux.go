package redistest

import "syscall"

const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
	// diesWithUs: a server does not outlive the test binary, so that one may be kept for the next test.
	diesWithUs = true
)

// childAttributes make a server die with the thread that started it. The threads of a Go program end with it, unless
// a goroutine that locked one ends without giving it back, which nothing here does.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
