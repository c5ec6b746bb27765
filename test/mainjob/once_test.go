package mainjob_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNoTaskRunsTwiceAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var most atomic.Int64
	var a *app
	a = newApp(t, func(c *call) answer {
		for now := int64(a.inFlight()); ; {
			seen := most.Load()
			if now <= seen || most.CompareAndSwap(seen, now) {
				break
			}
		}
		work(c, 5*time.Millisecond)
		return answer{status: 200}
	})
	for range 3 {
		f.start(a, settings{setSlots: "20"})
	}

	// Enqueue while they work, so that claims race with inserts too.
	var ids []int64
	for range 10 {
		ids = append(ids, enqueueMany(t, f.db, "busy", 450)...)
	}
	awaitDrained(t, f.db, "busy", 60*time.Second)

	calls := a.callsOf(0)
	require.Len(t, calls, len(ids), "each task runs once")
	workers := make(map[string]int)
	seen := make(map[int64]bool)
	for _, c := range calls {
		require.Falsef(t, seen[c.id], "task %d ran twice", c.id)
		seen[c.id] = true
		require.Equal(t, 1, c.attempt)
		workers[c.worker()]++
	}
	slices.Sort(ids)
	require.Len(t, slices.Compact(ids), len(calls))
	require.Len(t, workers, 3, "every sidecar takes part: %v", workers)
	require.Greater(t, most.Load(), int64(1), "tasks must run side by side, or this test shows nothing")
	// newApp's cleanup checks that no task was in two handlers at once.
}
