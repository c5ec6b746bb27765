package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/jobs"
)

func TestPressure(t *testing.T) {
	t.Parallel()

	eachFamily(t, func(t *testing.T, pool *pgxpool.Pool, h handle) {
		never, err := jobs.Pressure(t.Context(), h.db, "")
		require.NoError(t, err)
		require.Equal(t, jobs.LevelGreen, never.Level)
		require.Negative(t, never.Age)
		require.NotEmpty(t, never.Reason)

		// A minute ahead, or it would be too old for a test that is held up.
		_, err = pool.Exec(t.Context(), `update sched.fleet set computed_at = clock_timestamp() + interval '1 minute', pressure = 'yellow', pressure_reason = 'busy',
			pending = 700, load = 0.5, workers = 3`)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `insert into sched.queue (name, base, admission, pressure, pressure_reason, pending, max_pending)
			values ('full', 'full', 'reject', 'red', '95 of 100 tasks wait', 95, 100)`)
		require.NoError(t, err)

		fleet, err := jobs.Pressure(t.Context(), h.db, "")
		require.NoError(t, err)
		fleet.Age = 0
		require.Equal(t, jobs.QueuePressure{
			Level: jobs.LevelYellow, Reason: "busy", Pending: 700, MaxPending: 1000, Load: 0.5, Workers: 3, RetryAfter: 500 * time.Millisecond,
		}, fleet)

		tx := h.begin(t)
		full, err := jobs.Pressure(t.Context(), tx, "full")
		require.NoError(t, err)
		require.NoError(t, tx.Rollback(t.Context()))
		full.Age = 0
		require.Equal(t, jobs.QueuePressure{
			Level: jobs.LevelRed, Reason: "95 of 100 tasks wait", Pending: 95, MaxPending: 100, RetryAfter: 2 * time.Second,
		}, full)

		_, one := jobs.Enqueue(t.Context(), h.db, note{}, jobs.Queue("full"))
		_, many := jobs.EnqueueMany(t.Context(), h.db, []jobs.Task{{Args: note{}, Options: []jobs.Option{jobs.Queue("full")}}})
		for _, err := range []error{one, many} {
			require.ErrorIs(t, err, jobs.ErrRejected)
			require.ErrorContains(t, err, "95 of 100 tasks wait")
			require.ErrorContains(t, err, "hint: ")
			require.Equal(t, 2*time.Second, jobs.RetryAfter(err))
		}

		_, err = pool.Exec(t.Context(), `update sched.fleet set computed_at = clock_timestamp() - interval '1 hour'`)
		require.NoError(t, err)
		old, err := jobs.Pressure(t.Context(), h.db, "")
		require.NoError(t, err)
		require.Equal(t, jobs.LevelGreen, old.Level)
		require.GreaterOrEqual(t, old.Age, time.Hour)
		require.Less(t, old.Age, 2*time.Hour)
	})
}

func TestRetryAfterOfOtherErrors(t *testing.T) {
	t.Parallel()
	require.Zero(t, jobs.RetryAfter(nil))
	require.Zero(t, jobs.RetryAfter(errors.New("retry after 2 seconds")))
	require.Zero(t, jobs.RetryAfter(jobs.ErrRejected), "no server said when")
}
