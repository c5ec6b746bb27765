package load

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// ticksPerSecond is the unit of times in /proc: USER_HZ, which is 100 on every
	// architecture that Go runs on.
	ticksPerSecond = 100
	// treeMax bounds how many processes of the app are counted.
	treeMax = 10_000
)

// files reads /proc and /sys, below a root.
type files string

func (f files) path(elements ...string) string {
	return filepath.Join(append([]string{string(f) + "/"}, elements...)...)
}

func (f files) text(elements ...string) (string, error) {
	text, err := os.ReadFile(f.path(elements...))
	return strings.TrimSpace(string(text)), err
}

func (f files) exists(elements ...string) bool {
	_, err := os.Stat(f.path(elements...))
	return err == nil
}

func (f files) number(elements ...string) (float64, error) {
	text, err := f.text(elements...)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// subject is what is measured. Two readings can be compared if it is the same.
type subject struct {
	scope Scope
	id    string
}

// survey is what is measured, and what may be used of it.
type survey struct {
	pid  int // as it was asked for
	what subject
	tree []int // the app's processes
	// distinct is what part of the memory that is resident in them is not counted
	// more than once; most is the cgroup that has nothing but the app, if there is one.
	distinct float64
	most     *cgroupPart
	cpu      cgroupPart
	memory   cgroupPart
	cpus     float64
	bytes    float64
}

// reading is the state of the counters at a time.
type reading struct {
	what        subject
	at          time.Time
	uptime      float64         // of the machine, in seconds
	cpu         float64         // seconds used so far; of the app: see processes
	processes   map[int]process // of the app
	cpus        float64
	memory      float64 // bytes
	memoryLimit float64
}

// process is one of the app's.
type process struct {
	parent int
	start  float64 // seconds after the start of the machine
	cpu    float64 // seconds, those of children that have ended included
	rss    float64 // bytes
}

// survey finds out what to measure.
func (f files) survey(pid int) (survey, error) {
	host, err := f.host()
	if err != nil {
		return survey{}, err
	}
	s := survey{pid: pid, cpus: host.cpus, bytes: host.bytes}
	if pid > 0 {
		if app, err := f.process(pid); err == nil {
			s.what = subject{App, fmt.Sprintf("%d since %g", pid, app.start)}
			s.tree, s.distinct = f.tree(pid), 1
			around := f.cgroups(strconv.Itoa(pid))
			s.bound(around)
			if _, err := around.own.bytes(); err == nil && around.own.holdsOnly(s.tree) {
				s.most = &around.own
			} else if len(s.tree) > 1 {
				s.distinct = f.distinct(s.tree)
			}
			return s, nil
		}
	}
	own := f.cgroups("self")
	if own.limited(host) && own.usage() {
		s.what = subject{Cgroup, own.cpu.dir}
		s.bound(own)
		return s, nil
	}
	s.what = subject{Host, ""}
	return s, nil
}

// bound takes over the limits of cgroups where they are tighter.
func (s *survey) bound(c cgroups) {
	s.cpu, s.memory = c.cpu, c.memory
	if c.cpu.limit > 0 {
		s.cpus = min(s.cpus, c.cpu.limit)
	}
	if c.cpuset > 0 {
		s.cpus = min(s.cpus, c.cpuset)
	}
	if c.memory.limit > 0 {
		s.bytes = min(s.bytes, c.memory.limit)
	}
}

// read reads the counters of what a survey found.
func (f files) read(s survey) (r reading, err error) {
	r = reading{what: s.what, cpus: s.cpus, memoryLimit: s.bytes}
	switch s.what.scope {
	case App:
		if r.uptime, err = f.uptime(); err != nil {
			return r, err
		}
		r.processes = make(map[int]process, len(s.tree))
		for _, pid := range s.tree {
			if p, err := f.process(pid); err == nil { // else it has ended
				r.processes[pid] = p
				r.memory += p.rss
			}
		}
		if _, alive := r.processes[s.pid]; !alive {
			return r, fmt.Errorf("process %d has ended", s.pid)
		}
		r.memory *= s.distinct
		if s.most != nil {
			if used, err := s.most.bytes(); err == nil {
				r.memory = min(r.memory, used)
			}
		}
	case Cgroup:
		if r.cpu, err = s.cpu.seconds(); err != nil {
			return r, err
		}
		r.memory, err = s.memory.bytes()
	default:
		var host host
		host, err = f.host()
		r.cpu, r.memory = host.busy, host.bytes-host.available
	}
	return r, err
}

// cpuSince returns the seconds of cpu that were used since an earlier reading.
//
// What a process of the app has used goes over to its parent when it has ended, so
// the sum is right also then. What one used that was only found now, but has run for
// longer, was used before.
func (r reading) cpuSince(before reading) float64 {
	used := r.cpu - before.cpu
	for pid, p := range r.processes {
		if known, ok := before.processes[pid]; ok && known.start == p.start {
			used += p.cpu - known.cpu
		} else if p.start >= before.uptime {
			used += p.cpu
		}
	}
	for pid, p := range before.processes {
		if now, ok := r.processes[pid]; !ok || now.start != p.start {
			used -= p.cpu
		}
	}
	return used
}

// errFormat: the kernel wrote something that this package doesn't understand.
var errFormat = errors.New("not as expected")

// process reads /proc/<pid>/stat.
func (f files) process(pid int) (process, error) {
	text, err := f.text("proc", strconv.Itoa(pid), "stat")
	if err != nil {
		return process{}, err
	}
	// The name in parentheses may hold anything, also spaces and parentheses.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 22 {
		return process{}, fmt.Errorf("/proc/%d/stat is %w", pid, errFormat)
	}
	at := func(field int) float64 { // counted as in proc_pid_stat(5)
		n, err2 := strconv.ParseFloat(fields[field-3], 64)
		err = errors.Join(err, err2)
		return n
	}
	p := process{
		parent: int(at(4)), start: at(22) / ticksPerSecond,
		cpu: (at(14) + at(15) + at(16) + at(17)) / ticksPerSecond, rss: at(24) * float64(os.Getpagesize()),
	}
	return p, err
}

// tree returns a process and all of its descendants that live.
func (f files) tree(root int) []int {
	entries, err := os.ReadDir(f.path("proc"))
	if err != nil {
		return []int{root}
	}
	children := map[int][]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p, err := f.process(pid); err == nil {
			children[p.parent] = append(children[p.parent], pid)
		}
	}
	tree := []int{root}
	for i := 0; i < len(tree) && len(tree) < treeMax; i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

// distinct returns what part of the memory resident in processes is left when pages
// that they share count once, in equal parts of each (PSS); 0 to 1. The kernel walks
// all of their pages for that, so that it is asked with each survey only. A process
// that may not be looked into shares nothing.
func (f files) distinct(pids []int) float64 {
	var resident, parts float64
	for _, pid := range pids {
		p, err := f.process(pid)
		if err != nil {
			continue // it has ended
		}
		resident += p.rss
		kib, err := f.entry("Pss:", "proc", strconv.Itoa(pid), "smaps_rollup")
		if err != nil {
			parts += p.rss
			continue
		}
		parts += min(kib*1024, p.rss)
	}
	if resident == 0 {
		return 1
	}
	return parts / resident
}

func (f files) uptime() (float64, error) {
	text, err := f.text("proc", "uptime")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(text, " ")
	return strconv.ParseFloat(first, 64)
}

// host is the machine.
type host struct {
	cpus, busy       float64 // number; seconds that they worked so far, all together
	bytes, available float64
}

func (f files) host() (h host, err error) {
	stat, err := f.text("proc", "stat")
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(stat) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu"):
		case fields[0] == "cpu":
			for i, field := range fields[1:9] { // guest time is in user time already
				ticks, err := strconv.ParseFloat(field, 64)
				if err != nil {
					return h, fmt.Errorf("/proc/stat is %w: %w", errFormat, err)
				}
				if i != 3 && i != 4 { // idle, waiting for a disk
					h.busy += ticks / ticksPerSecond
				}
			}
		default:
			h.cpus++
		}
	}
	meminfo, err := f.text("proc", "meminfo")
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(meminfo) {
		name, rest, _ := strings.Cut(line, ":")
		value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		kib, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "MemTotal":
			h.bytes = kib * 1024
		case "MemAvailable":
			h.available = kib * 1024
		}
	}
	if h.cpus == 0 || h.bytes == 0 {
		return h, fmt.Errorf("/proc/stat or /proc/meminfo is %w", errFormat)
	}
	return h, nil
}
