package migrations_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
)

// claim makes a task what a sidecar's claim makes of it, and returns the lease.
func claim(t *testing.T, db querier, id int64, worker string) string {
	t.Helper()
	at := one[time.Time](t, db, `UPDATE sched.river_job SET state = 'running', attempt = attempt + 1,
		attempted_at = greatest(clock_timestamp(), attempted_at + interval '1 microsecond'), attempted_by = attempted_by || $2::text
		WHERE id = $1 RETURNING attempted_at`, id, worker)
	return jobs.Lease{WorkerID: worker, AttemptedAt: at}.String()
}

func enqueued(t *testing.T, pool *pgxpool.Pool) int64 {
	t.Helper()
	return one[int64](t, pool, "SELECT sched.enqueue('mail')")
}

const completeSQL = "SELECT sched.complete($1, $2)"

func TestComplete(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := enqueued(t, pool)
	lease := claim(t, pool, id, "w-one")
	exec(t, pool, "SELECT sched.complete($1, $2, '{\"sent\": true}')", id, lease)

	type row struct {
		Status, Output, Worker string
		InOrder                bool
	}
	require.Equal(t, []row{{"completed", `{"sent": true}`, "w-one", true}}, rowsOf[row](t, pool,
		"SELECT status::text, output::text, worker_id, start_time <= end_time AND end_time <= clock_timestamp() FROM sched.task WHERE id = $1", id))
	require.Contains(t, refused(t, pool, "SC409", completeSQL, id, lease).Message, "completed already")
}

func TestCompleteStampsTheCallNotTheTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := enqueued(t, pool)
	tx := begin(t, connect(t, pool, ""))
	exec(t, tx, "SELECT 1")
	lease := claim(t, pool, id, "w-one") // after the app's transaction began
	exec(t, tx, completeSQL, id, lease)
	require.True(t, one[bool](t, tx, "SELECT end_time > now() AND end_time >= start_time FROM sched.task WHERE id = $1", id))
}

func TestLostLeases(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := enqueued(t, pool)
	lease := claim(t, pool, id, "w-one")
	says := func(code, lease, message string) {
		t.Helper()
		require.Contains(t, refused(t, pool, code, completeSQL, id, lease).Message, message)
	}
	says("SC409", "w-other"+lease[len("w-one"):], "another attempt")
	says("SC409", lease+"0", "another attempt")
	require.Contains(t, refused(t, pool, "SC404", completeSQL, id+1000, lease).Message, "no task")

	exec(t, pool, "INSERT INTO sched.worker (id, client_id, state) VALUES ('w-one', 'c', 'evicted')")
	exec(t, pool, "UPDATE sched.river_job SET state = 'available' WHERE id = $1", id)
	says("SC409", lease, "evicted")
	second := claim(t, pool, id, "w-two")
	require.NotEqual(t, lease, second)
	says("SC409", lease, "runs on worker w-two")
	exec(t, pool, "UPDATE sched.river_job SET state = 'retryable' WHERE id = $1", id)
	says("SC409", second, "retryable")
	exec(t, pool, "UPDATE sched.river_job SET state = 'cancelled', finalized_at = now() WHERE id = $1", id)
	says("SC409", second, "cancelled since")
}

func TestCompleteRefusesWhatIsNoLease(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, lease := range []any{nil, "", "w-1", "w-1.", ".1", "w-1.x", "w-1.-1", "w-1.1.1", "w-1.1 ", "w 1.1", "w-1.123456789012345678", "w-1.1\n"} {
		refused(t, pool, "22023", completeSQL, 1, lease)
	}
	refused(t, pool, "22023", completeSQL, nil, "w-1.1")
	exec(t, pool, "UPDATE sched.setting SET value = '8192' WHERE key = 'max_args_bytes'")
	id := enqueued(t, pool)
	lease := claim(t, pool, id, "w-one")
	refused(t, pool, "54000", "SELECT sched.complete($1, $2, to_jsonb(repeat('x', 8191)))", id, lease)
	exec(t, pool, "SELECT sched.complete($1, $2, to_jsonb(repeat('x', 8190)))", id, lease)
}

// The time in a lease comes back to the microsecond, whatever the session's zone.
func TestLeaseTimeIsExact(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	conn := connect(t, pool, "")
	exec(t, conn, "SET TimeZone = 'America/New_York'; SET IntervalStyle = 'sql_standard'")
	micros := []int64{1, 999_999, 1_764_480_000_123_456, 4_102_444_800_000_001, 99_999_999_999_999_999}
	for range 2000 {
		micros = append(micros, rand.Int64N(5_000_000_000_000_000))
	}
	require.Equal(t, micros, all[int64](t, conn, `
		SELECT (extract(epoch FROM (sched.parse_lease('w-1.' || m)).attempted_at)::numeric * 1000000)::bigint
		FROM unnest($1::bigint[]) WITH ORDINALITY AS u (m, ord) ORDER BY ord`, micros))
}

// An app may call complete early in a long transaction: it must hold its own
// task's row and nothing that anybody else needs.
func TestCompleteLocksOnlyTheTask(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := enqueued(t, pool)
	lease := claim(t, pool, id, "w-one")
	tx := begin(t, connect(t, pool, ""))
	exec(t, tx, "SELECT sched.complete($1, $2, '{}')", id, lease)
	require.Equal(t, []string{"sched.river_job"}, all[string](t, tx, `
		SELECT DISTINCT c.oid::regclass::text FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
		WHERE l.pid = pg_backend_pid() AND l.mode <> 'AccessShareLock' AND c.relkind <> 'i'`))
	require.Zero(t, one[int](t, tx, "SELECT count(*)::int FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"))
}

func TestSecondCompletionInAnotherTransactionLoses(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := enqueued(t, pool)
	lease := claim(t, pool, id, "w-one")
	first := begin(t, connect(t, pool, ""))
	exec(t, first, completeSQL, id, lease)

	second := connect(t, pool, "")
	pid := one[int](t, second, "SELECT pg_backend_pid()")
	lost := make(chan error, 1)
	go func() {
		_, err := second.Exec(context.Background(), completeSQL, id, lease)
		lost <- err
	}()
	require.Eventually(t, func() bool {
		return one[bool](t, pool, "SELECT cardinality(pg_blocking_pids($1)) > 0", pid)
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, first.Commit(t.Context()))
	require.ErrorContains(t, <-lost, "SC409")
}

func TestCancel(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const cancel = "SELECT sched.cancel($1)"
	for _, state := range []string{"available", "pending", "retryable", "scheduled"} {
		id := enqueued(t, pool)
		exec(t, pool, "UPDATE sched.river_job SET state = $2 WHERE id = $1", id, state)
		require.Equal(t, "cancelled", one[string](t, pool, cancel, id), state)
		require.Equal(t, "cancelled", one[string](t, pool, "SELECT status::text FROM sched.task WHERE id = $1 AND end_time IS NOT NULL", id))
		require.Equal(t, "cancelled", one[string](t, pool, cancel, id), "twice is harmless")
	}
	for _, state := range []string{"completed", "discarded"} {
		id := enqueued(t, pool)
		exec(t, pool, "UPDATE sched.river_job SET state = $2, finalized_at = now() WHERE id = $1", id, state)
		require.Equal(t, state, one[string](t, pool, cancel, id))
	}

	id := enqueued(t, pool)
	lease := claim(t, pool, id, "w-one")
	require.Equal(t, "running", one[string](t, pool, cancel, id))
	asked := one[string](t, pool, "SELECT metadata ->> 'cancel_attempted_at' FROM sched.river_job WHERE id = $1 AND state = 'running'", id)
	_, err := time.Parse(time.RFC3339Nano, asked)
	require.NoError(t, err, "River reads this time")
	exec(t, pool, completeSQL, id, lease)
	require.Equal(t, "completed", one[string](t, pool, cancel, id), "the effect was there first")

	refused(t, pool, "SC404", cancel, id+1000)
	refused(t, pool, "SC404", cancel, nil)
}

func TestRetry(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const retry = "SELECT sched.retry($1)"
	for _, state := range []string{"cancelled", "completed", "discarded", "pending", "retryable", "scheduled"} {
		id := enqueued(t, pool)
		exec(t, pool, `UPDATE sched.river_job SET state = $2::text::sched.river_job_state, attempt = 25, scheduled_at = now() + interval '1 day',
			finalized_at = CASE WHEN $2::text IN ('cancelled', 'completed', 'discarded') THEN now() END,
			metadata = metadata || '{"cancel_attempted_at": "x", "sched:lost": 3, "output": 1, "kept": 1}' WHERE id = $1`, id, state)
		require.Equal(t, "available", one[string](t, pool, retry, id), state)
		require.Equal(t, 1, one[int](t, pool, `SELECT count(*)::int FROM sched.river_job WHERE id = $1 AND state = 'available'
			AND finalized_at IS NULL AND scheduled_at <= now() AND attempt = 25 AND max_attempts = 26
			AND metadata - 'sched:by' = '{"kept": 1}'`, id), state)
		require.Equal(t, "available", one[string](t, pool, retry, id), "twice is harmless")
	}
	id := enqueued(t, pool)
	claim(t, pool, id, "w-one")
	require.Contains(t, refused(t, pool, "SC423", retry, id).Detail, "w-one")
	refused(t, pool, "SC404", retry, id+1000)
	refused(t, pool, "SC404", retry, nil)
	exec(t, pool, "UPDATE sched.river_job SET state = 'discarded', finalized_at = now(), attempt = 32767, max_attempts = 32767 WHERE id = $1", id)
	refused(t, pool, "22023", retry, id)
}

func TestRetryKeepsItsUniqueKeyUnique(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const enqueue = "SELECT sched.enqueue('mail', unique_key => 'k')"
	old := one[int64](t, pool, enqueue)
	exec(t, pool, "SELECT sched.cancel($1)", old)
	other := one[int64](t, pool, enqueue)

	err := refused(t, pool, "SC410", "SELECT sched.retry($1)", old)
	require.Contains(t, err.Detail, fmt.Sprintf("Task %d ", other))
	require.Equal(t, "cancelled", one[string](t, pool, "SELECT status::text FROM sched.task WHERE id = $1", old))
	exec(t, pool, "SELECT sched.cancel($1)", other)
	require.Equal(t, "available", one[string](t, pool, "SELECT sched.retry($1)", old))
	require.Equal(t, old, one[int64](t, pool, enqueue))
}

type attempt struct {
	Attempt         int
	Worker          string
	Outcome, Error  *string
	Started, IsOver bool
}

func attemptsOf(t *testing.T, pool *pgxpool.Pool, id int64) []attempt {
	t.Helper()
	return rowsOf[attempt](t, pool, `SELECT attempt, worker_id, outcome, error, start_time IS NOT NULL, end_time IS NOT NULL
		FROM sched.attempt WHERE task_id = $1 ORDER BY start_time`, id)
}

func TestAttemptsOfATask(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	text := func(s string) *string { return &s }
	id := enqueued(t, pool)
	require.Empty(t, attemptsOf(t, pool, id))

	claim(t, pool, id, "w-one")
	require.Equal(t, []attempt{{1, "w-one", nil, nil, true, false}}, attemptsOf(t, pool, id), "running")

	exec(t, pool, `WITH j AS (UPDATE sched.river_job SET state = 'retryable', errors = ARRAY['{"attempt": 1, "error": "boom"}'::jsonb] WHERE id = $1 RETURNING *)
		INSERT INTO sched.attempt_log SELECT id, attempt, attempted_by[1], attempted_at, now(), 'retry', 'boom' FROM j`, id)
	first := attempt{1, "w-one", text("retry"), text("boom"), true, true}
	require.Equal(t, []attempt{first}, attemptsOf(t, pool, id), "once, though row and log both know it")
	require.Equal(t, "boom", one[string](t, pool, "SELECT error FROM sched.task WHERE id = $1", id))

	claim(t, pool, id, "w-two")
	exec(t, pool, `UPDATE sched.river_job SET state = 'discarded', finalized_at = now(), errors = errors || '{"attempt": 2, "error": "bang"}'::jsonb WHERE id = $1`, id)
	second := attempt{2, "w-two", text("discarded"), text("bang"), true, true}
	require.Equal(t, []attempt{first, second}, attemptsOf(t, pool, id))

	exec(t, pool, "SELECT sched.retry($1)", id)
	require.Equal(t, []attempt{first, second}, attemptsOf(t, pool, id), "retrying by hand loses no attempt")
	lease := claim(t, pool, id, "w-three")
	exec(t, pool, completeSQL, id, lease)
	third := attempt{3, "w-three", text("completed"), nil, true, true}
	require.Equal(t, []attempt{first, second, third}, attemptsOf(t, pool, id))
	require.Nil(t, one[*string](t, pool, "SELECT error FROM sched.task WHERE id = $1", id))
}
