package mainjob_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// dieWithParent keeps a test binary that is killed from leaving its processes
// behind.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// isSuspended reports whether SIGSTOP has reached every thread of a process.
func isSuspended(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, stat := range threads {
		line, err := os.ReadFile(stat)
		// The state follows the name, which is in parentheses and may hold any.
		if _, rest, found := bytes.Cut(line[bytes.LastIndexByte(line, ')')+1:], []byte(" ")); err != nil || !found || rest[0] != 'T' {
			return false
		}
	}
	return true
}
