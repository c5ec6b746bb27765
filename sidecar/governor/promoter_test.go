package governor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// A River client may leave `retryable` out of the states of its unique keys: two
// failed tasks may then have one key, and only one of them can be made available.
func TestDueTasksWithOneUniqueKeyDoNotStopThePromoter(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		insert into sched.river_job (kind, args, queue, max_attempts, state, attempt, scheduled_at, unique_key, unique_states)
		select 'k', '{}', 'default', 25, 'retryable', 1, now() - interval '1 s' * n, '\x01', B'11010001' from generate_series(1, 3) n`)
	require.NoError(t, err)
	start(t, config(pool, &dispatcherFunc{work: complete}))
	eventually(t, func() bool {
		var completed, discarded int
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*) filter (where state = 'completed'),
			count(*) filter (where state = 'discarded' and metadata ->> 'unique_key_conflict' = 'scheduler_discarded')
			from sched.river_job`).Scan(&completed, &discarded))
		return completed == 1 && discarded == 2
	}, "one of them runs, the others are discarded, as River does")
}

// Whoever enqueues for the end of time makes nobody look for it all the time, and
// keeps no other task from being on time.
func TestTasksDueAtTheEndOfTime(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	q := dbq.New(pool)
	for _, due := range []string{"9999-12-31", "infinity"} {
		_, err := pool.Exec(t.Context(), `
			insert into sched.river_job (kind, args, queue, max_attempts, state, scheduled_at) values
				('k', '{}', 'default', 25, 'scheduled', $1::text::timestamptz), ('k', '{}', 'default', 25, 'scheduled', now())`, due)
		require.NoError(t, err)
		row, err := q.TaskPromote(t.Context(), 100)
		require.NoError(t, err, due)
		require.Equal(t, int64(1), row.Promoted, due)
		require.InDelta(t, 86_400_000, row.NextDueMs, 1, due)
	}
}
