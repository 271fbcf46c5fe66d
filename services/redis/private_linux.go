package redis

import "syscall"

// childAttributes make the server die with this process, and keep the terminal's interrupt from it: this process handles the
// interrupt, and needs the server until the last job has ended.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
