package migrations_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// noRoles is how most tests here migrate: roles belong to the whole server.
func noRoles() migrations.Options { return migrations.Options{NoRoles: true} }

// querier is what a pool, a connection and a transaction have in common.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func exec(t *testing.T, db querier, sql string, args ...any) {
	t.Helper()
	_, err := db.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// one returns the single value of the single row that a query yields.
func one[T any](t *testing.T, db querier, sql string, args ...any) T {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return value
}

func all[T any](t *testing.T, db querier, sql string, args ...any) []T {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return values
}

// refused runs a statement that must fail with the SQLSTATE and give a hint, and
// returns the error.
func refused(t *testing.T, db querier, code, sql string, args ...any) *pgconn.PgError {
	t.Helper()
	_, err := db.Exec(t.Context(), sql, args...)
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr, "%s %v", sql, args)
	require.Equal(t, code, pgErr.Code, "%s: %s", sql, pgErr.Message)
	require.NotEmpty(t, pgErr.Hint, "%s: %s", sql, pgErr.Message)
	return pgErr
}

// connect opens a connection of its own to the pool's database, as role unless
// that is empty.
func connect(t *testing.T, pool *pgxpool.Pool, role string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsnAs(t, pool, role))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

func dsnAs(t *testing.T, pool *pgxpool.Pool, role string) string {
	t.Helper()
	if role == "" {
		return pgtest.DSN(pool)
	}
	u, err := url.Parse(pgtest.DSN(pool))
	require.NoError(t, err)
	u.User = url.User(role)
	return u.String()
}

// begin opens a transaction that the test ends, or that ends with it.
func begin(t *testing.T, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// randomName gives roles and the like names that no other test has.
func randomName(prefix string) string { return fmt.Sprintf("%s_%08x", prefix, rand.Uint32()) }

// newRole makes a login role that goes with the test.
func newRole(t *testing.T, pool *pgxpool.Pool, attributes string) string {
	t.Helper()
	name := randomName("test_role")
	exec(t, pool, fmt.Sprintf("CREATE ROLE %s LOGIN %s", name, attributes))
	dropAfter(t, pool, name)
	return name
}

func dropAfter(t *testing.T, pool *pgxpool.Pool, role string) {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.Background()
		for _, statement := range []string{
			"ALTER DATABASE " + pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize() + " OWNER TO CURRENT_USER",
			"DROP OWNED BY " + role + " CASCADE",
			"DROP ROLE " + role,
		} {
			_, err := pool.Exec(ctx, statement)
			require.NoError(t, err)
		}
	})
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func rowsOf[T any](t *testing.T, db querier, sql string, args ...any) []T {
	t.Helper()
	rows, err := db.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	require.NoError(t, err)
	return values
}
