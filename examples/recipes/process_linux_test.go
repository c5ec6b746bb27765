package recipes_test

import "syscall"

// childAttr puts a child into a process group of its own, for children that have children, and ends it with the test binary.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
