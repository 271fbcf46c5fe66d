package redis

import "syscall"

// childAttributes make the server die with us and not with the terminal: an interrupt is ours to answer, and the
// server is needed until the last job has ended.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
