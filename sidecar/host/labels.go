package host

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unicode"

	"github.com/sched-sidecar/sched/sidecar/load"
)

// maxValue is the longest value of a label.
const maxValue = 255

// Labels returns what can be told of the machine without being told: os, arch,
// hostname; cpus and memory_gib that this process may use, in whole numbers; and
// gpu_vendor and gpu_count where there is a GPU that it may use. What can't be found
// out is left out. Root holds proc, sys and dev; empty: the real ones.
func Labels(root, hostname string) map[string]string {
	labels := map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH}
	if hostname != "" && len(hostname) <= maxValue && !strings.ContainsFunc(hostname, unicode.IsControl) {
		labels["hostname"] = hostname
	}
	cpus := float64(runtime.NumCPU())
	if limits, err := load.LimitsOf(root); err == nil {
		cpus = limits.CPUs
		labels["memory_gib"] = strconv.Itoa(int(limits.Bytes / (1 << 30)))
	}
	labels["cpus"] = strconv.Itoa(max(1, int(cpus)))
	if vendor, count := gpus(root); count > 0 {
		labels["gpu_vendor"], labels["gpu_count"] = vendor, strconv.Itoa(count)
	}
	return labels
}

// Merge returns all labels of a sidecar: what was configured wins.
func Merge(automatic, configured map[string]string) map[string]string {
	all := maps.Clone(automatic)
	maps.Copy(all, configured)
	return all
}

// gpus counts the GPUs that there are device files for, of the vendor that most are
// from. The kernel of a shared machine shows all of them to everybody; only the
// device files say which ones a container was given.
func gpus(root string) (vendor string, count int) {
	counts := map[string]int{"nvidia": len(devices(root, "dev", `^nvidia[0-9]+$`))}
	drawn := 0
	for _, name := range devices(root, "dev/dri", `^renderD[0-9]+$`) {
		id, err := os.ReadFile(filepath.Join(root+"/", "sys/class/drm", name, "device/vendor"))
		if err != nil {
			continue
		}
		// Others are the displays of virtual machines.
		switch strings.TrimSpace(string(id)) {
		case "0x10de":
			drawn++ // has a device file of its own as well, where it can compute
		case "0x1002":
			counts["amd"]++
		case "0x8086":
			counts["intel"]++
		}
	}
	counts["nvidia"] = max(counts["nvidia"], drawn)
	for _, name := range []string{"nvidia", "amd", "intel"} {
		if counts[name] > count {
			vendor, count = name, counts[name]
		}
	}
	return vendor, count
}

func devices(root, dir, pattern string) (names []string) {
	entries, err := os.ReadDir(filepath.Join(root+"/", dir))
	if err != nil {
		return nil
	}
	matches := regexp.MustCompile(pattern)
	for _, entry := range entries {
		if matches.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names
}
