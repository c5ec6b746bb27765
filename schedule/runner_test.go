package schedule_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/schedule"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// leader is a database and one who leads it.
type leader struct {
	*schedule.Runner
	db       *pgxpool.Pool
	registry *prometheus.Registry
}

func newLeader(t *testing.T) *leader {
	t.Helper()
	return leads(t, pgtest.New(t))
}

func leads(t *testing.T, db *pgxpool.Pool) *leader {
	t.Helper()
	registry := prometheus.NewRegistry()
	return &leader{schedule.NewRunner(db, registry, slog.New(slog.DiscardHandler)), db, registry}
}

// row is what the leader marks of a schedule.
type row struct {
	Next, Due, Last, Since *time.Time
	Task                   *int64
	Waiting, Error         *string
}

func (l *leader) read(t *testing.T, name string) row {
	t.Helper()
	rows, err := l.db.Query(t.Context(), `SELECT next_run_at, last_due_at, last_run_at, waiting_since, last_task_id, waiting_reason, error
		FROM sched.schedule WHERE name = $1`, name)
	require.NoError(t, err)
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[row])
	require.NoError(t, err)
	return r
}

func (l *leader) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := l.db.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func (l *leader) tasks(t *testing.T, kind string) (n int) {
	t.Helper()
	require.NoError(t, l.db.QueryRow(t.Context(), "SELECT count(*) FROM sched.river_job WHERE kind = $1", kind).Scan(&n))
	return n
}

func (l *leader) turn(t *testing.T) {
	t.Helper()
	require.NoError(t, l.Turn(t.Context()))
}

// overdue makes a schedule as one that has been due for a while.
func (l *leader) overdue(t *testing.T, name string, since time.Duration) {
	t.Helper()
	l.exec(t, "UPDATE sched.schedule SET next_run_at = date_trunc('minute', now() - $2::interval) WHERE name = $1", name, since)
}

func TestTurn_RunsWhatIsDueOnce(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.exec(t, `INSERT INTO sched.schedule (name, cron, timezone, kind, args, queue, priority, selector, timeout, max_attempts)
		VALUES ('nightly', '0 * * * *', 'Europe/Berlin', 'report', '{"a": 1}', 'reports', 3, '{"gpu": "yes"}', '90 seconds', 7)`)
	l.turn(t)
	planned := l.read(t, "nightly")
	require.NotNil(t, planned.Next, "the leader works out when")
	require.Zero(t, planned.Next.Minute())
	require.LessOrEqual(t, time.Until(*planned.Next), time.Hour)
	require.Zero(t, l.tasks(t, "report"), "it isn't due yet")
	l.turn(t)
	require.Equal(t, planned, l.read(t, "nightly"))

	// Nobody led for ten hours: as many times passed.
	l.overdue(t, "nightly", 10*time.Hour)
	due := l.read(t, "nightly").Next
	l.turn(t)
	l.turn(t)
	require.Equal(t, 1, l.tasks(t, "report"), "one task makes up for all of them")
	done := l.read(t, "nightly")
	require.True(t, done.Next.After(time.Now()))
	require.Equal(t, due.UTC(), done.Due.UTC())
	require.WithinDuration(t, time.Now(), *done.Last, time.Minute)

	var task struct {
		ID                 int64
		Base, Args, Gpu    string
		Priority, Attempts int
		Schedule, Due      string
		Timeout            int
	}
	require.NoError(t, l.db.QueryRow(t.Context(), `SELECT j.id, q.base, j.args ->> 'a', q.selector ->> 'gpu', j.priority, j.max_attempts,
			j.metadata -> 'sched:headers' ->> 'Schedule', j.metadata -> 'sched:headers' ->> 'Schedule-Due', (j.metadata ->> 'sched:timeout_ms')::integer
		FROM sched.river_job AS j JOIN sched.queue AS q ON q.name = j.queue`).Scan(
		&task.ID, &task.Base, &task.Args, &task.Gpu, &task.Priority, &task.Attempts, &task.Schedule, &task.Due, &task.Timeout))
	require.Equal(t, task.ID, *done.Task)
	require.Equal(t, []string{"reports", "1", "yes", "nightly"}, []string{task.Base, task.Args, task.Gpu, task.Schedule})
	require.Equal(t, []int{3, 7, 90_000}, []int{task.Priority, task.Attempts, task.Timeout})
	require.Equal(t, due.UTC().Format(time.RFC3339), task.Due)
	require.NoError(t, testutil.GatherAndCompare(l.registry, strings.NewReader(`
# HELP sched_schedule_turns_total Schedules that were due when this sidecar, leading, looked, by what came of it: ran, waiting (at red pressure), failed.
# TYPE sched_schedule_turns_total counter
sched_schedule_turns_total{outcome="failed"} 0
sched_schedule_turns_total{outcome="ran"} 1
sched_schedule_turns_total{outcome="waiting"} 0
`), "sched_schedule_turns_total"))
}

// Leaders that don't know yet that they lead no longer, all at once.
func TestTurn_TwoLeadersRunItOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	leaders := []*leader{leads(t, db), leads(t, db), leads(t, db), leads(t, db)}
	const schedules, rounds = 10, 5
	for i := range schedules {
		leaders[0].exec(t, "INSERT INTO sched.schedule (name, cron, kind) VALUES ($1, '@hourly', 'tick')", fmt.Sprint("s", i))
	}
	for round := range rounds {
		leaders[0].exec(t, "UPDATE sched.schedule SET next_run_at = now() - interval '1 second'")
		var turns sync.WaitGroup
		for _, l := range leaders {
			turns.Go(func() {
				for range 3 {
					l.turn(t)
				}
			})
		}
		turns.Wait()
		require.Equal(t, (round+1)*schedules, leaders[0].tasks(t, "tick"))
	}
}

func TestTurn_WaitsAtRed(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.exec(t, "INSERT INTO sched.kind (kind, queue) VALUES ('bulky', 'bulk')")
	l.exec(t, "SELECT sched.enqueue('bulky')") // makes the queue
	l.exec(t, "INSERT INTO sched.schedule (name, cron, kind) VALUES ('red', '@hourly', 'bulky'), ('green', '@hourly', 'other')")
	pressure := func(level string, age time.Duration) {
		l.exec(t, "UPDATE sched.queue SET pressure = $1, pressure_reason = '950 of 1000 tasks wait' WHERE name = 'bulk'", level)
		l.exec(t, "UPDATE sched.fleet SET computed_at = clock_timestamp() - $1::interval", age) // below 0 it stays new for that long
	}
	l.turn(t)
	l.overdue(t, "red", 10*time.Hour)
	l.overdue(t, "green", 10*time.Hour)
	due := l.read(t, "red").Next

	pressure("red", -time.Minute)
	l.turn(t)
	waits := l.read(t, "red")
	require.Equal(t, "queue bulk is red: 950 of 1000 tasks wait", *waits.Waiting)
	require.WithinDuration(t, time.Now(), *waits.Since, time.Minute)
	require.Equal(t, due, waits.Next, "it stays due")
	require.Equal(t, 1, l.tasks(t, "bulky"))
	require.Equal(t, 1, l.tasks(t, "other"), "others don't wait")
	require.InDelta(t, 1, gauge(t, l, "sched_schedules_waiting"), 0)

	pressure("red", -time.Minute)
	l.turn(t)
	require.Equal(t, waits, l.read(t, "red"), "it says since when")

	pressure("yellow", -time.Minute)
	l.turn(t)
	l.turn(t)
	require.Equal(t, 2, l.tasks(t, "bulky"), "one task for all the times that passed")
	ran := l.read(t, "red")
	require.Nil(t, ran.Waiting)
	require.Nil(t, ran.Since)
	require.True(t, ran.Next.After(time.Now()))
	require.Zero(t, gauge(t, l, "sched_schedules_waiting"))

	// A level that nobody has looked at since says nothing.
	pressure("red", time.Minute)
	l.overdue(t, "red", time.Minute)
	l.turn(t)
	require.Equal(t, 3, l.tasks(t, "bulky"))
}

func gauge(t *testing.T, l *leader, name string) float64 {
	t.Helper()
	families, err := l.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(t, "no metric", name)
	return 0
}

func TestTurn_MarksWhatCanNotRun(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.exec(t, `INSERT INTO sched.schedule (name, cron, timezone, kind, args, selector) VALUES
		('expression', 'often', 'UTC', 'x', '{}', NULL), ('zone', '@daily', 'Mars/Olympus', 'x', '{}', NULL),
		('refused', '@daily', 'UTC', 'x', to_jsonb(repeat('far too long ', 1000)), NULL), ('good', '@daily', 'UTC', 'good', '{}', NULL)`)
	l.exec(t, "UPDATE sched.setting SET value = '8192' WHERE key = 'max_args_bytes'")
	l.turn(t)
	l.exec(t, "UPDATE sched.schedule SET next_run_at = now() - interval '1 minute' WHERE name IN ('refused', 'good')")
	l.turn(t)
	require.Equal(t, 1, l.tasks(t, "good"), "others go on")
	for name, says := range map[string]string{
		"expression": `cron "often": `, "zone": `time zone "Mars/Olympus" is not one that is known`, "refused": "args",
	} {
		require.Contains(t, *l.read(t, name).Error, says)
	}
	require.InDelta(t, 3, gauge(t, l, "sched_schedules_failed"), 0)
	l.turn(t)
	require.Zero(t, l.tasks(t, "x"))

	l.exec(t, "UPDATE sched.schedule SET cron = '@hourly' WHERE name = 'expression'")
	l.exec(t, `UPDATE sched.schedule SET args = '{}' WHERE name = 'refused'`)
	l.turn(t)
	require.Nil(t, l.read(t, "expression").Error)
	require.NotNil(t, l.read(t, "expression").Next)
	require.Equal(t, 1, l.tasks(t, "x"), "the time that it missed is made up for")
	require.InDelta(t, 1, gauge(t, l, "sched_schedules_failed"), 0)
	l.Rest()
	require.Zero(t, gauge(t, l, "sched_schedules_failed"))
}

func TestTurn_ObeysChanges(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.exec(t, "INSERT INTO sched.schedule (name, cron, kind) VALUES ('s', '@daily', 'tick')")
	l.turn(t)
	l.overdue(t, "s", time.Hour)

	l.exec(t, "UPDATE sched.schedule SET paused = true")
	l.turn(t)
	require.Zero(t, l.tasks(t, "tick"))
	l.exec(t, "UPDATE sched.schedule SET paused = false")
	l.turn(t)
	require.Zero(t, l.tasks(t, "tick"), "what passed during a pause isn't made up for")
	require.True(t, l.read(t, "s").Next.After(time.Now()))

	l.overdue(t, "s", time.Hour)
	l.exec(t, "UPDATE sched.schedule SET cron = '30 4 * * *', timezone = 'Asia/Tokyo'")
	l.turn(t)
	require.Equal(t, "19:30", l.read(t, "s").Next.UTC().Format("15:04"))
	require.Zero(t, l.tasks(t, "tick"), "a new time begins anew")

	l.overdue(t, "s", time.Hour)
	l.exec(t, "UPDATE sched.schedule SET priority = 2")
	l.turn(t)
	require.Equal(t, 1, l.tasks(t, "tick"), "another change leaves the time alone")

	// Somebody's open transaction keeps no other schedule waiting.
	l.exec(t, "INSERT INTO sched.schedule (name, cron, kind) VALUES ('free', '@daily', 'free')")
	l.turn(t)
	l.exec(t, "UPDATE sched.schedule SET next_run_at = now() - interval '1 minute'")
	tx, err := l.db.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "UPDATE sched.schedule SET description = 'mine' WHERE name = 's'")
	require.NoError(t, err)
	l.turn(t)
	require.Equal(t, 1, l.tasks(t, "tick"))
	require.Equal(t, 1, l.tasks(t, "free"))
	require.NoError(t, tx.Rollback(t.Context()))
	l.turn(t)
	require.Equal(t, 2, l.tasks(t, "tick"))
}

func TestTurn_NoOverlap(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.exec(t, "INSERT INTO sched.schedule (name, cron, kind, overlap) VALUES ('s', '@daily', 'tick', false)")
	l.turn(t)
	for range 2 {
		l.overdue(t, "s", time.Hour)
		l.turn(t)
		require.Equal(t, 1, l.tasks(t, "tick"), "the one before is unfinished")
	}
	l.exec(t, "UPDATE sched.river_job SET state = 'completed', finalized_at = now()")
	l.overdue(t, "s", time.Hour)
	l.turn(t)
	require.Equal(t, 2, l.tasks(t, "tick"))
}

func TestRunSchedule(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.exec(t, "INSERT INTO sched.schedule (name, cron, kind, paused) VALUES ('s', '@daily', 'tick', true)")
	var id int64
	require.NoError(t, l.db.QueryRow(t.Context(), "SELECT sched.run_schedule('s')").Scan(&id))
	require.Equal(t, id, *l.read(t, "s").Task)
	require.Equal(t, 1, l.tasks(t, "tick"))
	_, err := l.db.Exec(t.Context(), "SELECT sched.run_schedule('none')")
	require.ErrorContains(t, err, "SC404")
	var actions []string
	require.NoError(t, l.db.QueryRow(t.Context(), "SELECT array_agg(action ORDER BY id) FROM sched.operator_action WHERE object_type = 'schedule'").Scan(&actions))
	require.Equal(t, []string{"insert", "run"}, actions)
}

// The leader's marks are nobody's intervention, and don't count as a change.
func TestTurn_IsNoIntervention(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.exec(t, "INSERT INTO sched.schedule (name, cron, kind) VALUES ('s', '@daily', 'tick')")
	l.exec(t, "UPDATE sched.schedule SET updated_at = DEFAULT, description = 'first'")
	var before, after string
	require.NoError(t, l.db.QueryRow(t.Context(), "SELECT updated_at::text FROM sched.schedule").Scan(&before))
	l.turn(t)
	l.overdue(t, "s", time.Hour)
	l.turn(t)
	require.Equal(t, 1, l.tasks(t, "tick"))
	require.NoError(t, l.db.QueryRow(t.Context(), "SELECT updated_at::text FROM sched.schedule").Scan(&after))
	require.Equal(t, before, after)
	var actions int
	require.NoError(t, l.db.QueryRow(t.Context(), "SELECT count(*) FROM sched.operator_action").Scan(&actions))
	require.Equal(t, 2, actions)
}

// A turn sees to a bounded number of schedules, the longest overdue first.
func TestTurn_IsBounded(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.exec(t, `INSERT INTO sched.schedule (name, cron, kind, next_run_at)
		SELECT 's' || n, '@daily', 'tick', now() - n * interval '1 second' FROM generate_series(1, 250) AS n`)
	for _, want := range []int{100, 200, 250, 250} {
		l.turn(t)
		require.Equal(t, want, l.tasks(t, "tick"))
		var inOrder bool
		require.NoError(t, l.db.QueryRow(t.Context(), `SELECT coalesce(max(substr(name, 2)::integer) FILTER (WHERE last_task_id IS NULL), 0)
			< min(substr(name, 2)::integer) FILTER (WHERE last_task_id IS NOT NULL) FROM sched.schedule`).Scan(&inOrder))
		require.True(t, inOrder)
	}
}
