package devpg

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// processAlive reports whether pid runs. A zombie does not: it holds no memory, files or locks any more, and in a
// container without a reaping init it stays for ever.
func processAlive(pid int) bool {
	if pid <= 0 {
		return false
	}
	if _, state, ok := procStat(pid); ok {
		return state != 'Z' && state != 'X'
	}
	if hasProc() {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// childrenOf lists the direct children of pid. Every Postgres process is a child of the postmaster, but leads a process
// group of its own, so a group signal would not reach them.
func childrenOf(pid int) []int {
	if !hasProc() {
		return childrenByPs(pid)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var children []int
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if parent, _, ok := procStat(child); ok && parent == pid {
			children = append(children, child)
		}
	}
	return children
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// procStat reads parent and state from /proc; the fields follow the command name, which may itself hold ") ".
func procStat(pid int) (parent int, state byte, ok bool) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, false
	}
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, 0, false
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, fields[0][0], err == nil
}

// childrenByPs serves the systems without /proc.
func childrenByPs(pid int) []int {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	var children []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(fields[0]); err == nil {
			children = append(children, child)
		}
	}
	return children
}
