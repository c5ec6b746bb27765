package load_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/load"
)

// tree is a /proc and /sys: names of files with what is in them.
type tree map[string]string

func (files tree) write(t *testing.T, root string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

func with(parts ...tree) tree {
	all := tree{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

// machine has 4 cpus and 8 GiB, of which 2 are used; its cpus worked for busy
// seconds so far.
func machine(uptime, busy float64) tree {
	ticks := int(busy * 100)
	return tree{
		"proc/stat": fmt.Sprintf("cpu  %d 0 0 5000 700 0 0 0 0 0\ncpu0 1 0 0 1 1 0 0 0 0 0\ncpu1 1 0 0 1 1 0 0 0 0 0\n"+
			"cpu2 1 0 0 1 1 0 0 0 0 0\ncpu3 1 0 0 1 1 0 0 0 0 0\nintr 5\n", ticks),
		"proc/meminfo": "MemTotal:        8388608 kB\nMemFree:          100000 kB\nMemAvailable:    6291456 kB\n",
		"proc/uptime":  fmt.Sprintf("%.2f 100.00\n", uptime),
	}
}

// proc is a process that used cpu seconds, and its ended children others, and has
// rss MiB.
func proc(pid, parent int, start, cpu, children, rss float64) tree {
	pages := int(rss * (1 << 20) / float64(os.Getpagesize()))
	return tree{
		fmt.Sprintf("proc/%d/stat", pid): fmt.Sprintf("%d (a (strange) name) S %d 1 1 0 -1 4194304 1 2 3 4 %d 0 %d 0 20 0 1 0 %d 123 %d 99",
			pid, parent, int(cpu*100), int(children*100), int(start*100), pages),
		fmt.Sprintf("proc/%d/cgroup", pid): "0::/app\n",
	}
}

const mib = 1 << 20

// cgroupV2 is a cgroup of version 2.
func cgroupV2(dir, cpuMax, memoryMax string, cpu float64, used, inactive int) tree {
	return tree{
		dir + "/cgroup.procs": "", dir + "/cpu.max": cpuMax + "\n", dir + "/memory.max": memoryMax + "\n", dir + "/memory.high": "max\n",
		dir + "/cpu.stat":       fmt.Sprintf("usage_usec %d\nuser_usec 1\n", int(cpu*1e6)),
		dir + "/memory.current": fmt.Sprintf("%d\n", used*mib),
		dir + "/memory.stat":    fmt.Sprintf("anon 1\ninactive_file %d\n", inactive*mib),
	}
}

// members are the processes of a cgroup.
func members(dir string, pids ...int) tree {
	return tree{dir + "/cgroup.procs": strings.Trim(fmt.Sprint(pids), "[]")}
}

// shared is what is left of a process' memory, in MiB, when what it shares is divided.
func shared(pid, left int) tree {
	return tree{fmt.Sprintf("proc/%d/smaps_rollup", pid): fmt.Sprintf("5500-7fff ---p 00000000 00:00 0    [rollup]\nRss:    999 kB\nPss:   %d kB\nPss_Dirty: 1 kB\n", left*1024)}
}

func unified() tree {
	return tree{"sys/fs/cgroup/cgroup.controllers": "cpu memory\n", "sys/fs/cgroup/cgroup.procs": ""}
}

// cgroupV1 is one of version 1, its cpu controllers mounted as named.
func cgroupV1(cpuMount, cpuacctMount, at string, quota int, limit string, cpu float64, used, inactive int) tree {
	root := "sys/fs/cgroup/"
	return tree{
		"proc/self/cgroup":                              fmt.Sprintf("5:memory:%[1]s\n4:%[2]s:%[1]s\n0::%[1]s\n", at, cpuMount),
		root + cpuMount + at + "/cgroup.procs":          "",
		root + cpuMount + at + "/cpu.cfs_quota_us":      strconv.Itoa(quota) + "\n",
		root + cpuMount + at + "/cpu.cfs_period_us":     "100000\n",
		root + cpuacctMount + at + "/cpuacct.usage":     fmt.Sprintf("%d\n", int(cpu*1e9)),
		root + "memory" + at + "/cgroup.procs":          "",
		root + "memory" + at + "/memory.stat":           fmt.Sprintf("cache 1\ntotal_inactive_file %d\n", inactive*mib),
		root + "memory" + at + "/memory.usage_in_bytes": fmt.Sprintf("%d\n", used*mib),
		root + "memory" + at + "/memory.limit_in_bytes": limit + "\n",
	}
}

// clock stands still until it is moved.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// sampled takes two readings, seconds apart.
func sampled(t *testing.T, pid int, before, after tree, seconds float64) load.Usage {
	t.Helper()
	root := t.TempDir()
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s := load.NewSampler(load.Config{Root: root, Now: c.now, PID: func() int { return pid }})
	before.write(t, root)
	require.Error(t, s.Sample(), "the first has nothing to compare with")
	require.Equal(t, load.Usage{}, s.Usage())
	c.at = c.at.Add(time.Duration(seconds * float64(time.Second)))
	after.write(t, root)
	require.NoError(t, s.Sample())
	return s.Usage()
}

func TestSample(t *testing.T) {
	t.Parallel()
	const app = 42
	free := cgroupV2("sys/fs/cgroup/app", "max 100000", "max", 0, 0, 0)
	tests := map[string]struct {
		pid           int
		before, after tree
		seconds       float64
		cpu, mem      float64
		of            load.Scope
	}{
		"the machine": {
			before: machine(1000, 50), after: machine(1002, 54), seconds: 2,
			cpu: 0.5, mem: 0.25, of: load.Host,
		},
		"an app without limits": {
			pid:    app,
			before: with(machine(1000, 0), unified(), free, proc(app, 1, 10, 5, 0, 1024)),
			after:  with(machine(1001, 0), proc(app, 1, 10, 6, 0, 1024)), seconds: 1,
			cpu: 0.25, mem: 0.125, of: load.App,
		},
		"an app with limits": {
			pid: app,
			before: with(machine(1000, 0), unified(), cgroupV2("sys/fs/cgroup/app", "50000 100000", strconv.Itoa(2048*mib), 0, 0, 0),
				proc(app, 1, 10, 5, 0, 1024)),
			after: with(machine(1001, 0), proc(app, 1, 10, 5.25, 0, 1024)), seconds: 1,
			cpu: 0.5, mem: 0.5, of: load.App,
		},
		"an app with two cpus to run on": {
			pid: app,
			before: with(machine(1000, 0), unified(), free, tree{"sys/fs/cgroup/app/cpuset.cpus.effective": "0,3\n"},
				proc(app, 1, 10, 5, 0, 0)),
			after: with(machine(1001, 0), proc(app, 1, 10, 6, 0, 0)), seconds: 1,
			cpu: 0.5, mem: 0, of: load.App,
		},
		"its children count, others' don't": {
			pid: app,
			before: with(machine(1000, 0), unified(), free, proc(app, 1, 10, 1, 0, 512), proc(50, app, 20, 1, 0, 512), proc(51, 50, 20, 1, 0, 512),
				proc(60, 1, 20, 1, 0, 4096)),
			after: with(machine(1001, 0), proc(app, 1, 10, 1.5, 0, 512), proc(50, app, 20, 1.5, 0, 512), proc(51, 50, 20, 2, 0, 512),
				proc(60, 1, 20, 9, 0, 4096)), seconds: 1,
			cpu: 0.5, mem: 0.1875, of: load.App,
		},
		"an app that is gone": {
			pid:    app,
			before: machine(1000, 0), after: machine(1001, 1), seconds: 1,
			cpu: 0.25, mem: 0.25, of: load.Host,
		},
		"more than all is all": {
			pid:    app,
			before: with(machine(1000, 0), unified(), free, proc(app, 1, 10, 5, 0, 16384)),
			after:  with(machine(1001, 0), proc(app, 1, 10, 50, 0, 16384)), seconds: 1,
			cpu: 1, mem: 1, of: load.App,
		},
		"what its processes share counts once": {
			pid: app,
			before: with(machine(1000, 0), unified(), free, proc(app, 1, 10, 0, 0, 2048), proc(50, app, 20, 0, 0, 2048), proc(51, app, 20, 0, 0, 2048),
				shared(app, 768), shared(50, 768)), // 51 may not be looked into
			after: with(machine(1001, 0), proc(app, 1, 10, 0, 0, 2048), proc(50, app, 20, 0, 0, 2048), proc(51, app, 20, 0, 0, 3072)), seconds: 1,
			cpu: 0, mem: (768 + 768 + 2048) / 6144. * 7168 / 8192, of: load.App,
		},
		"it uses no more than the cgroup that is its own": {
			pid: app,
			before: with(machine(1000, 0), unified(), cgroupV2("sys/fs/cgroup/app", "max", strconv.Itoa(4096*mib), 0, 1280, 256), members("sys/fs/cgroup/app", app, 50, os.Getpid()),
				proc(app, 1, 10, 0, 0, 1024), proc(50, app, 20, 0, 0, 1024)),
			after: machine(1001, 0), seconds: 1,
			cpu: 0, mem: 0.25, of: load.App,
		},
		"nor is it less than its own": {
			pid: app,
			before: with(machine(1000, 0), unified(), cgroupV2("sys/fs/cgroup/app", "max", strconv.Itoa(4096*mib), 0, 3072, 0), members("sys/fs/cgroup/app", app),
				proc(app, 1, 10, 0, 0, 1024)),
			after: machine(1001, 0), seconds: 1,
			cpu: 0, mem: 0.25, of: load.App,
		},
		"a cgroup with others in it is not its own": {
			pid: app,
			before: with(machine(1000, 0), unified(), cgroupV2("sys/fs/cgroup/app", "max", strconv.Itoa(4096*mib), 0, 1024, 0), members("sys/fs/cgroup/app", app, 60),
				proc(app, 1, 10, 0, 0, 2048)),
			after: machine(1001, 0), seconds: 1,
			cpu: 0, mem: 0.5, of: load.App,
		},
		"version 1, with a cgroup of its own": {
			pid: app,
			before: with(machine(1000, 0), cgroupV1("cpu", "cpuacct", "/a", -1, strconv.Itoa(4096*mib), 0, 1536, 512), members("sys/fs/cgroup/memory/a", app, 50),
				proc(app, 1, 10, 0, 0, 1024), proc(50, app, 20, 0, 0, 1024), tree{fmt.Sprintf("proc/%d/cgroup", app): "5:memory:/a\n"}),
			after: machine(1001, 0), seconds: 1,
			cpu: 0, mem: 0.25, of: load.App,
		},
		"an app in another container isn't bound by this one's limits": {
			pid: app,
			before: with(machine(1000, 0), unified(), cgroupV2("sys/fs/cgroup", "50000 100000", strconv.Itoa(64*mib), 0, 16, 0), members("sys/fs/cgroup", app),
				proc(app, 1, 10, 0, 0, 1024), tree{fmt.Sprintf("proc/%d/cgroup", app): "0::/../other\n"}),
			after: with(machine(1001, 0), proc(app, 1, 10, 1, 0, 1024)), seconds: 1,
			cpu: 0.25, mem: 0.125, of: load.App,
		},
		"a container, version 2": {
			before: with(machine(1000, 0), unified(), tree{"proc/self/cgroup": "0::/\n"}, cgroupV2("sys/fs/cgroup", "200000 100000", "max", 10, 0, 0)),
			after:  with(machine(1001, 0), cgroupV2("sys/fs/cgroup", "200000 100000", "max", 11.5, 1536, 512)), seconds: 1,
			cpu: 0.75, mem: 0.125, of: load.Cgroup,
		},
		"a limit further up": {
			before: with(machine(1000, 0), unified(), tree{"proc/self/cgroup": "0::/pod/main\n"},
				cgroupV2("sys/fs/cgroup/pod/main", "max 100000", "max", 1, 100, 0),
				cgroupV2("sys/fs/cgroup/pod", "100000 100000", strconv.Itoa(1024*mib), 10, 512, 0)),
			after: with(machine(1001, 0), cgroupV2("sys/fs/cgroup/pod", "100000 100000", strconv.Itoa(1024*mib), 10.5, 512, 256)), seconds: 1,
			cpu: 0.5, mem: 0.25, of: load.Cgroup,
		},
		"a cgroup without a limit says nothing": {
			before: with(machine(1000, 0), unified(), tree{"proc/self/cgroup": "0::/app\n"}, free),
			after:  machine(1001, 2), seconds: 1,
			cpu: 0.5, mem: 0.25, of: load.Host,
		},
		"version 1": {
			before: with(machine(1000, 0), cgroupV1("cpu,cpuacct", "cpu,cpuacct", "/docker/abc", 100000, strconv.Itoa(1024*mib), 7, 0, 0)),
			after:  with(machine(1001, 0), cgroupV1("cpu,cpuacct", "cpu,cpuacct", "/docker/abc", 100000, strconv.Itoa(1024*mib), 7.5, 768, 256)), seconds: 1,
			cpu: 0.5, mem: 0.5, of: load.Cgroup,
		},
		"version 1, mounted apart": {
			before: with(machine(1000, 0), cgroupV1("cpu", "cpuacct", "/a", 100000, "9223372036854771712", 7, 0, 0)),
			after:  with(machine(1001, 0), cgroupV1("cpu", "cpuacct", "/a", 100000, "9223372036854771712", 7.5, 1024, 0)), seconds: 1,
			cpu: 0.5, mem: 0.125, of: load.Cgroup,
		},
		"version 1, seen from within": {
			before: with(machine(1000, 0), cgroupV1("cpu,cpuacct", "cpu,cpuacct", "", 50000, "-1", 7, 0, 0), tree{"proc/self/cgroup": "4:cpu,cpuacct:/docker/abc\n5:memory:/docker/abc\n"}),
			after:  with(machine(1001, 0), tree{"sys/fs/cgroup/cpu,cpuacct/cpuacct.usage": "7100000000\n"}), seconds: 1,
			cpu: 0.2, mem: 0, of: load.Cgroup,
		},
		"version 1 without limits": {
			before: with(machine(1000, 0), cgroupV1("cpu", "cpuacct", "/a", -1, "9223372036854771712", 7, 0, 0)),
			after:  machine(1001, 1), seconds: 1,
			cpu: 0.25, mem: 0.25, of: load.Host,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sampled(t, tt.pid, tt.before, tt.after, tt.seconds)
			require.Equal(t, tt.of, got.Of)
			require.InDelta(t, tt.cpu, got.CPU, 1e-6)
			require.InDelta(t, tt.mem, got.Mem, 1e-3)
		})
	}
}

// TestChildrenComeAndGo: what a child used is counted once, by itself and then as
// its parent's.
func TestChildrenComeAndGo(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s := load.NewSampler(load.Config{Root: root, Now: c.now, PID: func() int { return 42 }})
	at := 1000.0
	step := func(wait float64, files tree) float64 {
		t.Helper()
		at += wait
		c.at = c.at.Add(time.Duration(wait * float64(time.Second)))
		with(machine(at, 0), files).write(t, root)
		require.NoError(t, s.Sample())
		return s.Usage().CPU * wait * 4 // in seconds
	}
	with(machine(at, 0), unified(), cgroupV2("sys/fs/cgroup/app", "max", "max", 0, 0, 0),
		proc(42, 1, 10, 100, 0, 1), proc(50, 42, 20, 30, 0, 1)).write(t, root)
	require.Error(t, s.Sample())
	require.InDelta(t, 1.5, step(1, with(proc(42, 1, 10, 101, 0, 1), proc(50, 42, 20, 30.5, 0, 1))), 1e-6)

	require.NoError(t, os.RemoveAll(filepath.Join(root, "proc/50")))
	require.InDelta(t, 0.25, step(1, proc(42, 1, 10, 101, 30.75, 1)), 1e-6, "it ended after a quarter second more")
	require.InDelta(t, 0.5, step(1, with(proc(42, 1, 10, 101.5, 30.75, 1), proc(51, 42, 900, 77, 0, 1), proc(52, 42, 1003.5, 0.4, 0, 1))), 1e-6, "new ones are not looked for each time")
	require.InDelta(t, 0.4, step(5, tree{}), 1e-6, "what an old one used before it was found is not news; all of a new one's is")
	require.InDelta(t, 0.6, step(1, with(proc(51, 42, 900, 77.5, 0, 1), proc(52, 42, 1003.5, 0.5, 0, 1))), 1e-6)

	require.NoError(t, os.RemoveAll(filepath.Join(root, "proc/52")))
	require.InDelta(t, 0, step(1, proc(52, 42, 1009.5, 0, 0, 1)), 1e-6, "a number used again; what the one before used is its parent's to tell")
}

// TestAnotherApp: the counters of one process are not compared with another's.
func TestAnotherApp(t *testing.T) {
	t.Parallel()
	root, pid := t.TempDir(), 42
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s := load.NewSampler(load.Config{Root: root, Now: c.now, PID: func() int { return pid }})
	next := func(files tree) error {
		c.at = c.at.Add(time.Second)
		files.write(t, root)
		return s.Sample()
	}
	require.Error(t, next(with(machine(1000, 0), unified(), proc(42, 1, 10, 5, 0, 1), proc(43, 1, 10, 500, 0, 1))))
	require.NoError(t, next(tree{}))
	pid = 43
	require.Error(t, next(tree{}), "told of another")
	require.NoError(t, next(tree{}))
	require.Error(t, next(tree{"proc/43/stat": ""}), "what it says is not understood")
	require.Error(t, next(tree{}), "the machine, for the first time")
	require.NoError(t, next(tree{}))
	require.Equal(t, load.Host, s.Usage().Of)
	proc(43, 1, 11, 1, 0, 1).write(t, root)
	c.at = c.at.Add(5 * time.Second)
	require.Error(t, next(tree{}), "it runs again; found by the next survey")
	require.NoError(t, next(tree{}))
	require.Equal(t, load.App, s.Usage().Of)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s := load.NewSampler(load.Config{Root: root, Now: c.now, PID: func() int { return 42 }})
	known := func(cpu, mem float64) {
		t.Helper()
		app, ok := s.Usage().App()
		require.True(t, ok)
		require.InDeltaSlice(t, []float64{cpu, mem}, []float64{app.CPU, app.Mem}, 1e-4)
	}
	require.Equal(t, load.Usage{}, s.Usage())
	with(machine(1000, 1), unified(), proc(42, 1, 10, 5, 0, 4096)).write(t, root)
	require.Error(t, s.Sample())
	c.at = c.at.Add(time.Second)
	with(machine(1001, 1), proc(42, 1, 10, 6, 0, 4096)).write(t, root)
	require.NoError(t, s.Sample())
	u := s.Usage()
	require.False(t, u.Reported)
	known(0.25, 0.5) // memory is no cpu
	app, _ := u.App()
	require.InDelta(t, 4, app.Cores, 0)

	s.Report(12)
	s.Report(math.NaN())
	u = s.Usage()
	require.InDelta(t, 12, u.Report, 0)
	require.True(t, u.Reported)
	require.InDelta(t, 0.25, u.CPU, 1e-4, "what was measured stays what it is")
	known(0.12, 0.5)
	s.Report(250)
	known(1, 0.5)
	s.Report(-1)
	known(0, 0.5)

	c.at = c.at.Add(3*time.Second + 1)
	require.Equal(t, load.Usage{Reported: true}, s.Usage(), "what is old is not told")
	known(0, 0)
	c.at = c.at.Add(12 * time.Second)
	require.Equal(t, load.Usage{}, s.Usage(), "nor is a report that is old")
}

// A busy machine, or cgroup, says nothing about the app; what the app says does.
func TestOnlyTheAppsLoadIsItsLoad(t *testing.T) {
	t.Parallel()
	full := func(cpu float64) tree {
		return with(tree{"proc/self/cgroup": "0::/\n"}, unified(), cgroupV2("sys/fs/cgroup", "100000 100000", strconv.Itoa(1024*mib), cpu, 1024, 0))
	}
	for scope, parts := range map[load.Scope][2]tree{
		load.Host:   {machine(1000, 0), machine(1001, 4)},
		load.Cgroup: {with(machine(1000, 0), full(1)), with(machine(1001, 0), full(2))},
	} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
			s := load.NewSampler(load.Config{Root: root, Now: c.now})
			parts[0].write(t, root)
			require.Error(t, s.Sample())
			c.at = c.at.Add(time.Second)
			parts[1].write(t, root)
			require.NoError(t, s.Sample())
			u := s.Usage()
			require.Equal(t, scope, u.Of)
			require.InDelta(t, 1, u.CPU, 0)
			_, known := u.App()
			require.False(t, known)

			s.Report(40)
			app, known := s.Usage().App()
			require.True(t, known)
			require.InDelta(t, 0.4, app.CPU, 1e-9)
			require.Zero(t, app.Mem)
			require.Zero(t, app.Cores)
		})
	}
}
