package governor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/migrations"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

func TestRunsWithTheRightsOfTheSidecarRole(t *testing.T) {
	t.Parallel()
	owner := pgtest.Empty(t)
	ctx := t.Context()
	require.NoError(t, migrations.Up(ctx, pgtest.DSN(owner), migrations.Options{}))
	role := "sidecar_" + strings.ReplaceAll(strings.ToLower(t.Name()), "/", "_")
	_, err := owner.Exec(ctx, `create role `+role+` login password 'p' in role sched_sidecar`)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := owner.Exec(context.Background(), `drop role `+role)
		require.NoError(t, err)
	})
	poolConfig, err := pgxpool.ParseConfig(pgtest.DSN(owner))
	require.NoError(t, err)
	poolConfig.ConnConfig.User, poolConfig.ConnConfig.Password = role, "p"
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	dead, waiting := enqueue(t, owner, `'dead'`), enqueue(t, owner, `'later', run_at => clock_timestamp() + interval '300 ms'`)
	claimOne(t, owner, "w-dead")
	cfg := config(pool, &dispatcherFunc{work: func(_ context.Context, task *dispatch.Task) jobs.Outcome {
		if task.Attempt == 1 {
			return jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "again"}
		}
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}})
	cfg.FenceAfter, cfg.EvictAfter = 4*time.Second, 5*time.Second
	g := start(t, cfg)
	_, err = owner.Exec(ctx, `insert into sched.river_job (kind, args, max_attempts, queue) values ('foreign', '{}', 5, 'foreign')`)
	require.NoError(t, err)
	eventuallyState(t, owner, waiting, "completed")
	eventuallyState(t, owner, dead, "completed")
	eventually(t, func() bool {
		var done int
		require.NoError(t, owner.QueryRow(ctx, `select count(*) from sched.task where kind = 'foreign' and status = 'completed'`).Scan(&done))
		return done == 1
	}, "a task that a River client put into a queue of its own is found")
	require.NoError(t, g.Stop(ctx, patience))
}
