package fleettest

import (
	"os/exec"
	"syscall"
)

// dieWithParent keeps a test binary that is killed from leaving its processes
// behind.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
