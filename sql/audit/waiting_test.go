package audit_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// However many tasks wait, what waited longest is found, whatever its queue and priority and wherever its row is, and what waits in
// small queues isn't drowned by a large one.
func TestLongestWaitingIsFound(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO sched.queue (name, base, selector, unroutable) VALUES ('bulk', 'bulk', '{"gpu": "true"}', 'gpu=true'), ('small', 'small', '{}', NULL);
		INSERT INTO sched.river_job (kind, queue, args, state, priority, scheduled_at)
		SELECT 'bulk', 'bulk', '{}', 'available', 2, now() - interval '1 minute' - g * interval '1 ms' FROM generate_series(1, 12000) AS g;
		INSERT INTO sched.river_job (kind, queue, args, state, priority, scheduled_at, metadata) VALUES
			('late', 'bulk', '{}', 'available', 4, now() - interval '1 hour', '{}'), ('later', 'bulk', '{}', 'available', 2, now() - interval '2 hours', '{}'),
			('urgent', 'bulk', '{}', 'available', 1, now() - interval '1 second', '{}'),
			('mail', 'small', '{}', 'available', 3, now() - interval '3 hours', '{"sched:by": {"user": "ann", "app": "shop"}}');
		ANALYZE sched.river_job`)
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), pgtest.DSN(pool))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	byName := questions(t)
	kinds := func(name string, values map[string]string) (all []string) {
		for _, row := range asked(t, conn, byName[name], values) {
			all = append(all, row["kind"].(string))
		}
		return all
	}

	require.Equal(t, []string{"mail", "later", "late", "bulk"}, kinds("waits", map[string]string{"limit": "4"}))
	require.Equal(t, []string{"later"}, kinds("waits", map[string]string{"queue": "bulk", "limit": "1"}))
	require.Equal(t, []string{"urgent"}, kinds("waits", map[string]string{"kind": "urgent"}))
	require.Equal(t, []string{"urgent", "later", "bulk"}, kinds("unroutable", map[string]string{"limit": "3"}))
	require.Equal(t, []string{"mail"}, kinds("enqueuers", map[string]string{"user": "ann"}))
	require.Subset(t, kinds("enqueuers", nil), []string{"bulk", "late", "later", "urgent", "mail"})

	for _, name := range []string{"waits", "unroutable", "enqueuers"} {
		args, err := byName[name].Bind(nil, ago)
		require.NoError(t, err)
		rows, err := conn.Query(t.Context(), "EXPLAIN (COSTS OFF) "+byName[name].SQL, pgx.QueryExecModeSimpleProtocol, pgx.NamedArgs(args))
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		text := strings.Join(plan, "\n")
		require.Contains(t, text, "using sched_river_job_available", name)
		require.NotContains(t, text, "Seq Scan on river_job", name)
	}
}
