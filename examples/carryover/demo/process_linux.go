package main

import "syscall"

// childAttr puts a child into a process group of its own, so that a Ctrl-C
// reaches it through the demo only, and ends it should the demo be killed.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
