package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// database is what pgxpool.Pool, pgx.Conn and pgx.Tx share.
type database interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// open returns a pool that goes with the test.
func open(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func execute(t *testing.T, db database, sql string, args ...any) {
	t.Helper()
	_, err := db.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// one reads the only value of a query.
func one[T any](t *testing.T, db database, sql string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, db.QueryRow(t.Context(), sql, args...).Scan(&value))
	return value
}

// all reads the only column of a query.
func all[T any](t *testing.T, db database, sql string, args ...any) []T {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return values
}

// code is the SQLSTATE of an error, empty when it has none.
func code(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// requireCode runs a statement that must fail with the SQLSTATE.
func requireCode(t *testing.T, db database, state, sql string, args ...any) {
	t.Helper()
	_, err := db.Exec(t.Context(), sql, args...)
	require.Equal(t, state, code(err), "%s: %v", sql, err)
}

func enqueue(t *testing.T, db database, kind string) int64 {
	t.Helper()
	return one[int64](t, db, "SELECT sched.enqueue($1)", kind)
}

func statusOf(t *testing.T, db database, id int64) string {
	t.Helper()
	return one[string](t, db, "SELECT status::text FROM sched.task WHERE id = $1", id)
}

// awaitStatus waits for a task's status.
func awaitStatus(t *testing.T, db database, id int64, status string, within time.Duration) {
	t.Helper()
	var got string
	eventually(t, within, func() bool {
		got = statusOf(t, db, id)
		return got == status
	}, func() string { return fmt.Sprintf("task %d is %s, not %s", id, got, status) })
}

// eventually polls on the test's own goroutine, so that the condition may use
// require, and explains a failure with what it saw last.
func eventually(t *testing.T, within time.Duration, condition func() bool, explain func() string) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			if condition() {
				return
			}
			require.FailNowf(t, "not in time", "after %s: %s", within, explain())
		}
	}
}
