package supervise

import "syscall"

// attr puts the command into the group, 0 for a new one. Without a guard the kernel kills it when the thread that
// started it ends, hence [Process.run].
func attr(group int) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if group == 0 {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}
