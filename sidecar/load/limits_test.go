package load_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/load"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files       tree
		cpus, bytes float64
	}{
		"a machine": {machine(1, 1), 4, 8192 * mib},
		"a container": {
			with(machine(1, 1), unified(), tree{"proc/self/cgroup": "0::/\n"}, cgroupV2("sys/fs/cgroup", "150000 100000", strconv.Itoa(512*mib), 0, 0, 0)),
			1.5, 512 * mib,
		},
		"more than there is": {
			with(machine(1, 1), unified(), tree{"proc/self/cgroup": "0::/\n"}, cgroupV2("sys/fs/cgroup", "900000 100000", strconv.Itoa(512*1024*mib), 0, 0, 0)),
			4, 8192 * mib,
		},
		"memory.high": {
			with(machine(1, 1), unified(), tree{"proc/self/cgroup": "0::/\n"}, cgroupV2("sys/fs/cgroup", "max 100000", "max", 0, 0, 0),
				tree{"sys/fs/cgroup/memory.high": strconv.Itoa(256 * mib)}),
			4, 256 * mib,
		},
		"garbage": {
			with(machine(1, 1), unified(), tree{
				"proc/self/cgroup": "0::/../../x\nnonsense\n", "sys/fs/cgroup/cpu.max": "much", "sys/fs/cgroup/memory.max": "", "sys/fs/cgroup/cpuset.cpus.effective": "3-1",
			}),
			4, 8192 * mib,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			tt.files.write(t, root)
			got, err := load.LimitsOf(root)
			require.NoError(t, err)
			require.InDelta(t, tt.cpus, got.CPUs, 1e-9)
			require.InDelta(t, tt.bytes, got.Bytes, 1)
		})
	}
	_, err := load.LimitsOf(t.TempDir())
	require.Error(t, err)
}

// TestThisMachine: the real files can be read, and this process be measured.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("there is no /proc here")
	}
	limits, err := load.LimitsOf("")
	require.NoError(t, err)
	require.Positive(t, limits.CPUs)
	require.Greater(t, limits.Bytes, float64(64*mib))
	s := load.NewSampler(load.Config{PID: os.Getpid})
	require.Error(t, s.Sample())
	var sample load.Usage
	require.Eventually(t, func() bool {
		_ = strings.Repeat("work", 100_000)
		require.NoError(t, s.Sample())
		sample = s.Usage()
		return sample.CPU > 0
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, load.App, sample.Of)
	require.Positive(t, sample.Mem)
	require.Less(t, sample.Mem, 1.0)
}
