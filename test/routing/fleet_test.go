package routing_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// fleet is a database and the sidecars on it.
type fleet struct {
	t   *testing.T
	db  *pgxpool.Pool
	dsn string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	pool := pgtest.New(t)
	return &fleet{t: t, db: pool, dsn: pgtest.DSN(pool)}
}

// start runs a sidecar with the quick timing and waits until it is ready.
func (f *fleet) start(a *app, set fleettest.Settings) *fleettest.Sidecar {
	f.t.Helper()
	return fleettest.Start(f.t, programs.Sidecar, f.dsn, a.url, fleettest.Quick().Plus(set))
}

// startLeader runs a sidecar that leads and has no work of these tests, so that
// the others can be killed without waiting for an election; and waits until the
// leader has done its round.
func (f *fleet) startLeader() *fleettest.Sidecar {
	f.t.Helper()
	s := f.start(newApp(f.t, nil), fleettest.Settings{fleettest.SetQueues: "nobody-uses-this"})
	f.awaitLed()
	return s
}

// awaitLed waits until a leader computes the fleet's state.
func (f *fleet) awaitLed() {
	f.t.Helper()
	f.awaitTrue(fleettest.Leaderless, "nobody leads", "SELECT computed_at > now() - interval '5 seconds' FROM sched.fleet")
}

// one reads one value.
func one[T any](f *fleet, sql string, args ...any) T {
	f.t.Helper()
	rows, err := f.db.Query(f.t.Context(), sql, args...)
	require.NoError(f.t, err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(f.t, err, sql)
	return value
}

// list reads a column.
func list[T any](f *fleet, sql string, args ...any) []T {
	f.t.Helper()
	rows, err := f.db.Query(f.t.Context(), sql, args...)
	require.NoError(f.t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(f.t, err, sql)
	return values
}

// exec changes something, as an operator might with psql.
func (f *fleet) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.db.Exec(f.t.Context(), sql, args...)
	require.NoError(f.t, err, sql)
}

// set writes a setting.
func (f *fleet) set(key string, value any) {
	f.t.Helper()
	text, err := json.Marshal(value)
	require.NoError(f.t, err)
	f.exec("INSERT INTO sched.setting (key, value) VALUES ($1, $2::jsonb) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, string(text))
}

// awaitTrue waits until a query for a boolean says true; no row is false.
func (f *fleet) awaitTrue(within time.Duration, otherwise, sql string, args ...any) {
	f.t.Helper()
	fleettest.Eventually(f.t, within, func() bool {
		return one[bool](f, "SELECT coalesce(("+sql+"), false)", args...)
	}, func() string { return otherwise + ": " + f.dump() })
}

// dump shows the state that routing goes by, for a failed test.
func (f *fleet) dump() string {
	var text strings.Builder
	for _, table := range []string{
		"SELECT id, state, health, slots, running, labels FROM sched.worker ORDER BY started_at LIMIT 10",
		"SELECT name, strategy, pressure, pending, load, workers, free_slots, wake, unroutable FROM sched.queue ORDER BY name LIMIT 10",
		"SELECT queue, worker_id, weight, reason FROM sched.assignment ORDER BY 1, 2 LIMIT 20",
		"SELECT * FROM sched.flow LIMIT 10", "SELECT * FROM sched.canary LIMIT 10", "SELECT * FROM sched.fleet",
		"SELECT kind, queue, state, count(*) FROM sched.river_job GROUP BY 1, 2, 3 LIMIT 20",
	} {
		var rows string
		err := f.db.QueryRow(f.t.Context(), "SELECT coalesce(string_agg(to_jsonb(t)::text, E'\n  '), 'none') FROM ("+table+") AS t").Scan(&rows)
		fmt.Fprintf(&text, "\n%s\n  %s", table, rows)
		if err != nil {
			fmt.Fprint(&text, err)
		}
	}
	return text.String()
}

// option is a named argument of sched.enqueue.
type option struct {
	name  string
	value any
}

func queue(name string) option      { return option{"queue", name} }
func selector(pairs string) option  { return option{"selector", pairs} }
func priority(n int) option         { return option{"priority", n} }
func selectorOf(k, v string) option { return option{"selector", fmt.Sprintf(`{%q: %q}`, k, v)} }

// enqueue calls sched.enqueue(kind, …) with named arguments.
func (f *fleet) enqueue(kind string, options ...option) int64 {
	f.t.Helper()
	id, err := f.tryEnqueue(kind, options...)
	require.NoError(f.t, err)
	return id
}

func (f *fleet) tryEnqueue(kind string, options ...option) (int64, error) {
	sql, args := "SELECT sched.enqueue(kind => $1", []any{kind}
	for _, option := range options {
		args = append(args, option.value)
		sql += fmt.Sprintf(", %s => $%d", option.name, len(args))
	}
	var id int64
	err := f.db.QueryRow(f.t.Context(), sql+")", args...).Scan(&id)
	return id, err
}

// enqueueMany enqueues n tasks of a kind into a queue in one call.
func (f *fleet) enqueueMany(kind, queue string, n int) []int64 {
	f.t.Helper()
	ids := list[int64](f, `
		SELECT sched.enqueue_many((SELECT jsonb_agg(jsonb_build_object('kind', $1::text, 'queue', $2::text)) FROM generate_series(1, $3::int)))`, kind, queue, n)
	require.Len(f.t, ids, n)
	return ids
}

func (f *fleet) status(id int64) string {
	f.t.Helper()
	return one[string](f, "SELECT status::text FROM sched.task WHERE id = $1", id)
}

func (f *fleet) awaitStatus(id int64, status string) {
	f.t.Helper()
	fleettest.Eventually(f.t, fleettest.Soon, func() bool { return f.status(id) == status },
		func() string { return fmt.Sprintf("task %d is %s, not %s: %s", id, f.status(id), status, f.dump()) })
}

// awaitDrained waits until every task of a kind has completed.
func (f *fleet) awaitDrained(kind string, within time.Duration) {
	f.t.Helper()
	f.awaitTrue(within, "not all tasks of kind "+kind+" completed",
		"SELECT NOT EXISTS (SELECT FROM sched.task WHERE kind = $1 AND status <> 'completed')", kind)
}

// countRunning counts the running tasks of a queue, as SQL sees them.
func (f *fleet) countRunning(queue string) int {
	f.t.Helper()
	return one[int](f, "SELECT count(*)::int FROM sched.river_job WHERE queue = $1 AND state = 'running'", queue)
}

// configure makes sure that a queue is known, and sets columns of its row, such
// as "max_running = 5".
func (f *fleet) configure(name, assignments string) {
	f.t.Helper()
	f.exec("INSERT INTO sched.queue (name, base) VALUES ($1, $1) ON CONFLICT (name) DO NOTHING", name)
	f.exec("UPDATE sched.queue SET "+assignments+" WHERE name = $1", name)
}

// sched runs the operator's command and returns what it printed. It must succeed.
func (f *fleet) sched(args ...string) string {
	f.t.Helper()
	out, code := f.trySched(args...)
	require.Zerof(f.t, code, "sched %s: %s", strings.Join(args, " "), out)
	return out
}

func (f *fleet) trySched(args ...string) (string, int) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), programs.Sched, append(args, "--dsn", f.dsn)...)
	cmd.Dir = f.t.TempDir()
	cmd.Env = []string{"HOME=" + cmd.Dir, "PATH=/usr/bin:/bin", "GORACE=halt_on_error=0"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // the exit code says it
	require.NotContains(f.t, out.String(), "DATA RACE")
	return out.String(), cmd.ProcessState.ExitCode()
}

// workerState reads a registration's state.
func (f *fleet) workerState(id string) string {
	f.t.Helper()
	return one[string](f, "SELECT state FROM sched.worker WHERE id = $1", id)
}
