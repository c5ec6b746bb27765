//go:build !linux

package mainjob_test

import (
	"os/exec"
	"strconv"
	"strings"
)

func dieWithParent(*exec.Cmd) {}

func isSuspended(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(state)), "T")
}
