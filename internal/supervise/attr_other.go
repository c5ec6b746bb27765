//go:build !linux

package supervise

import "syscall"

// attr puts the command into the group, 0 for a new one. Without a guard nothing here ends it when we are killed.
func attr(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}
