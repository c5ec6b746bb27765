package governor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

func TestKindHasRetryDelaysOfItsOwnLive(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	g := start(t, config(pool, &dispatcherFunc{work: func(context.Context, *dispatch.Task) jobs.Outcome {
		return jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "x"}
	}}))
	g.Hold("test")
	_, err := pool.Exec(t.Context(), `insert into sched.kind (kind, retry_base, retry_jitter) values ('patient', '1 hour', 0)`)
	require.NoError(t, err)
	eventually(t, func() bool { return g.RetryDelay("patient", 0) == time.Hour }, "the sidecar learns of it while it runs")
	require.Less(t, g.RetryDelay("hasty", 0), time.Second)
	g.Release("test")
	id := enqueue(t, pool, `'patient'`)
	eventuallyState(t, pool, id, "retryable")
	require.InDelta(t, 3600, column[float64](t, pool, id, "extract(epoch from scheduled_at - clock_timestamp())::float8"), 30)
}

func TestSkippedKindsAreShownInTheWorkerRow(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	start(t, config(pool, &dispatcherFunc{work: func(context.Context, *dispatch.Task) jobs.Outcome {
		return jobs.Outcome{Kind: jobs.OutcomeHandBack, UnknownKind: true}
	}}))
	enqueue(t, pool, `'new'`)
	eventually(t, func() bool {
		var skipped []string
		require.NoError(t, pool.QueryRow(t.Context(), `select skipped_kinds from sched.worker`).Scan(&skipped))
		return len(skipped) == 1 && skipped[0] == "new"
	}, "operators see it in SQL")
}

func TestHoldsAreShownInTheWorkerRow(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	g := start(t, config(pool, &dispatcherFunc{work: complete}))
	g.Hold("app down")
	eventually(t, func() bool {
		var holds []string
		require.NoError(t, pool.QueryRow(t.Context(), `select holds from sched.worker`).Scan(&holds))
		return len(holds) == 1 && holds[0] == "app down"
	}, "operators see it in SQL")
}
