//go:build !linux && !windows

package redis

import "syscall"

// childAttributes keep the terminal's interrupt from the server. Only Close ends it here: there is no Pdeathsig.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
