package migrations_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

const planRows = 1_000_000

// fill puts a million tasks of all statuses into river_job, with statistics. The
// secondary indexes are built afterwards, which is twice as fast.
func fill(t *testing.T, db querier) {
	t.Helper()
	indexes := all[string](t, db, `SELECT pg_get_indexdef(indexrelid) FROM pg_index
		WHERE indrelid = 'sched.river_job'::regclass AND NOT indisprimary`)
	exec(t, db, `DO $$ DECLARE i regclass; BEGIN
		FOR i IN SELECT indexrelid FROM pg_index WHERE indrelid = 'sched.river_job'::regclass AND NOT indisprimary LOOP
			EXECUTE 'DROP INDEX ' || i;
		END LOOP; END $$`)
	exec(t, db, "ALTER TABLE sched.river_job SET UNLOGGED, SET (autovacuum_enabled = false)") // the statistics are those below
	// 95 % completed, 3 % available, 1 % discarded, 1 % scheduled; a batch of 1000.
	exec(t, db, `INSERT INTO sched.river_job (kind, args, max_attempts, attempt, state, attempted_at, finalized_at, attempted_by, metadata)
		SELECT 'mail', '{}', 25, 1,
			CASE WHEN g % 100 < 95 THEN 'completed' WHEN g % 100 < 98 THEN 'available' WHEN g % 100 = 98 THEN 'discarded' ELSE 'scheduled' END::sched.river_job_state,
			CASE WHEN g % 100 < 95 OR g % 100 = 98 THEN now() - g * interval '1 second' END,
			CASE WHEN g % 100 < 95 OR g % 100 = 98 THEN now() - g * interval '1 second' END,
			'{w-one}', CASE WHEN g <= 1000 THEN '{"sched:batch": "night"}' ELSE '{}' END::jsonb
		FROM generate_series(1, $1::int) AS g`, planRows)
	for _, definition := range indexes {
		exec(t, db, definition)
	}
	exec(t, db, "ANALYZE sched.river_job")
}

// What an auditor or operator asks stays quick however many tasks there are.
func TestPlansOnAMillionTasks(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	conn := connect(t, pool, "")
	fill(t, conn)
	for _, tt := range []struct{ name, sql, index string }{
		{"status", "SELECT * FROM sched.task WHERE status = 'discarded'", "sched_river_job_status_start"},
		{"status and start", "SELECT * FROM sched.task WHERE status = 'discarded' AND start_time > now() - interval '1 hour'", "sched_river_job_status_start"},
		{"frequent status and start", "SELECT * FROM sched.task WHERE status = 'completed' AND start_time > now() - interval '1 hour'", "sched_river_job_status_start"},
		{"latest", "SELECT * FROM sched.task WHERE status = 'discarded' ORDER BY start_time DESC LIMIT 50", "sched_river_job_status_start"},
		{"parameters", "EXECUTE by_status('discarded', now() - interval '1 hour')", "sched_river_job_status_start"},
		{"id", "SELECT * FROM sched.task WHERE id = 77", "river_job_pkey"},
		{"attempts", "SELECT * FROM sched.attempt WHERE task_id = 77", "river_job_pkey"},
		{"batch", "SELECT * FROM sched.batch WHERE batch = 'night'", "sched_river_job_batch"},
		{"tasks of a batch", "SELECT * FROM sched.task WHERE batch = 'night'", "sched_river_job_batch"},
	} {
		if tt.name == "parameters" {
			// A driver's prepared statement, planned once for all values.
			exec(t, conn, "SET plan_cache_mode = force_generic_plan")
			exec(t, conn, "PREPARE by_status (sched.river_job_state, timestamptz) AS SELECT * FROM sched.task WHERE status = $1 AND start_time > $2")
		}
		plan := strings.Join(all[string](t, conn, "EXPLAIN (COSTS OFF) "+tt.sql), "\n")
		require.Contains(t, plan, tt.index, "%s:\n%s", tt.name, plan)
		require.NotContains(t, plan, "Seq Scan on river_job", "%s:\n%s", tt.name, plan)
	}

	// One descent of the index for each queue, however many tasks wait in it.
	exec(t, conn, "SET plan_cache_mode = auto")
	exec(t, conn, "SELECT sched.discover_queues()")
	require.True(t, one[bool](t, conn, "SELECT EXISTS (SELECT FROM sched.queue WHERE name = 'default')"))
	plan := strings.Join(all[string](t, conn, `EXPLAIN (COSTS OFF) SELECT j.queue, j.metadata FROM sched.river_job AS j
		WHERE j.state = 'available' AND j.queue > '' ORDER BY j.queue LIMIT 1`), "\n")
	require.Contains(t, plan, "Index Scan using sched_river_job_available", plan)
	require.NotContains(t, plan, "Sort", plan)
}
