package redis

import "syscall"

// childAttributes keep the terminal's interrupt from the server. Only Close ends it here.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
