package governor_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// A transaction that stays open keeps the dead entries of all tasks since. Claims notice,
// go around them, and still find what is committed late or comes back behind them.
func TestClaimsGoAroundDeadRows(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `alter table sched.river_job set (autovacuum_enabled = off)`)
	open, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = open.Rollback(context.Background()) }()
	_, err = open.Exec(t.Context(), `set transaction isolation level repeatable read`)
	require.NoError(t, err)
	_, err = open.Exec(t.Context(), `select pg_current_xact_id()`)
	require.NoError(t, err)
	fill(t, pool, "default", "past", 200_000)
	exec(t, pool, `update sched.river_job set state = 'completed', finalized_at = now() where kind = 'past'`)

	cfg := config(pool, &dispatcherFunc{work: complete})
	start(t, cfg)
	eventually(t, func() bool {
		eventuallyState(t, pool, enqueue(t, pool, `'k'`), "completed")
		return gaugeValue(t, cfg, "sched_lanes", "") > 0
	}, "claims go through lanes")
	late, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = late.Rollback(context.Background()) }()
	var lateID int64
	require.NoError(t, late.QueryRow(t.Context(), `select sched.enqueue('late')`).Scan(&lateID))
	old := enqueue(t, pool, `'old', run_at => now() + interval '1 hour'`)
	for range 10 {
		eventuallyState(t, pool, enqueue(t, pool, `'k'`), "completed")
	}
	require.NoError(t, late.Commit(t.Context()))
	exec(t, pool, `update sched.river_job set state = 'available', scheduled_at = now() - interval '1 hour' where id = $1`, old)
	eventuallyState(t, pool, lateID, "completed")
	eventuallyState(t, pool, old, "completed")
}
