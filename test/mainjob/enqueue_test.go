package mainjob_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestEnqueueFollowsItsTransaction(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	_, err := f.db.Exec(t.Context(), "CREATE TABLE purchase (n int PRIMARY KEY, task_id bigint NOT NULL)")
	require.NoError(t, err)

	// A handler that can't see its business row ran too early.
	a := newApp(t, func(c *call) answer {
		var n int
		if err := f.db.QueryRow(c.ctx, "SELECT n FROM purchase WHERE task_id = $1", c.id).Scan(&n); err != nil {
			return answer{status: 410, body: "the task runs without its purchase: " + err.Error()}
		}
		return answer{status: 200, body: fmt.Sprintf(`{"n": %d}`, n)}
	})
	f.start(a, nil)

	committed, rolledBack := make(map[int64]int), make(map[int64]int)
	for n := range 60 {
		tx, err := f.db.Begin(t.Context())
		require.NoError(t, err)
		id := enqueue(t, tx, "purchase.made", with("args", fmt.Sprintf(`{"n": %d}`, n)))
		_, err = tx.Exec(t.Context(), "INSERT INTO purchase (n, task_id) VALUES ($1, $2)", n, id)
		require.NoError(t, err)
		if n%3 == 0 {
			require.NoError(t, tx.Rollback(t.Context()))
			rolledBack[id] = n
		} else {
			require.NoError(t, tx.Commit(t.Context()))
			committed[id] = n
		}
	}

	for id, n := range committed {
		k := awaitStatus(t, f.db, id, "completed", soon)
		require.JSONEq(t, fmt.Sprintf(`{"n": %d}`, n), string(k.Output))
		require.Len(t, a.callsOf(id), 1)
	}
	for id := range rolledBack {
		require.Zero(t, countTasks(t, f.db, "id = $1", id), "a rolled back task exists")
		require.Empty(t, a.callsOf(id), "a rolled back task ran")
	}
	require.Equal(t, len(committed), countTasks(t, f.db, "true"))
}

func TestEnqueueRefusesTenMegabytes(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := newApp(t, nil)
	f.start(a, nil)

	tx, err := f.db.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	enqueue(t, tx, "upload", with("args", `{"n": 1}`))

	// The refusal is an ordinary error: what the transaction did before its
	// savepoint stays.
	nested, err := tx.Begin(t.Context())
	require.NoError(t, err)
	_, err = tryEnqueue(t.Context(), nested, "upload", with("args", bigArgs(10<<20)))
	requireRefusal(t, err, "54000")
	require.NoError(t, nested.Rollback(t.Context()))

	nested, err = tx.Begin(t.Context())
	require.NoError(t, err)
	_, err = nested.Exec(t.Context(), "SELECT sched.enqueue_many(jsonb_build_array(jsonb_build_object('kind', 'upload', 'args', $1::jsonb)))", bigArgs(10<<20))
	requireRefusal(t, err, "54000")
	require.NoError(t, nested.Rollback(t.Context()))

	allowed := enqueue(t, tx, "upload", with("args", bigArgs(900<<10)))
	require.NoError(t, tx.Commit(t.Context()))

	awaitDrained(t, f.db, "upload", soon)
	require.Equal(t, 2, countTasks(t, f.db, "kind = 'upload'"))
	calls := a.callsOf(allowed)
	require.Len(t, calls, 1)
	require.JSONEq(t, bigArgs(900<<10), string(calls[0].args), "the app must get the args whole")
}

func bigArgs(size int) string { return `{"blob": "` + strings.Repeat("x", size) + `"}` }

// requireRefusal checks an error of the SQL API: its code, and that it tells
// the caller what to do.
func requireRefusal(t *testing.T, err error, code string) {
	t.Helper()
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, code, refused.Code, refused.Message)
	require.NotEmpty(t, refused.Hint, "a refusal says what to do")
}

var _ database = pgx.Tx(nil)
