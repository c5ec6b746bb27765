package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

func scalar[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&value))
	return value
}

const countSched = "SELECT count(*) FROM pg_namespace WHERE nspname = 'sched'"

func TestNew_MigratedAndOnesOwn(t *testing.T) {
	t.Parallel()
	one, other := New(t), New(t)
	require.Equal(t, 1, scalar[int](t, one, countSched))

	_, err := one.Exec(t.Context(), "CREATE TABLE mine ()")
	require.NoError(t, err)
	require.True(t, scalar[bool](t, one, "SELECT to_regclass('mine') IS NOT NULL"))
	require.False(t, scalar[bool](t, other, "SELECT to_regclass('mine') IS NOT NULL"))
	require.NotEqual(t, DSN(one), DSN(other))
}

//nolint:tparallel // the outer test waits for the inner one
func TestNew_DroppedAfterTest(t *testing.T) {
	t.Parallel()
	watcher := Empty(t)
	var name string
	t.Run("inner", func(t *testing.T) { // not parallel: its end is what the outer test waits for
		name = scalar[string](t, New(t), "SELECT current_database()")
	})
	require.Zero(t, scalar[int](t, watcher, "SELECT count(*) FROM pg_database WHERE datname = $1", name))
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	require.Zero(t, scalar[int](t, Empty(t), countSched))
}

func TestDSN_ReachesSameDatabase(t *testing.T) {
	t.Parallel()
	pool := New(t)
	conn, err := pgx.Connect(t.Context(), DSN(pool))
	require.NoError(t, err)
	defer conn.Close(context.Background())
	var name string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&name))
	require.Equal(t, scalar[string](t, pool, "SELECT current_database()"), name)
}

func TestServer_CommitSurvivesKill(t *testing.T) {
	t.Parallel()
	server := Server(t)
	pool := NewOn(t, server)
	_, err := pool.Exec(t.Context(), "CREATE TABLE kept AS SELECT 42 AS answer")
	require.NoError(t, err)

	require.NoError(t, server.Kill())
	require.Error(t, pool.Ping(t.Context()))
	require.NoError(t, server.Restart(t.Context()))
	require.Equal(t, 42, scalar[int](t, pool, "SELECT answer FROM kept"))
	require.Equal(t, 1, scalar[int](t, pool, countSched))
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"postgres://u:p%40@h:5433/a?sslmode=disable":   "postgres://u:p%40@h:5433/b?sslmode=disable",
		"postgresql:///?host=%2Ftmp%2Fx&dbname=a":      "postgresql:///b?host=%2Ftmp%2Fx",
		"host=/tmp/x user=postgres dbname=a":           "host=/tmp/x user=postgres dbname=a dbname=b",
		"postgres://u@h?database=a&application_name=x": "postgres://u@h/b?application_name=x",
	} {
		got := withDatabase(dsn, "b")
		require.Equal(t, want, got)
		config, err := pgx.ParseConfig(got)
		require.NoError(t, err)
		require.Equal(t, "b", config.Database)
	}
}

// A running server shared by test processes is imitated by clusters of this process.
//
//nolint:tparallel // the outer test waits for the inner one
func TestCluster_OnRunningServer(t *testing.T) {
	t.Parallel()
	server := Server(t)
	ctx, dsn := t.Context(), server.DSN()
	databases := func() (names []string) {
		require.NoError(t, connected(ctx, dsn, func(conn *pgx.Conn) error {
			rows, err := conn.Query(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", prefix)
			require.NoError(t, err)
			names, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		}))
		return names
	}

	dead, err := openCluster(ctx, dsn)
	require.NoError(t, err)
	_, err = dead.template()
	require.NoError(t, err)
	alive, err := openCluster(ctx, dsn)
	require.NoError(t, err)
	template, err := alive.template()
	require.NoError(t, err)
	require.Len(t, databases(), 2)

	pid := dead.alive.PgConn().PID()
	require.NoError(t, dead.alive.Close(ctx), "as when its process is killed")
	require.Eventually(t, func() bool {
		var locks int
		err := connected(ctx, dsn, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE pid = $1", pid).Scan(&locks)
		})
		return err == nil && locks == 0
	}, time.Minute, 10*time.Millisecond, "the server notices")
	third, err := openCluster(ctx, dsn)
	require.NoError(t, err)
	require.Equal(t, []string{template}, databases(), "only the dead one's databases are swept")

	t.Run("pool", func(t *testing.T) { // not parallel: its end is what the outer test waits for
		require.Equal(t, 1, scalar[int](t, openDatabase(t, alive, template), countSched))
	})
	require.NoError(t, alive.close(ctx))
	require.NoError(t, third.close(ctx))
	require.Empty(t, databases())
}

func BenchmarkCreateDrop(b *testing.B) {
	c, err := shared()
	require.NoError(b, err)
	template, err := c.template()
	require.NoError(b, err)
	for b.Loop() {
		name, err := c.create(b.Context(), template)
		require.NoError(b, err)
		require.NoError(b, c.drop(b.Context(), name))
	}
}
