package supervise

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const psTimeout = 5 * time.Second

// members lists the processes of a group that still run, without the given one. A zombie doesn't count: it is over, but
// in a container without a reaping init it stays.
func members(group, without int) []int {
	list := membersByPs
	if _, err := os.Stat("/proc/self/stat"); err == nil {
		list = membersByProc
	}
	var pids []int
	for _, p := range list() {
		if p.group == group && p.pid != without && p.state != 'Z' && p.state != 'X' {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

type process struct {
	pid, group int
	state      byte
}

func membersByProc() []process {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var all []process
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended since
		}
		// pid (name) state parent group …; the name may hold anything, also ") ".
		end := bytes.LastIndexByte(stat, ')')
		if end < 0 {
			continue
		}
		fields := strings.Fields(string(stat[end+1:]))
		if len(fields) < 3 {
			continue
		}
		all = appendProcess(all, filepath.Base(filepath.Dir(path)), fields[2], fields[0])
	}
	return all
}

// membersByPs serves the systems without /proc.
func membersByPs() []process {
	ctx, cancel := context.WithTimeout(context.Background(), psTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=,pgid=,state=").Output()
	if err != nil {
		return nil
	}
	var all []process
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 3 {
			all = appendProcess(all, fields[0], fields[1], fields[2])
		}
	}
	return all
}

func appendProcess(all []process, pid, group, state string) []process {
	p, err1 := strconv.Atoi(pid)
	g, err2 := strconv.Atoi(group)
	if err1 != nil || err2 != nil {
		return all
	}
	return append(all, process{pid: p, group: g, state: state[0]})
}
