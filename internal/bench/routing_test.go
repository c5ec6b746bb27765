package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExtent(t *testing.T) {
	t.Parallel()
	workers := []workedBy{{Worker: "a", Ceiling: 10, Running: 5}, {Worker: "b", Ceiling: 20, Running: 14}, {Worker: "c", Ceiling: 40, Running: 24}}
	load := extentOf(workers, func(w workedBy) float64 { return w.Running / w.Ceiling })
	require.InDelta(t, 0.5, load.least, 1e-9)
	require.InDelta(t, 0.7, load.most, 1e-9)
	require.InDelta(t, 0.6, load.mean, 1e-9)
}

func TestNames(t *testing.T) {
	t.Parallel()
	payloads := []string{`{"queue": "default"}`, `nonsense`, `{"queue": "default", "worker": "w-1"}`}
	require.True(t, names(payloads, "w-1"))
	require.False(t, names(payloads, "w-2"))
	require.False(t, names(payloads[:2], "w-1"))
}

func TestRoutingIsValidated(t *testing.T) {
	t.Parallel()
	require.NoError(t, defaultRouting().validate())
	for name, change := range map[string]func(*RoutingConfig){
		"part":     func(c *RoutingConfig) { c.Parts = []string{"spread", "wak"} },
		"slots":    func(c *RoutingConfig) { c.Slots = []int{10} },
		"duration": func(c *RoutingConfig) { c.Duration = time.Millisecond },
		"fleet":    func(c *RoutingConfig) { c.Fleet = 0 },
		"enqueues": func(c *RoutingConfig) { c.Enqueues = 0 },
	} {
		set := defaultRouting()
		change(&set)
		require.Error(t, set.validate(), name)
	}
}
