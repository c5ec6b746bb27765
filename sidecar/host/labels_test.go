package host_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/host"
)

const (
	stat    = "cpu  1 0 0 1 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0 0 0\ncpu2 1 0 0 1 0 0 0 0 0 0\n"
	meminfo = "MemTotal:       16252928 kB\nMemAvailable:    6291456 kB\n" // 15.5 GiB
)

func TestLabels(t *testing.T) {
	t.Parallel()
	machine := map[string]string{"proc/stat": stat, "proc/meminfo": meminfo}
	tests := map[string]struct {
		files    map[string]string
		hostname string
		want     map[string]string
	}{
		"a machine": {machine, "ada", map[string]string{"hostname": "ada", "cpus": "3", "memory_gib": "15"}},
		"a container": {
			map[string]string{
				"sys/fs/cgroup/cgroup.controllers": "cpu", "sys/fs/cgroup/cgroup.procs": "", "proc/self/cgroup": "0::/\n",
				"sys/fs/cgroup/cpu.max": "50000 100000", "sys/fs/cgroup/memory.max": "536870912",
			},
			"pod-7",
			map[string]string{"hostname": "pod-7", "cpus": "1", "memory_gib": "0"},
		},
		"two of NVIDIA, one in the processor": {
			map[string]string{
				"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidiactl": "", "dev/nvidia-uvm": "", "dev/dri/renderD128": "", "dev/dri/renderD129": "",
				"sys/class/drm/renderD128/device/vendor": "0x8086\n", "sys/class/drm/renderD129/device/vendor": "0x10de\n",
			},
			"",
			map[string]string{"cpus": "3", "memory_gib": "15", "gpu_vendor": "nvidia", "gpu_count": "2"},
		},
		"AMD": {
			map[string]string{"dev/dri/renderD128": "", "dev/dri/card0": "", "sys/class/drm/renderD128/device/vendor": "0x1002\n"},
			"",
			map[string]string{"cpus": "3", "memory_gib": "15", "gpu_vendor": "amd", "gpu_count": "1"},
		},
		"a virtual display": {
			map[string]string{"dev/dri/renderD128": "", "sys/class/drm/renderD128/device/vendor": "0x1af4\n"},
			"",
			map[string]string{"cpus": "3", "memory_gib": "15"},
		},
		"the kernel's, which this container was not given": {
			map[string]string{"sys/class/drm/renderD128/device/vendor": "0x10de\n", "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: X\n"},
			"",
			map[string]string{"cpus": "3", "memory_gib": "15"},
		},
		"a name that is no label": {machine, strings.Repeat("x", 256), map[string]string{"cpus": "3", "memory_gib": "15"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for _, files := range []map[string]string{machine, tt.files} {
				for name, text := range files {
					path := filepath.Join(root, name)
					require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
					require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
				}
			}
			tt.want["os"], tt.want["arch"] = runtime.GOOS, runtime.GOARCH
			require.Equal(t, tt.want, host.Labels(root, tt.hostname))
		})
	}
}

func TestLabelsOfNothing(t *testing.T) {
	t.Parallel()
	got := host.Labels(t.TempDir(), "")
	require.Equal(t, runtime.GOOS, got["os"])
	require.NotEmpty(t, got["cpus"])
	require.NotContains(t, got, "memory_gib")
	require.NotEmpty(t, host.Labels("", "me"))
}

func TestMerge(t *testing.T) {
	t.Parallel()
	automatic := map[string]string{"os": "linux", "cpus": "2"}
	got := host.Merge(automatic, map[string]string{"cpus": "8", "zone": "cn-north"})
	require.Equal(t, map[string]string{"os": "linux", "cpus": "8", "zone": "cn-north"}, got)
	require.Equal(t, "2", automatic["cpus"])
	require.Equal(t, automatic, host.Merge(automatic, nil))
}
