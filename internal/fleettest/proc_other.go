//go:build !linux

package fleettest

import "os/exec"

// dieWithParent: only Linux ends a process with its parent.
func dieWithParent(*exec.Cmd) {}
