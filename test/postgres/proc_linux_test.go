package postgres_test

import (
	"os/exec"
	"syscall"
)

// dieWithParent keeps a test binary that is killed from leaving its processes
// behind.
func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
