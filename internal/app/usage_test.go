package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/load"
)

// What holds claims is the app's own; a busy cpu doesn't where slots follow it.
func TestAppUsage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		usage   load.Usage
		sized   bool
		percent float64
	}{
		"nothing":                      {load.Usage{}, true, 0},
		"a busy machine":               {load.Usage{CPU: 1, Mem: 1, Of: load.Host}, false, 0},
		"a busy cgroup":                {load.Usage{CPU: 1, Mem: 1, Of: load.Cgroup}, true, 0},
		"a busy app":                   {load.Usage{CPU: 1, Mem: 0.2, Of: load.App}, false, 100},
		"a busy app that sizes itself": {load.Usage{CPU: 1, Mem: 0.2, Of: load.App}, true, 85},
		"an app that says it is busy":  {load.Usage{CPU: 0.1, Of: load.Host, Report: 93, Reported: true}, true, 93},
	} {
		got := appUsage(test.usage, test.sized)
		require.InDelta(t, test.percent, got.App.Percent(), 1e-9, name)
		require.InDelta(t, test.usage.CPU, got.CPU, 0, name)
	}
}
