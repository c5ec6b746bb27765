package bench

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel end the process when this one is killed.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
