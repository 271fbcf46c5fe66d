package redistest

import "syscall"

// The signals that stop a process and continue it: a stopped process keeps its connections and answers nothing, like a server that
// hangs.
const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
	// serversDieWithTestBinary is true: a server ends with the test binary, so it may be kept for the next test.
	serversDieWithTestBinary = true
)

// childAttributes make a server die with the thread that started it. A Go program's threads end with the program, unless a
// goroutine locks its thread and ends without unlocking it, which nothing here does.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
