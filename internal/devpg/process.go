package devpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// workersIn lists the processes of Postgres that work in a data directory, orphans included: all of its processes change
// to it. Where /proc can't tell there are none.
func workersIn(dataDir string) []int {
	dataDir, err := filepath.EvalSymlinks(dataDir)
	if err != nil {
		return nil
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return nil
	}
	var workers []int
	for _, link := range links {
		if cwd, err := os.Readlink(link); err != nil || cwd != dataDir {
			continue
		}
		process := filepath.Dir(link)
		// Somebody's shell in that directory is none of ours.
		if exe, err := os.Readlink(filepath.Join(process, "exe")); err != nil || filepath.Base(exe) != "postgres" {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(process)); err == nil {
			workers = append(workers, pid)
		}
	}
	return workers
}

// awaitGone waits until none of the processes runs.
func awaitGone(pids []int, timeout time.Duration) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(timeout)
	for _, pid := range pids {
		for processAlive(pid) {
			if now := <-tick.C; now.After(deadline) {
				return fmt.Errorf("server process %d is still there", pid)
			}
		}
	}
	return nil
}

// childrenByPs serves the systems without /proc.
func childrenByPs(pid int) []int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=,ppid=").Output()
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
