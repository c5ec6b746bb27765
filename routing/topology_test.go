package routing_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/routing"
)

func TestCadence(t *testing.T) {
	t.Parallel()
	for workers, want := range map[int]time.Duration{
		0: 2 * time.Second, 100: 2 * time.Second, 101: 5 * time.Second, 999: 5 * time.Second, 1000: 10 * time.Second, 5000: 10 * time.Second,
	} {
		require.Equal(t, want, routing.Cadence(workers), workers)
	}
}

func TestDiffTopology(t *testing.T) {
	t.Parallel()
	a := routing.TopologyEntry{Labels: map[string]string{"zone": "a"}, Slots: 1}
	b := routing.TopologyEntry{Labels: map[string]string{"zone": "b"}, Slots: 1}
	changes := routing.DiffTopology(routing.Topology{"stays": a, "moves": a, "goes": a}, routing.Topology{"stays": a, "moves": b, "comes": b})
	require.Equal(t, []routing.TopologyChange{
		{WorkerID: "comes", What: "join", After: &b},
		{WorkerID: "goes", What: "leave", Before: &a},
		{WorkerID: "moves", What: "change", Before: &a, After: &b},
	}, changes)
}

// The changes between two topologies lead from each to the other.
func TestChangesLeadBothWays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) routing.Topology {
			topology := routing.Topology{}
			for _, id := range rapid.SliceOfDistinct(rapid.IntRange(0, 6), rapid.ID).Draw(t, name) {
				topology[fmt.Sprintf("w-%d", id)] = routing.TopologyEntry{Slots: rapid.IntRange(0, 2).Draw(t, "slots")}
			}
			return topology
		}
		before, after := draw("before"), draw("after")
		lead := func(from routing.Topology, entry func(routing.TopologyChange) *routing.TopologyEntry) routing.Topology {
			to := maps.Clone(from)
			for _, c := range routing.DiffTopology(before, after) {
				delete(to, c.WorkerID)
				if e := entry(c); e != nil {
					to[c.WorkerID] = *e
				}
			}
			return to
		}
		require.Equal(t, after, lead(before, func(c routing.TopologyChange) *routing.TopologyEntry { return c.After }))
		require.Equal(t, before, lead(after, func(c routing.TopologyChange) *routing.TopologyEntry { return c.Before }))
	})
}
