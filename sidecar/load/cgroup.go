package load

import (
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// cgroups is where a process is bounded, and by how much.
type cgroups struct {
	cpu, memory cgroupPart
	own         cgroupPart // of memory: the process' own, whatever its limit
	cpuset      float64    // how many cpus it may run on; 0: not known
}

// cgroupPart is one resource: the directory with the tightest limit, or the
// process' own where there is none.
type cgroupPart struct {
	files files
	v2    bool
	dir   string  // empty: none was found
	limit float64 // 0: none
}

const cgroupRoot = "/sys/fs/cgroup"

// unlimited is above every memory limit that somebody set: version 1 writes about
// 2^63 for none.
const unlimited = 1 << 60

// cgroups finds the cgroups of a process ("self" or a process id).
func (f files) cgroups(pid string) (c cgroups) {
	text, err := f.text("proc", pid, "cgroup")
	if err != nil {
		return c
	}
	unified := f.exists(cgroupRoot, "cgroup.controllers")
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		names, at := parts[1], parts[2]
		switch {
		case strings.HasPrefix(at, "/.."): // out of what is seen here: another container's
		case names == "" && unified:
			dirs := f.chain(cgroupRoot, at)
			c.cpu = f.tightest(true, dirs, cpuLimitV2)
			c.memory, c.own = f.tightest(true, dirs, memoryLimitV2), f.innermost(true, dirs)
			c.cpuset = f.cpuset(dirs, "cpuset.cpus.effective")
		case names == "" || unified:
		default:
			for name := range strings.SplitSeq(names, ",") {
				dirs := f.chain(f.mount(name, names), at)
				switch name {
				case "cpu":
					c.cpu = f.tightest(false, dirs, cpuLimitV1)
				case "memory":
					c.memory, c.own = f.tightest(false, dirs, memoryLimitV1), f.innermost(false, dirs)
				case "cpuset":
					c.cpuset = f.cpuset(dirs, "cpuset.effective_cpus", "cpuset.cpus")
				}
			}
		}
	}
	return c
}

// mount returns where a controller of version 1 is mounted, alone or with others.
func (f files) mount(name, together string) string {
	for _, dir := range []string{name, together} {
		if f.exists(cgroupRoot, dir) {
			return path.Join(cgroupRoot, dir)
		}
	}
	return path.Join(cgroupRoot, name)
}

// chain returns the directory of a cgroup and those above it. In a container that
// sees its own part of the tree only, the path leads nowhere, and the part itself is
// the cgroup.
func (f files) chain(mount, at string) (dirs []string) {
	for at = path.Clean("/" + at); ; at = path.Dir(at) {
		dir := path.Join(mount, at)
		if f.exists(dir, "cgroup.procs") {
			dirs = append(dirs, dir)
		}
		if at == "/" {
			return dirs
		}
	}
}

// innermost returns the part that a process itself is in.
func (f files) innermost(v2 bool, dirs []string) cgroupPart {
	part := cgroupPart{files: f, v2: v2}
	if len(dirs) > 0 {
		part.dir = dirs[0]
	}
	return part
}

// tightest returns the part with the lowest limit along a chain.
func (f files) tightest(v2 bool, dirs []string, limit func(f files, dir string) float64) cgroupPart {
	part := f.innermost(v2, dirs)
	for _, dir := range dirs {
		if l := limit(f, dir); l > 0 && (part.limit == 0 || l < part.limit) {
			part.dir, part.limit = dir, l
		}
	}
	return part
}

func cpuLimitV2(f files, dir string) float64 {
	text, err := f.text(dir, "cpu.max")
	if err != nil {
		return 0
	}
	quota, period, _ := strings.Cut(text, " ")
	return ratio(quota, period)
}

func cpuLimitV1(f files, dir string) float64 {
	quota, err := f.text(dir, "cpu.cfs_quota_us")
	if err != nil {
		return 0
	}
	period, err := f.text(dir, "cpu.cfs_period_us")
	if err != nil {
		return 0
	}
	return ratio(quota, period)
}

// ratio is 0 where there is no quota ("max", or -1).
func ratio(quota, period string) float64 {
	q, err := strconv.ParseFloat(quota, 64)
	if err != nil || q <= 0 {
		return 0
	}
	p, err := strconv.ParseFloat(period, 64)
	if err != nil || p <= 0 {
		return 0
	}
	return q / p
}

// memoryLimitV2 counts memory.high, too: beyond it the kernel slows the processes
// down to a crawl.
func memoryLimitV2(f files, dir string) float64 {
	limit := math.Inf(1)
	for _, name := range []string{"memory.max", "memory.high"} {
		if bytes, err := f.number(dir, name); err == nil { // else "max"
			limit = min(limit, bytes)
		}
	}
	return bounded(limit)
}

func memoryLimitV1(f files, dir string) float64 {
	limit, err := f.number(dir, "memory.limit_in_bytes")
	if err != nil {
		return 0
	}
	return bounded(limit)
}

func bounded(limit float64) float64 {
	if limit >= unlimited || limit < 0 {
		return 0
	}
	return limit
}

// cpuset counts the cpus that the innermost cgroup which says so allows.
func (f files) cpuset(dirs []string, names ...string) float64 {
	for _, dir := range dirs {
		for _, name := range names {
			text, err := f.text(dir, name)
			if err == nil && text != "" {
				return countCPUs(text)
			}
		}
	}
	return 0
}

// countCPUs counts a list as 0-3,8.
func countCPUs(list string) (n float64) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		if err != nil {
			return 0
		}
		to := from
		if isRange {
			if to, err = strconv.Atoi(last); err != nil || to < from {
				return 0
			}
		}
		n += float64(to - from + 1)
	}
	return n
}

// limited reports whether a cgroup allows less than the machine has.
func (c cgroups) limited(h host) bool {
	return c.cpu.limit > 0 && c.cpu.limit < h.cpus || c.memory.limit > 0 && c.memory.limit < h.bytes
}

// usage reports whether what is used can be read.
func (c cgroups) usage() bool {
	_, cpuErr := c.cpu.seconds()
	_, memoryErr := c.memory.bytes()
	return cpuErr == nil && memoryErr == nil
}

// seconds returns the cpu that a cgroup has used so far.
func (p cgroupPart) seconds() (float64, error) {
	if !p.v2 {
		ns, err := p.files.number(p.dir, "cpuacct.usage")
		if rest, ok := strings.CutPrefix(p.dir, cgroupRoot+"/cpu"); err != nil && ok { // mounted apart from cpu
			ns, err = p.files.number(cgroupRoot+"/cpuacct"+rest, "cpuacct.usage")
		}
		return ns / 1e9, err
	}
	us, err := p.files.entry("usage_usec", p.dir, "cpu.stat")
	return us / 1e6, err
}

// bytes returns the memory that a cgroup uses, without file contents that nobody
// asked for lately: the kernel drops those before anything else.
func (p cgroupPart) bytes() (float64, error) {
	file, name := "memory.usage_in_bytes", "total_inactive_file"
	if p.v2 {
		file, name = "memory.current", "inactive_file"
	}
	used, err := p.files.number(p.dir, file)
	if err != nil {
		return 0, err
	}
	inactive, err := p.files.entry(name, p.dir, "memory.stat")
	if err != nil {
		return 0, err
	}
	return max(0, used-inactive), nil
}

// holdsOnly reports whether a cgroup has processes of the app and no others, but for
// this one.
func (p cgroupPart) holdsOnly(app []int) bool {
	text, err := p.files.text(p.dir, "cgroup.procs")
	pids := strings.Fields(text)
	return err == nil && len(pids) > 0 && !slices.ContainsFunc(pids, func(field string) bool {
		pid, err := strconv.Atoi(field)
		return err != nil || pid != os.Getpid() && !slices.Contains(app, pid)
	})
}

// entry returns one value of a file of names and values.
func (f files) entry(name string, elements ...string) (float64, error) {
	text, err := f.text(elements...)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			return strconv.ParseFloat(fields[1], 64)
		}
	}
	return 0, errFormat
}

// Limits is what this process may use.
type Limits struct {
	CPUs  float64
	Bytes float64
}

// LimitsOf returns what a process may use that looks at proc and sys below root:
// the machine's, or the tightest limits of its cgroups.
func LimitsOf(root string) (Limits, error) {
	f := files(root)
	host, err := f.host()
	if err != nil {
		return Limits{}, err
	}
	s := survey{cpus: host.cpus, bytes: host.bytes}
	s.bound(f.cgroups("self"))
	return Limits{CPUs: s.cpus, Bytes: s.bytes}, nil
}
