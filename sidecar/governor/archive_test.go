package governor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// The leader moves what ended to the archive, a batch after the other, and River's cleaner,
// which would delete what is that old, deletes nothing.
func TestLeaderArchives(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO sched.river_job (kind, args, max_attempts, state, attempted_at, finalized_at, attempted_by)
		SELECT 'old', '{}', 1, (ARRAY['completed', 'cancelled', 'discarded'])[1 + g % 3]::sched.river_job_state, now() - interval '8 days',
			now() - interval '8 days', '{w-gone}'
		FROM generate_series(1, 3500) AS g`)
	require.NoError(t, err)
	start(t, config(pool, &dispatcherFunc{work: complete}))
	number := func(query string) (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), query).Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return number(`select count(*) from sched.river_job where kind = 'old'`) == 0 }, 2*patience, 20*time.Millisecond)
	require.Equal(t, 3500, number(`select count(*) from sched.task where archived`))
	require.Equal(t, 4, number(`select count(*) from pg_inherits where inhparent = 'sched.task_archive'::regclass and inhrelid::regclass::text ~ '[0-9]$'`))
	require.Zero(t, number(`select count(*) from only sched.task_archive_default where end_time > now() - interval '20 days'`))
	fresh := enqueue(t, pool, `'new'`)
	eventuallyState(t, pool, fresh, "completed")
}
