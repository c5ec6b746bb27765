package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

func TestGaugeSeesStartsAboveTheLimit(t *testing.T) {
	t.Parallel()
	g := newGauge(2, 0)
	g.enter(time.Now())
	g.enter(time.Now())
	require.Zero(t, g.mostOver())
	g.enter(time.Now())
	require.Equal(t, 1, g.mostOver())
	g.leave()
	g.leave()
	g.leave()
	require.Equal(t, 1, g.mostOver(), "it remembers")
}

func TestGaugeJudgesSamplesByTheHigherLimit(t *testing.T) {
	t.Parallel()
	g := newGauge(5, 0)
	before := g.limit()
	g.allow(2)
	g.sampled(5, before)
	require.Zero(t, g.mostOver(), "counted before the limit fell")
	g.sampled(5, g.limit())
	require.Equal(t, 3, g.mostOver())
}

func TestGaugeHoldsTasksUntilTheLimitIsReached(t *testing.T) {
	t.Parallel()
	g := newGauge(2, 0)
	require.NoError(t, g.awaitReached(t.Context()), "nobody waits for anything")
	g.grow(2)
	outcomes := make(chan jobs.Outcome, 2)
	work := func() { outcomes <- g.Dispatch(t.Context(), &dispatch.Task{}) }
	go work()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, g.awaitReached(cancelled), context.Canceled)
	require.Empty(t, outcomes, "one is not two")
	go work()
	require.NoError(t, g.awaitReached(t.Context()))
	require.False(t, g.reachedAt().IsZero())
	for range 2 {
		require.Equal(t, jobs.OutcomeComplete, (<-outcomes).Kind)
	}
	require.Equal(t, jobs.OutcomeHandBack, newGauge(1, time.Hour).Dispatch(cancelled, &dispatch.Task{}).Kind)
}

func TestGaugeHasReachedWhatRunsAlready(t *testing.T) {
	t.Parallel()
	g := newGauge(2, 0)
	g.enter(time.Now())
	g.grow(1)
	require.NoError(t, g.awaitReached(t.Context()))
}
