//go:build !linux

package redistest

import "syscall"

// See process_linux.go.
const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
	// serversDieWithTestBinary is false: a server would outlive the test binary, so no server is kept beyond its test.
	serversDieWithTestBinary = false
)

// childAttributes keep the terminal's interrupt from a server.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
