package remainder

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/migrations"
	"github.com/sched-sidecar/sched/routing"
)

func TestLooksWithTheRightsOfTheSidecarRole(t *testing.T) {
	t.Parallel()
	owner := pgtest.Empty(t)
	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(owner), migrations.Options{}))
	config, err := pgxpool.ParseConfig(pgtest.DSN(owner))
	require.NoError(t, err)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "set role sched_sidecar")
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	w := newWatcher(t, pool, func(c *Config) { c.Queues = routing.NewRegistry(pool) })
	requireEmpty(t, w, true, "a new database")
	task(t, owner, "'a'", "")
	requireEmpty(t, w, false, "a task waits")
	require.NoError(t, w.Verdict(t.Context()))
}
