package jobs_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              //nolint:depguard // tested: apps may use it. The driver "postgres".
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
)

// What the documentation says can be passed as it is.
var (
	_ jobs.DB             = (*pgxpool.Pool)(nil)
	_ jobs.DB             = (*pgxpool.Conn)(nil)
	_ jobs.DB             = (*pgx.Conn)(nil)
	_ jobs.Tx             = pgx.Tx(nil)
	_ jobs.SQLQuerier     = (*sql.DB)(nil)
	_ jobs.SQLQuerier     = (*sql.Conn)(nil)
	_ jobs.SQLTransaction = (*sql.Tx)(nil)
)

// family is one way to reach Postgres that this package supports.
type family struct {
	name string
	open func(t *testing.T, pool *pgxpool.Pool) handle
}

// handle is a family's way to one database.
type handle struct {
	db    jobs.DB
	begin func(t *testing.T) transaction
}

// transaction is an open one, and a way to write business data in it.
type transaction struct {
	jobs.Tx
	exec func(t *testing.T, query string, args ...any)
}

func families() []family {
	return []family{
		{"pgx", openPgx},
		{"pgx simple protocol", openPgxSimple},
		{"database/sql with pgx", func(t *testing.T, pool *pgxpool.Pool) handle { return openSQL(t, "pgx", pool) }},
		{"database/sql with lib/pq", func(t *testing.T, pool *pgxpool.Pool) handle { return openSQL(t, "postgres", pool) }},
	}
}

// eachFamily runs a test for every family, each on a database of its own.
func eachFamily(t *testing.T, test func(t *testing.T, pool *pgxpool.Pool, h handle)) {
	t.Helper()
	for _, f := range families() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			test(t, pool, f.open(t, pool))
		})
	}
}

func openPgx(_ *testing.T, pool *pgxpool.Pool) handle {
	return handle{db: pool, begin: func(t *testing.T) transaction {
		t.Helper()
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		return transaction{tx, func(t *testing.T, query string, args ...any) {
			t.Helper()
			_, err := tx.Exec(t.Context(), query, args...)
			require.NoError(t, err)
		}}
	}}
}

// The simple protocol is what poolers between app and database may ask for.
func openPgxSimple(t *testing.T, pool *pgxpool.Pool) handle {
	t.Helper()
	config := pool.Config()
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	simple, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(simple.Close)
	return openPgx(t, simple)
}

func openSQL(t *testing.T, driver string, pool *pgxpool.Pool) handle {
	t.Helper()
	db, err := sql.Open(driver, pgtest.DSN(pool))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return handle{db: jobs.SQL(db), begin: func(t *testing.T) transaction {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback() })
		return transaction{jobs.SQLTx(tx), func(t *testing.T, query string, args ...any) {
			t.Helper()
			_, err := tx.ExecContext(t.Context(), query, args...)
			require.NoError(t, err)
		}}
	}}
}

// one queries a single value.
func one[T any](t *testing.T, pool *pgxpool.Pool, query string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, pool.QueryRow(t.Context(), query, args...).Scan(&value))
	return value
}
