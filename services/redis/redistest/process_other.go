//go:build !linux

package redistest

import "syscall"

// The signals that stop a process and continue it: a stopped process keeps its connections and answers nothing.
const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
	// serversDieWithTestBinary is false: a server would outlive the test binary, so no server is kept beyond its test.
	serversDieWithTestBinary = false
)

// childAttributes keep the terminal's interrupt from a server.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
