package routing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

// Whoever intervenes is on record with login and application, by whatever way.
func TestInterventionsAreOnRecord(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	s := f.startLeader()
	config, err := pgx.ParseConfig(f.dsn)
	require.NoError(t, err)
	config.RuntimeParams["application_name"] = "midnight-fix"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	user := one[string](f, "SELECT session_user::text")
	run := func(sql string, args ...any) {
		t.Helper()
		_, err := conn.Exec(t.Context(), sql, args...)
		require.NoError(t, err, sql)
	}
	recorded := func(what, where string, args ...any) {
		t.Helper()
		f.awaitTrue(fleettest.Soon, what+" isn't on record",
			"SELECT EXISTS (SELECT FROM sched.operator_action WHERE application_name = 'midnight-fix' AND db_user = '"+user+"' AND "+where+")", args...)
	}

	waiting := f.enqueue("task", queue("work"))
	cancelled := f.enqueue("task", queue("work"))
	run("UPDATE sched.setting SET value = '500' WHERE key = 'max_pending'")
	run("UPDATE sched.setting SET value = '600' WHERE key = 'max_pending'")
	recorded("a changed setting", "object_type = 'setting' AND object = 'max_pending' AND action = 'update' AND before::text LIKE '%500%' AND after::text LIKE '%600%'")
	run("UPDATE sched.queue SET max_running = 3, strategy = 'round_robin' WHERE name = 'work'")
	recorded("a changed limit", "object_type = 'queue' AND object = 'work' AND after::text LIKE '%max_running%'")
	run("INSERT INTO sched.kind (kind, rate) VALUES ('task', 5)")
	recorded("a new kind", "object_type = 'kind' AND object = 'task' AND action = 'insert'")
	run("SELECT sched.cancel($1)", cancelled)
	recorded("a cancel", "object_type = 'task' AND object = $1 AND action = 'cancel'", fmt.Sprint(cancelled))
	run("SELECT sched.retry($1)", cancelled)
	recorded("a retry", "object_type = 'task' AND object = $1 AND action = 'retry'", fmt.Sprint(cancelled))
	run("UPDATE sched.river_queue SET paused_at = now() WHERE name = 'work'")
	recorded("a pause", "object_type = 'queue' AND object = 'work' AND action = 'pause'")
	run("UPDATE sched.river_queue SET paused_at = NULL WHERE name = 'work'")
	recorded("a resume", "object_type = 'queue' AND object = 'work' AND action = 'resume'")
	run("SELECT sched.drain_worker($1)", s.Worker(t, f.db))
	recorded("a drain", "object_type = 'worker' AND object = $1 AND action = 'drain'", s.Worker(t, f.db))
	require.Equal(t, "available", f.status(waiting))

	// What the fleet does by itself is no intervention, and its record is its own.
	require.Zero(t, one[int](f, "SELECT count(*)::int FROM sched.operator_action WHERE application_name LIKE '%sidecar%'"))
}

// Decisions are kept as long as the setting says.
func TestDecisionsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.exec("INSERT INTO sched.decision (at, what, subject, who, reason) SELECT now() - interval '40 days', 'pressure', 'old', 'w', 'x' FROM generate_series(1, 2500)")
	f.exec("INSERT INTO sched.decision (at, what, subject, who, reason) VALUES (now() - interval '20 days', 'pressure', 'young', 'w', 'x')")
	f.exec("INSERT INTO sched.operator_action (at, action, object_type, object) VALUES (now() - interval '400 days', 'update', 'queue', 'old')")
	f.startLeader()
	f.awaitTrue(2*time.Minute, "old decisions stay", "SELECT NOT EXISTS (SELECT FROM sched.decision WHERE subject = 'old')")
	f.awaitTrue(2*time.Minute, "old interventions stay", "SELECT NOT EXISTS (SELECT FROM sched.operator_action WHERE object = 'old')")
	require.Equal(t, 1, one[int](f, "SELECT count(*)::int FROM sched.decision WHERE subject = 'young'"))
}
