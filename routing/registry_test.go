package routing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/routing"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestForgetKeepsUpWithWhatIsLogged(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		insert into sched.attempt_log (task_id, attempt, started_at, ended_at, outcome)
		select n, 1, now() - interval '8 days', now() - interval '8 days', 'retry' from generate_series(1, 20000) n
		union all select 1, 2, now(), now(), 'retry'`)
	require.NoError(t, err)
	require.NoError(t, routing.NewRegistry(pool).Forget(t.Context(), 7*24*time.Hour))
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from sched.attempt_log`).Scan(&left))
	require.Equal(t, 1, left, "the young one")
}
