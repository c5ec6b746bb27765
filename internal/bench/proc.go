package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc/<pid>/stat: Linux shows hundredths
// of a second to programs whatever the kernel counts in.
const clockTick = 10 * time.Millisecond

// procStat is what the measurements need of /proc/<pid>/stat.
type procStat struct {
	name   string
	parent int
	own    time.Duration // user and system time of the process
	reaped time.Duration // of its children that ended
}

// parseStat reads one line of /proc/<pid>/stat. The name stands in parentheses
// and may hold spaces and parentheses itself.
func parseStat(line []byte) (procStat, error) {
	begin, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if begin < 0 || end < begin {
		return procStat{}, fmt.Errorf("no name in the process status %q", line)
	}
	// From the third field of proc(5) on: state, ppid, …, utime (14th), stime, cutime, cstime.
	fields := strings.Fields(string(line[end+1:]))
	const third, utime = 3, 14
	if len(fields) <= utime+3-third {
		return procStat{}, fmt.Errorf("too few fields in the process status %q", line)
	}
	parent, err := strconv.Atoi(fields[4-third])
	if err != nil {
		return procStat{}, fmt.Errorf("parent in the process status: %w", err)
	}
	var times [4]time.Duration
	for i := range times {
		ticks, err := strconv.ParseInt(fields[utime-third+i], 10, 64)
		if err != nil {
			return procStat{}, fmt.Errorf("CPU time in the process status: %w", err)
		}
		times[i] = time.Duration(ticks) * clockTick
	}
	return procStat{name: string(line[begin+1 : end]), parent: parent, own: times[0] + times[1], reaped: times[2] + times[3]}, nil
}

func readStat(pid int) (procStat, error) {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return procStat{}, fmt.Errorf("%w: pid %d", errNoProc, pid)
	}
	return parseStat(line)
}

// processCPU is the CPU time that a process has used.
func processCPU(pid int) (time.Duration, error) {
	stat, err := readStat(pid)
	return stat.own, err
}

// reapedCPU is the CPU time that the former children of a process have used.
func reapedCPU(pid int) (time.Duration, error) {
	stat, err := readStat(pid)
	return stat.reaped, err
}

// treeCPU is the CPU time that a process, its children and its former children
// have used. All processes of a Postgres server are children of its postmaster.
func treeCPU(pid int) (time.Duration, error) {
	root, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	total := root.own + root.reaped
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoProc, err)
	}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// One that ended meanwhile is the postmaster's loss, too small to matter.
		if stat, err := readStat(child); err == nil && stat.parent == pid {
			total += stat.own
		}
	}
	return total, nil
}

// residentBytes is the memory of a process that is in RAM.
func residentBytes(pid int) (int64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("%w: pid %d", errNoProc, pid)
	}
	return parseResident(status)
}

func parseResident(status []byte) (int64, error) {
	for line := range strings.Lines(string(status)) {
		rest, found := strings.CutPrefix(line, "VmRSS:")
		if !found {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("VmRSS in the process status: %w", err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("%w: no VmRSS in its status", errNoProc)
}

// machineCPU is the CPU time that all processes of the machine have used.
func machineCPU() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoProc, err)
	}
	return parseMachine(text)
}

// parseMachine reads the first line of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq, steal, …; guests are part of user.
func parseMachine(text []byte) (time.Duration, error) {
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	const needed, idle, iowait = 9, 4, 5
	if len(fields) < needed || fields[0] != "cpu" {
		return 0, fmt.Errorf("no CPU times in %q", line)
	}
	var total time.Duration
	for i, field := range fields[1:needed] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time of the machine: %w", err)
		}
		if i+1 != idle && i+1 != iowait {
			total += time.Duration(ticks) * clockTick
		}
	}
	return total, nil
}

// loadAverage is how many processes ran or wanted to in the last minute, as the
// kernel shows it; "unknown" elsewhere than on Linux.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
