package governor_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/governor"
)

// An app whose memory is short, and stays so, goes on with one task at a time.
func TestShortMemoryLeavesOneSlot(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	cfg := config(pool, &dispatcherFunc{work: b.work})
	var percent atomic.Int64
	cfg.Load = func() governor.Usage {
		return governor.Usage{App: routing.AppLoad{Mem: float64(percent.Load()) / 100}}
	}
	g := start(t, cfg)
	slots := g.Status().Slots
	percent.Store(86)
	eventually(t, func() bool { return g.Status().Slots == 1 }, "one slot is left")
	require.Empty(t, g.Status().Holds)
	require.Equal(t, 1, g.Status().Ceiling)
	require.Contains(t, strings.Join(g.Status().Limits, " "), "memory")
	fill(t, pool, "default", "k", 3)
	for range 2 {
		b.next(t)
		require.Equal(t, 1, g.Status().Running)
		b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	}
	eventually(t, func() bool { return worker[int](t, pool, g.Status().WorkerID, "ceiling") == 1 }, "the row says so")
	require.InDelta(t, 85, worker[float64](t, pool, g.Status().WorkerID, "load_percent::float8"), 0, "which strains it, and no more")

	b.next(t)
	fill(t, pool, "default", "k", 1)
	percent.Store(60)
	b.next(t)
	require.Equal(t, slots, g.Status().Slots)
	for range 2 {
		b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	}
}

// Where slots follow the app they grow again from one.
func TestShortMemoryBeginsAnewWhereSlotsFollow(t *testing.T) {
	t.Parallel()
	cfg := config(pgtest.New(t), &dispatcherFunc{work: complete})
	var percent atomic.Int64
	cfg.Load = func() governor.Usage {
		return governor.Usage{App: routing.AppLoad{Mem: float64(percent.Load()) / 100, Sized: true}}
	}
	g := start(t, cfg)
	percent.Store(86)
	eventually(t, func() bool { return g.Status().Ceiling == 1 }, "one slot is left")
	percent.Store(60)
	eventually(t, func() bool { return g.Status().Ceiling == cfg.Ceiling }, "there may be more again")
	require.Equal(t, 1, g.Status().Slots)
}
