package governor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/routing"
)

func TestCanaryRange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		queue     routing.QueuePolicy
		canary    bool
		low, high float32
	}{
		{"no canary anywhere", routing.QueuePolicy{Workers: 3, CanaryWorkers: -1}, false, 0, 100},
		{"a labelled worker where no canary is set up", routing.QueuePolicy{Workers: 3, CanaryWorkers: -1}, true, 0, 100},
		{"the share", routing.QueuePolicy{Workers: 3, CanaryWorkers: 1, CanaryPercent: 5}, true, 0, 5},
		{"the rest", routing.QueuePolicy{Workers: 3, CanaryWorkers: 1, CanaryPercent: 5}, false, 5, 100},
		{"all of it", routing.QueuePolicy{Workers: 3, CanaryWorkers: 1, CanaryPercent: 100}, false, 100, 100},
		{"no canary alive", routing.QueuePolicy{Workers: 3, CanaryWorkers: 0}, false, 0, 100},
		{"a share of nothing", routing.QueuePolicy{Workers: 3, CanaryWorkers: 1}, true, 0, 0},
		{"a share of nothing, but nobody else", routing.QueuePolicy{Workers: 1, CanaryWorkers: 1}, true, 0, 100},
	} {
		low, high := canaryRange(&tt.queue, tt.canary)
		require.Equal(t, [2]float32{tt.low, tt.high}, [2]float32{low, high}, tt.name)
	}
}

func TestHintsAreForgottenWhenRead(t *testing.T) {
	t.Parallel()
	in := newIntake(&routing.Policy{Queues: []routing.QueuePolicy{{Name: "a", CanaryWorkers: -1}, {Name: "b", CanaryWorkers: -1}}}, false)
	var h hints
	h.add("b")
	h.add("foreign")
	require.Equal(t, []laneQueue{{name: "b", high: 100}}, h.drain(in))
	require.Empty(t, h.drain(in))
}
