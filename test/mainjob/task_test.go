package mainjob_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// database is what pgxpool.Pool, pgx.Conn and pgx.Tx share.
type database interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// task is a row of sched.task, as far as these tests look.
type task struct {
	ID        int64
	Status    string
	Attempt   int
	StartTime *time.Time
	EndTime   *time.Time
	WorkerID  *string
	RunAt     time.Time
	Output    json.RawMessage
	Error     *string
	Lost      int
	Snoozes   int
}

func (k task) String() string {
	return fmt.Sprintf("task %d: %s, attempt %d, lost %d, snoozes %d, run_at %s, worker %s, error %s, output %s", k.ID, k.Status,
		k.Attempt, k.Lost, k.Snoozes, k.RunAt.Format(time.StampMicro), text(k.WorkerID), text(k.Error), k.Output)
}

func text(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

func readTask(t *testing.T, db database, id int64) task {
	t.Helper()
	rows, err := db.Query(t.Context(), `
		SELECT id, status::text, attempt, start_time, end_time, worker_id, run_at, output, error::text, coalesce(lost, 0)::int AS lost, coalesce(snoozes, 0)::int AS snoozes
		FROM sched.task WHERE id = $1`, id)
	require.NoError(t, err)
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[task])
	require.NoErrorf(t, err, "task %d", id)
	return row
}

// attempt is a row of sched.attempt.
type attempt struct {
	Attempt   int
	WorkerID  *string
	StartTime time.Time
	EndTime   *time.Time
	Outcome   *string
	Error     *string
}

// readAttempts returns a task's attempts, oldest first.
func readAttempts(t *testing.T, db database, id int64) []attempt {
	t.Helper()
	rows, err := db.Query(t.Context(), `
		SELECT attempt, worker_id, start_time, end_time, outcome::text, error::text
		FROM sched.attempt WHERE task_id = $1 AND start_time IS NOT NULL ORDER BY start_time`, id)
	require.NoError(t, err)
	attempts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[attempt])
	require.NoError(t, err)
	return attempts
}

// outcomes is the outcome column of attempts.
func outcomes(attempts []attempt) []string {
	var list []string
	for _, a := range attempts {
		list = append(list, text(a.Outcome))
	}
	return list
}

// enqueueOption is a named argument of sched.enqueue.
type enqueueOption struct {
	name  string
	value any
}

func with(name string, value any) enqueueOption { return enqueueOption{name, value} }

// enqueue calls sched.enqueue(kind, …) with named arguments.
func enqueue(t *testing.T, db database, kind string, options ...enqueueOption) int64 {
	t.Helper()
	id, err := tryEnqueue(t.Context(), db, kind, options...)
	require.NoError(t, err)
	return id
}

func tryEnqueue(ctx context.Context, db database, kind string, options ...enqueueOption) (int64, error) {
	sql, args := "SELECT sched.enqueue(kind => $1", []any{kind}
	for _, option := range options {
		args = append(args, option.value)
		sql += fmt.Sprintf(", %s => $%d", option.name, len(args))
	}
	var id int64
	err := db.QueryRow(ctx, sql+")", args...).Scan(&id)
	return id, err
}

// enqueueMany enqueues n tasks of a kind in one call.
func enqueueMany(t *testing.T, db database, kind string, n int) []int64 {
	t.Helper()
	rows, err := db.Query(t.Context(), `
		SELECT sched.enqueue_many((SELECT jsonb_agg(jsonb_build_object('kind', $1::text, 'args', jsonb_build_object('n', n))) FROM generate_series(1, $2::int) AS n))`, kind, n)
	require.NoError(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	require.Len(t, ids, n)
	return ids
}

// awaitStatus waits for a task's status and returns the row.
func awaitStatus(t *testing.T, db database, id int64, status string, within time.Duration) task {
	t.Helper()
	return awaitTask(t, db, id, within, status, func(k task) bool { return k.Status == status })
}

// awaitTask waits until a task's row is as wanted.
func awaitTask(t *testing.T, db database, id int64, within time.Duration, wanted string, is func(task) bool) task {
	t.Helper()
	var row task
	eventually(t, within, func() bool {
		row = readTask(t, db, id)
		return is(row)
	}, func() string { return fmt.Sprintf("wanted %s; %s", wanted, row) })
	return row
}

// countTasks counts tasks for which the condition on sched.task holds.
func countTasks(t *testing.T, db database, where string, args ...any) int {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRow(t.Context(), "SELECT count(*) FROM sched.task WHERE "+where, args...).Scan(&n))
	return n
}

// awaitDrained waits until every task of a kind has completed.
func awaitDrained(t *testing.T, db database, kind string, within time.Duration) {
	t.Helper()
	var left int
	eventually(t, within, func() bool {
		left = countTasks(t, db, "kind = $1 AND status <> 'completed'", kind)
		return left == 0
	}, func() string {
		return fmt.Sprintf("%d tasks of kind %s aren't completed: %v", left, kind, statuses(t, db, kind))
	})
}

// statuses counts a kind's tasks by status.
func statuses(t *testing.T, db database, kind string) map[string]int {
	t.Helper()
	rows, err := db.Query(t.Context(), "SELECT status::text, count(*)::int FROM sched.task WHERE kind = $1 GROUP BY 1", kind)
	require.NoError(t, err)
	counts := make(map[string]int)
	var status string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&status, &n}, func() error { counts[status] = n; return nil })
	require.NoError(t, err)
	return counts
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

// throughout checks a condition again and again for a while: for what must not
// happen.
func throughout(t *testing.T, window time.Duration, condition func() bool, explain func() string) {
	t.Helper()
	over := time.NewTimer(window)
	defer over.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if !condition() {
			require.FailNow(t, "didn't hold", explain())
		}
		select {
		case <-tick.C:
		case <-over.C:
			return
		}
	}
}
