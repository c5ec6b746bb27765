package operator

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// setup returns an operator on a database of the test's own, and a pool on it.
func setup(t *testing.T) (*Operator, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.New(t)

	return connect(t, pool, ""), pool
}

// connect returns one more operator, as a role if one is named.
func connect(t *testing.T, pool *pgxpool.Pool, role string) *Operator {
	t.Helper()
	dsn := pgtest.DSN(pool)
	if role != "" {
		separator := "?"
		if strings.Contains(dsn, "?") {
			separator = "&"
		}
		dsn += separator + "options=" + strings.ReplaceAll(url.QueryEscape("-c role="+role), "+", "%20")
	}
	o, err := Connect(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.Close(context.Background())) })

	return o
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func one[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err)

	return value
}

// enqueue adds a task with the arguments of sched.enqueue as SQL and returns its id.
func enqueue(t *testing.T, pool *pgxpool.Pool, args string) int64 {
	t.Helper()

	return one[int64](t, pool, "SELECT sched.enqueue("+args+")")
}

// end makes a task look as if an attempt, begun so many minutes ago, had brought it
// to a state.
func end(t *testing.T, pool *pgxpool.Pool, id int64, state string, minutesAgo int) {
	t.Helper()
	exec(t, pool, `UPDATE sched.river_job SET state = $2::text::sched.river_job_state, attempt = 1,
			attempted_at = now() - make_interval(mins => $3), attempted_by = '{w-one}',
			finalized_at = CASE WHEN $2 IN ('completed', 'cancelled', 'discarded') THEN now() END,
			errors = CASE WHEN $2 IN ('discarded', 'retryable') THEN ARRAY['{"at": "2030-01-01T00:00:00Z", "attempt": 1, "error": "no luck", "trace": ""}'::jsonb] END
		WHERE id = $1`, id, state, minutesAgo)
}

func ids(tasks []Task) []int64 {
	list := make([]int64, len(tasks))
	for i, task := range tasks {
		list[i] = task.ID
	}

	return list
}
