package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
)

const (
	poolSize     = 10
	closePatient = 10 * time.Second
)

// New returns a pool on a migrated database of the test's own. Both are gone when the test ends; a connection that the
// test didn't give back fails it.
func New(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	c, err := shared()
	require.NoError(tb, err)
	template, err := c.template()
	require.NoError(tb, err)
	return openDatabase(tb, c, template)
}

// Empty returns a pool on an empty database of the test's own, without sched.
func Empty(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	c, err := shared()
	require.NoError(tb, err)
	return openDatabase(tb, c, "template0")
}

// DSN is the URL of the pool's database.
func DSN(pool *pgxpool.Pool) string { return pool.Config().ConnString() }

func openDatabase(tb testing.TB, c *cluster, template string) *pgxpool.Pool {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	name, err := c.create(ctx, template)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		require.NoError(tb, c.drop(ctx, name))
	})
	return openPool(tb, c.dsnFor(name))
}

func openPool(tb testing.TB, dsn string) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(tb, err)
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(tb, err)
	tb.Cleanup(func() { closePool(tb, pool) })
	return pool
}

// closePool closes a pool without waiting for ever for a connection that was never released.
func closePool(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closePatient):
		tb.Errorf("pgtest: %d connections were not given back to the pool by the end of the test", pool.Stat().AcquiredConns())
	}
}

// Server starts a server of the test's own, to be killed and restarted. A commit that it confirmed survives Kill.
func Server(tb testing.TB) *devpg.Server {
	tb.Helper()
	// fsync only matters when the machine dies. The other two matter when the server does: without them a kill could
	// lose confirmed commits, or tear a page.
	options := devpg.Options{Fast: true, Settings: map[string]string{"synchronous_commit": "on", "full_page_writes": "on"}}
	server, err := devpg.Start(context.Background(), options)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, server.Stop()) })
	return server
}

// NewOn returns a pool on the migrated database postgres of a server of the test's own.
func NewOn(tb testing.TB, server *devpg.Server) *pgxpool.Pool {
	tb.Helper()
	dsn := server.SocketDSN("postgres")
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	require.NoError(tb, migrate(ctx, dsn))
	return openPool(tb, dsn)
}
