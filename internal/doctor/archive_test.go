package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestArchive(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	exec(t, pool, `SELECT sched.archive_months()`)
	healthy(t, look(t, dsn, "archive", Options{}), "in time")
	healthy(t, look(t, asRole(t, pool, "sched_sidecar"), "archive", Options{}), "in time")

	exec(t, pool, `INSERT INTO sched.river_job (kind, args, state, finalized_at, max_attempts) SELECT 'k', '{}', 'completed', now() - interval '20 minutes', 1 FROM generate_series(1, 3)`)
	healthy(t, look(t, dsn, "archive", Options{}), "in time")
	exec(t, pool, `UPDATE sched.river_job SET finalized_at = now() - interval '1 hour'`)
	require.Contains(t, ill(t, look(t, dsn, "archive", Options{}), Warning).Message, "3 tasks that ended are not in the archive yet")
	exec(t, pool, `UPDATE sched.river_job SET unique_key = id::text::bytea, unique_states = B'11111111'`) // as River's clients keep them
	healthy(t, look(t, dsn, "archive", Options{}), "in time")

	exec(t, pool, `INSERT INTO sched.task_archive (id, kind, queue, status, end_time, attempt, max_attempts, priority, run_at, created_at, last_logged, args, metadata, attempted_by, tags)
		VALUES (9000, 'k', 'q', 'completed', '2001-01-15', 1, 1, 1, now(), now(), false, '{}', '{}', '{}', '{}')`)
	require.Contains(t, ill(t, look(t, dsn, "archive", Options{}), Warning).Message, "1 archived tasks are of months without a partition")
	exec(t, pool, `DELETE FROM sched.task_archive`)
	exec(t, pool, `CREATE TABLE sched.task_archive_2001_02 PARTITION OF sched.task_archive FOR VALUES FROM ('2001-02-01 00:00+00') TO ('2001-03-01 00:00+00')`)
	require.Contains(t, ill(t, look(t, dsn, "archive", Options{}), Warning).Message, "1 months of the archive are older")
}
