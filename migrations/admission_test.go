package migrations_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// setDoor makes the row of a queue what the leader and an operator might have
// made of it. An empty pressure leaves the queue without a row.
func setDoor(t *testing.T, db querier, queue, admission, pressure string) {
	t.Helper()
	exec(t, db, `INSERT INTO sched.queue (name, base, admission, pressure, pressure_reason, pending) VALUES ($1, $1, $2, $3, $4, 950)
		ON CONFLICT (name) DO UPDATE SET admission = excluded.admission, pressure = excluded.pressure, pressure_reason = excluded.pressure_reason`,
		queue, admission, pressure, "950 of 1000 tasks wait")
}

// lead makes the fleet's row as old as said; below 0 it was never computed. A row
// that counts as new stays so, however long the test takes.
func lead(t *testing.T, db querier, age time.Duration) {
	t.Helper()
	if age >= 0 && age < 5*time.Second {
		exec(t, db, "UPDATE sched.fleet SET computed_at = clock_timestamp() + interval '1 minute'")
		return
	}
	exec(t, db, "UPDATE sched.fleet SET computed_at = CASE WHEN $1::float8 >= 0 THEN clock_timestamp() - make_interval(secs => $1) END", age.Seconds())
}

// callers are the ways to bring one task, with its arguments but the kind as a
// JSON object.
var callers = map[string]string{
	"enqueue": `SELECT sched.enqueue('mail', queue => $1::jsonb ->> 'queue', run_at => ($1::jsonb ->> 'run_at')::timestamptz,
		unique_key => $1::jsonb ->> 'unique_key')`,
	"enqueue_many": `SELECT * FROM sched.enqueue_many(jsonb_build_array('{"kind": "mail"}'::jsonb || $1::jsonb))`,
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const rejected = -1
	wait := map[string]map[string]time.Duration{
		"accept": {"green": 0, "yellow": 0, "red": 0},
		"delay":  {"green": 0, "yellow": 500 * time.Millisecond, "red": 2 * time.Second},
		"reject": {"green": 0, "yellow": 0, "red": rejected},
	}
	for admission, row := range wait {
		for pressure, delay := range row {
			for name, call := range callers {
				for _, wake := range []string{"NULL", "'{}'", "'{w-1}'"} {
					cell := fmt.Sprintf("%s %s %s wake %s", name, admission, pressure, wake)
					setDoor(t, pool, "q", admission, pressure)
					exec(t, pool, "UPDATE sched.queue SET wake = "+wake+" WHERE name = 'q'")

					lead(t, pool, time.Second)
					if delay == rejected {
						err := refused(t, pool, "SC429", call, `{"queue": "q"}`)
						require.Equal(t, "sched."+name+": queue q takes no new tasks now, its pressure is red: 950 of 1000 tasks wait", err.Message, cell)
						require.Equal(t, "retry after 2 seconds", err.Detail, cell)
						require.NotEmpty(t, err.Hint, cell)
					} else {
						requireDelayed(t, pool, one[int64](t, pool, call, `{"queue": "q"}`), delay, cell)
					}
					for _, age := range []time.Duration{6 * time.Second, -1} { // nobody leads
						lead(t, pool, age)
						requireDelayed(t, pool, one[int64](t, pool, call, `{"queue": "q"}`), 0, cell+" stale")
					}
				}
			}
		}
	}
	require.Zero(t, one[int](t, pool, "SELECT count(*)::int FROM sched.river_job WHERE state = 'available' AND scheduled_at > clock_timestamp()"))
}

// requireDelayed says of a task that it is due so much later than it was added.
func requireDelayed(t *testing.T, db querier, id int64, delay time.Duration, cell string) {
	t.Helper()
	state := one[string](t, db, "SELECT state::text FROM sched.river_job WHERE id = $1", id)
	waits := one[float64](t, db, "SELECT extract(epoch FROM scheduled_at - created_at)::float8 FROM sched.river_job WHERE id = $1", id)
	if delay == 0 {
		require.Equal(t, "available", state, cell)
		require.Zero(t, waits, cell)
		return
	}
	require.Equal(t, "scheduled", state, cell)
	// created_at is the transaction's start, the delay counts from the call.
	require.GreaterOrEqual(t, waits, delay.Seconds(), cell)
	require.Less(t, waits, delay.Seconds()+10, cell)
}

func TestAdmissionDelaysFollowTheSettings(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	lead(t, pool, 0)
	exec(t, pool, `UPDATE sched.setting SET value = CASE key WHEN 'admission_delay_red_ms' THEN '90500'::jsonb ELSE '30000' END
		WHERE key IN ('admission_delay_red_ms', 'admission_delay_yellow_ms')`)
	for pressure, delay := range map[string]time.Duration{"yellow": 30 * time.Second, "red": 90500 * time.Millisecond} {
		setDoor(t, pool, "q", "delay", pressure)
		requireDelayed(t, pool, one[int64](t, pool, "SELECT sched.enqueue('mail', queue => 'q')"), delay, pressure)
	}
	setDoor(t, pool, "q", "reject", "red")
	require.Equal(t, "retry after 91 seconds", refused(t, pool, "SC429", "SELECT sched.enqueue('mail', queue => 'q')").Detail)
	exec(t, pool, "UPDATE sched.setting SET value = '0' WHERE key = 'admission_delay_red_ms'")
	require.Equal(t, "retry after 1 seconds", refused(t, pool, "SC429", "SELECT sched.enqueue('mail', queue => 'q')").Detail)
	setDoor(t, pool, "q", "delay", "red")
	requireDelayed(t, pool, one[int64](t, pool, "SELECT sched.enqueue('mail', queue => 'q')"), 0, "no delay is set")
}

// A delay never makes a task earlier or later than its own later time.
func TestAdmissionLeavesALaterTimeAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	lead(t, pool, 0)
	setDoor(t, pool, "q", "delay", "red")
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	for name, call := range callers {
		id := one[int64](t, pool, call, fmt.Sprintf(`{"queue": "q", "run_at": %q}`, at.Format(time.RFC3339Nano)))
		require.Equal(t, at, one[time.Time](t, pool, "SELECT scheduled_at FROM sched.river_job WHERE id = $1", id).UTC(), name)
		id = one[int64](t, pool, call, `{"queue": "q", "run_at": "1970-01-01T00:00:00Z"}`)
		requireDelayed(t, pool, id, 2*time.Second, name+": a time that has passed means now")
	}
}

// A unique key whose task is there adds nothing, so the door has nothing to say.
func TestAdmissionIsForNewTasks(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	lead(t, pool, 0)
	id := one[int64](t, pool, "SELECT sched.enqueue('mail', queue => 'q', unique_key => 'k')")
	setDoor(t, pool, "q", "reject", "red")
	for name, call := range callers {
		require.Equal(t, id, one[int64](t, pool, call, `{"queue": "q", "unique_key": "k"}`), name)
		refused(t, pool, "SC429", call, `{"queue": "q", "unique_key": "other"}`)
	}
	setDoor(t, pool, "q", "delay", "red")
	for name, call := range callers {
		require.Equal(t, id, one[int64](t, pool, call, `{"queue": "q", "unique_key": "k"}`), name)
		fresh := one[int64](t, pool, call, fmt.Sprintf(`{"queue": "q", "unique_key": %q}`, name))
		requireDelayed(t, pool, fresh, 2*time.Second, name)
	}
	requireDelayed(t, pool, id, 0, "it stays as it was")
}

func TestEnqueueManyIsAllOrNothingAtTheDoor(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	lead(t, pool, 0)
	setDoor(t, pool, "closed", "reject", "red")
	setDoor(t, pool, "slow", "delay", "yellow")
	err := refused(t, pool, "SC429", `SELECT sched.enqueue_many('[{"kind": "a"}, {"kind": "a", "queue": "slow"}, {"kind": "a", "queue": "closed"}]')`)
	require.Contains(t, err.Message, "queue closed")
	require.Zero(t, one[int](t, pool, "SELECT count(*)::int FROM sched.river_job"))

	ids := all[int64](t, pool, `SELECT * FROM sched.enqueue_many('[{"kind": "a"}, {"kind": "b", "queue": "slow", "unique_key": "k"}, {"kind": "c", "queue": "open"}]')`)
	require.Len(t, ids, 3)
	requireDelayed(t, pool, ids[0], 0, "default")
	requireDelayed(t, pool, ids[1], 500*time.Millisecond, "slow")
	requireDelayed(t, pool, ids[2], 0, "open")
	require.Equal(t, []string{"a", "b", "c"}, all[string](t, pool, "SELECT kind FROM sched.river_job ORDER BY id"))
}

// A queue that the kind or the selector leads to has its own door.
func TestAdmissionOfTheQueueThatATaskComesTo(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	lead(t, pool, 0)
	exec(t, pool, "INSERT INTO sched.kind (kind, queue) VALUES ('mail', 'post')")
	setDoor(t, pool, "post", "reject", "red")
	refused(t, pool, "SC429", "SELECT sched.enqueue('mail')")
	exec(t, pool, "SELECT sched.enqueue('mail', queue => 'default')")

	gpu := one[string](t, pool, `SELECT sched.queue_name('default', '{"gpu": "a100"}', 'any')`)
	setDoor(t, pool, gpu, "reject", "red")
	refused(t, pool, "SC429", `SELECT sched.enqueue('render', selector => '{"gpu": "a100"}')`)
	exec(t, pool, `SELECT sched.enqueue('render')`)
}

// The path of a plain task into a busy queue refuses and keeps what the other does.
func TestBusyQueueChecksTheSame(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "INSERT INTO sched.queue (name, base, wake) VALUES ('default', 'default', '{}'), ('default|0123456789ab', 'default', '{}'), ('No!', 'No!', '{}')")
	for _, tt := range badArguments {
		err := refused(t, pool, "22023", "SELECT sched.enqueue("+tt.call+")")
		require.Regexp(t, "^sched.enqueue: "+tt.argument+" ", err.Message, tt.call)
	}
	refused(t, pool, "22023", "SELECT sched.enqueue('mail', queue => 'default|0123456789ab')")
	refused(t, pool, "22023", "SELECT sched.enqueue('mail', queue => 'No!')")
	exec(t, pool, "UPDATE sched.setting SET value = '8192' WHERE key = 'max_args_bytes'")
	exec(t, pool, "SELECT sched.enqueue('mail', to_jsonb(repeat('x', 8190)))")
	refused(t, pool, "54000", "SELECT sched.enqueue('mail', to_jsonb(repeat('x', 8191)))")
	exec(t, pool, "DELETE FROM sched.river_job")

	conn := connect(t, pool, "")
	exec(t, conn, `SET application_name = 'shop "7"'`)
	busy := jobOf(t, pool, one[int64](t, conn, `SELECT sched.enqueue('mail', '{"to": 7}', priority => 2, max_attempts => 3)`))
	exec(t, pool, "UPDATE sched.queue SET wake = NULL")
	quiet := jobOf(t, pool, one[int64](t, conn, `SELECT sched.enqueue('mail', '{"to": 7}', priority => 2, max_attempts => 3)`))
	require.Equal(t, quiet, busy)
	require.Equal(t, 2, busy.Priority)
	require.Equal(t, 1, one[int](t, pool, "SELECT count(DISTINCT (state, attempt, scheduled_at = created_at, tags))::int FROM sched.river_job"))

	exec(t, pool, "UPDATE sched.queue SET wake = '{}'")
	exec(t, pool, "INSERT INTO sched.kind (kind, priority) VALUES ('mail', 4)")
	require.Equal(t, 4, jobOf(t, pool, one[int64](t, conn, "SELECT sched.enqueue('mail')")).Priority, "a kind's defaults hold")
}

func TestPressure(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	type row struct {
		Level, Reason string
		Pending, Max  int
		Workers       int
		RetryAfter    float64
		Fresh         bool
	}
	ask := func(from string) row {
		t.Helper()
		var r row
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT level, coalesce(reason, ''), pending, max_pending, workers,
			extract(epoch FROM retry_after)::float8, coalesce(age < interval '5 seconds', false) FROM `+from).
			Scan(&r.Level, &r.Reason, &r.Pending, &r.Max, &r.Workers, &r.RetryAfter, &r.Fresh))
		return r
	}
	never := row{Level: "green", Reason: "not computed: no sidecar has led this fleet yet", Max: 1000}
	require.Equal(t, never, ask("sched.pressure()"))
	require.Equal(t, never, ask("sched.pressure('nothing')"))

	exec(t, pool, `UPDATE sched.fleet SET pressure = 'yellow', pressure_reason = 'busy', pending = 700, load = 0.5, workers = 3`)
	lead(t, pool, 0)
	setDoor(t, pool, "q", "accept", "red")
	exec(t, pool, "UPDATE sched.queue SET max_pending = 1050, workers = 2 WHERE name = 'q'")
	require.Equal(t, row{"yellow", "busy", 700, 1000, 3, 0.5, true}, ask("sched.pressure()"))
	require.Equal(t, row{"red", "950 of 1000 tasks wait", 950, 1050, 2, 2, true}, ask("sched.pressure('q')"))
	require.Equal(t, row{Level: "green", Max: 1000, Fresh: true}, ask("sched.pressure('nothing')"))
	require.Equal(t, row{Level: "green", Max: 1000, Fresh: true}, ask("sched.pressure(NULL)"), "the default queue")

	for _, from := range []string{"sched.pressure()", "sched.pressure('q')"} {
		lead(t, pool, 7*time.Second)
		stale := ask(from)
		require.Equal(t, "green", stale.Level, from)
		require.Regexp(t, `^not computed for \d+ s: no sidecar leads, so nothing is delayed or refused$`, stale.Reason, from)
		require.Zero(t, stale.RetryAfter, from)
		require.False(t, stale.Fresh, from)
	}
}

// An app asks within the transaction that enqueues, and keeps it.
func TestRejectionInATransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	lead(t, pool, 0)
	setDoor(t, pool, "q", "reject", "red")
	exec(t, pool, "CREATE TABLE public.orders (id int)")
	tx := begin(t, connect(t, pool, ""))
	exec(t, tx, "INSERT INTO public.orders VALUES (1)")
	require.Equal(t, "red", one[string](t, tx, "SELECT level FROM sched.pressure('q')"))
	exec(t, tx, "SAVEPOINT attempt")
	_, err := tx.Exec(t.Context(), "SELECT sched.enqueue('mail', queue => 'q')")
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, "SC429", pgErr.Code)
	exec(t, tx, "ROLLBACK TO attempt")
	exec(t, tx, "SELECT sched.enqueue('mail')")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []string{"default"}, all[string](t, pool, "SELECT queue FROM sched.river_job"))
	require.Equal(t, 1, one[int](t, pool, "SELECT count(*)::int FROM public.orders"))
}
