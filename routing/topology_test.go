package routing_test

import (
	"fmt"
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

// From any version, every other can be told by the changes between the two.
func TestReconstruct(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		versions := []routing.Topology{{}}
		changes := map[int64][]routing.TopologyChange{}
		for version := range rapid.IntRange(1, 8).Draw(t, "versions") {
			next := routing.Topology{}
			for _, id := range rapid.SliceOfDistinct(rapid.IntRange(0, 6), rapid.ID).Draw(t, "ids") {
				next[fmt.Sprintf("w-%d", id)] = routing.TopologyEntry{Slots: rapid.IntRange(0, 2).Draw(t, "slots")}
			}
			changes[int64(version+1)] = routing.DiffTopology(versions[version], next)
			versions = append(versions, next)
		}
		from := rapid.IntRange(0, len(versions)-1).Draw(t, "from")
		to := rapid.IntRange(0, len(versions)-1).Draw(t, "to")
		got, err := routing.Reconstruct(versions[from], int64(from), changes, int64(to))
		require.NoError(t, err)
		require.Equal(t, versions[to], got)
		if from != to {
			delete(changes, int64(max(from, to)))
			_, err = routing.Reconstruct(versions[from], int64(from), changes, int64(to))
			require.ErrorIs(t, err, routing.ErrNoTopology)
		}
	})
}
