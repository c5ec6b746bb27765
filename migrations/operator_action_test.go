package migrations_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// actions are the interventions logged so far, without who and when.
func actions(t *testing.T, db querier) []string {
	t.Helper()
	return all[string](t, db, `SELECT concat_ws(' ', action, object_type, object, before::text, '->', after::text) FROM sched.operator_action ORDER BY id`)
}

func TestChangesOfConfigurationAreLogged(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.Empty(t, actions(t, pool), "the migrations are nobody's intervention")
	exec(t, pool, "SELECT sched.enqueue('mail', queue => 'bulk')")
	exec(t, pool, "INSERT INTO sched.canary (queue, state) VALUES ('old', 'rising')")
	exec(t, pool, "DELETE FROM sched.operator_action")

	for _, step := range []struct{ sql, want string }{
		{"UPDATE sched.setting SET value = '500' WHERE key = 'max_pending'", `update setting max_pending {"value": 1000} -> {"value": 500}`},
		{"UPDATE sched.setting SET pinned = true, value = '500' WHERE key = 'max_pending'", `update setting max_pending {"pinned": false} -> {"pinned": true}`},
		{"INSERT INTO sched.setting (key, value) VALUES ('mine', '1')", `insert setting mine -> {"value": 1, "pinned": false}`},
		{"INSERT INTO sched.setting (key, value, description) VALUES ('said', '1', 'what it is')", `insert setting said -> {"value": 1, "pinned": false}`},
		{"DELETE FROM sched.setting WHERE key = 'mine'", `delete setting mine {"value": 1, "pinned": false} ->`},
		{"INSERT INTO sched.kind (kind, rate) VALUES ('mail', 5)", `insert kind mail -> {"rate": 5, "pinned": false}`},
		{"UPDATE sched.kind SET rate = NULL, timeout = '1 minute'", `update kind mail {"rate": 5, "timeout": null} -> {"rate": null, "timeout": "00:01:00"}`},
		{"DELETE FROM sched.kind", `delete kind mail {"pinned": false, "timeout": "00:01:00"} ->`},
		{"UPDATE sched.queue SET max_running = 3, strategy = 'round_robin' WHERE name = 'bulk'", `update queue bulk {"strategy": "least_loaded", "max_running": null} -> {"strategy": "round_robin", "max_running": 3}`},
		{"INSERT INTO sched.queue (name, base, rate) VALUES ('new', 'new', 2)", `insert queue new -> {"rate": 2, "pinned": false, "strategy": "least_loaded", "admission": "accept"}`},
		{"DELETE FROM sched.queue WHERE name = 'new'", `delete queue new {"rate": 2, "pinned": false, "strategy": "least_loaded", "admission": "accept"} ->`},
		{"UPDATE sched.river_queue SET paused_at = '2030-01-01T00:00:00Z', updated_at = now() WHERE name = 'bulk'", `pause queue bulk {"paused_at": null} -> {"paused_at": "2030-01-01T00:00:00+00:00"}`},
		{"UPDATE sched.river_queue SET paused_at = NULL WHERE name = 'bulk'", `resume queue bulk {"paused_at": "2030-01-01T00:00:00+00:00"} -> {"paused_at": null}`},
		{"INSERT INTO sched.river_queue (name, updated_at, paused_at) VALUES ('x', now(), '2030-01-01T00:00:00Z')", `pause queue x -> {"paused_at": "2030-01-01T00:00:00+00:00"}`},
		{"UPDATE sched.canary SET percent = 10, state = 'held', step_at = now() WHERE queue = 'old'", `update canary old {"state": "rising", "percent": 0} -> {"state": "held", "percent": 10}`},
		{"UPDATE sched.canary SET percent = 20 WHERE queue = 'old'", `update canary old {"percent": 10} -> {"percent": 20}`},
		{"UPDATE sched.canary SET percent = 0, state = 'rising', step_at = now() + interval '1 s' WHERE queue = 'old'", `update canary old {"state": "held", "percent": 20} -> {"state": "rising", "percent": 0}`},
		{"UPDATE sched.canary SET hold = '5 s', step_at = now() + interval '2 s' WHERE queue = 'old'", `update canary old {"hold": "00:03:00"} -> {"hold": "00:00:05"}`},
		{"UPDATE sched.canary SET percent = 7 WHERE queue = 'old'", `update canary old {"percent": 0} -> {"percent": 7}`},
	} {
		exec(t, pool, "DELETE FROM sched.operator_action")
		exec(t, pool, "SET timezone = 'UTC'; "+step.sql)
		require.Equal(t, []string{step.want}, actions(t, pool), step.sql)
	}
	require.Equal(t, one[string](t, pool, "SELECT session_user || ' ' || current_setting('application_name')"),
		one[string](t, pool, "SELECT db_user || ' ' || application_name FROM sched.operator_action"))
}

// What sched and River do by themselves is nobody's intervention.
func TestWhatNobodyDidIsNotLogged(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "INSERT INTO sched.canary (queue, state, percent) VALUES ('q', 'rising', 5), ('bad', 'rising', 5)")
	exec(t, pool, "INSERT INTO sched.kind (kind) VALUES ('k')")
	exec(t, pool, "DELETE FROM sched.operator_action")
	for _, sql := range []string{
		"SELECT sched.enqueue('mail', queue => 'bulk')",
		"SELECT sched.enqueue_many('[{\"kind\": \"a\", \"queue\": \"more\"}]')",
		"SELECT sched.discover_queues()",
		"UPDATE sched.queue SET pressure = 'red', pending = 5, wake = '{}', unroutable = 'x', state_at = now()",
		"UPDATE sched.queue SET strategy = strategy, rate = NULL",
		"UPDATE sched.river_queue SET updated_at = now(), paused_at = paused_at",
		"UPDATE sched.setting SET value = value, description = 'other'",
		"UPDATE sched.kind SET rate = NULL",
		"UPDATE sched.canary SET workers = 2",
		"UPDATE sched.canary SET percent = 15, step_at = now() + interval '1 s', reason = 'good'",
		"UPDATE sched.canary SET percent = 100, state = 'full', step_at = now() + interval '2 s', reason = 'good' WHERE queue = 'q'",
		"UPDATE sched.canary SET percent = 0, state = 'rolled_back', step_at = now() + interval '3 s', reason = 'bad' WHERE queue = 'bad'",
		"INSERT INTO sched.flow (scope, name, paused_until) VALUES ('kind', 'k', now() + interval '1 hour')",
		"DELETE FROM sched.river_queue",
	} {
		exec(t, pool, sql)
		require.Empty(t, actions(t, pool), sql)
	}
}

// Columns that a migration adds are configuration, and then logged, or state.
func TestEveryColumnIsLoggedOrState(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for table, state := range map[string]string{
		"setting": "key description updated_at updated_by",
		"kind":    "kind updated_at updated_by",
		"queue":   "name base selector protocol created_at pressure pressure_reason pending load workers weight_total free_slots wake direct unroutable state_at config_xid",
		"canary":  "queue step_at reason workers",
	} {
		logged := strings.Split(one[string](t, pool, `SELECT split_part(encode(tgargs, 'escape'), '\000', 3) FROM pg_trigger
			WHERE tgrelid = ('sched.' || $1)::regclass AND tgname = $1 || '_operator_update'`, table), ",")
		require.ElementsMatch(t, logged, all[string](t, pool, `SELECT a.attname::text FROM pg_trigger t, unnest(t.tgattr::int2[]) AS n, pg_attribute a
			WHERE t.tgrelid = ('sched.' || $1)::regclass AND tgname = $1 || '_operator_update' AND a.attrelid = t.tgrelid AND a.attnum = n`, table))
		require.ElementsMatch(t, slices.Concat(logged, strings.Fields(state)), all[string](t, pool, `SELECT attname::text FROM pg_attribute
			WHERE attrelid = ('sched.' || $1)::regclass AND attnum > 0 AND NOT attisdropped`, table), table)
	}
}

func TestWhatIsDoneToTasksAndWorkersIsLogged(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for range 3 {
		exec(t, pool, "SELECT sched.enqueue('mail')")
	}
	exec(t, pool, "INSERT INTO sched.worker (id, client_id, state) VALUES ('w', 'c', 'active')")
	exec(t, pool, "SELECT sched.cancel(1)")
	exec(t, pool, "SELECT sched.cancel(1)") // nothing more to do
	exec(t, pool, "SELECT sched.retry(1)")
	exec(t, pool, "SELECT sched.retry(1)")
	exec(t, pool, "SELECT sched.drain_worker('w')")
	exec(t, pool, "SELECT sched.drain_worker('w')")
	require.Equal(t, []string{
		`cancel task 1 {"status": "available"} ->`,
		`retry task 1 {"status": "cancelled"} ->`,
		`drain worker w {"state": "active"} -> {"state": "draining"}`,
	}, actions(t, pool))

	// A statement that does it to many leaves one row, and what a savepoint undid is not in it.
	exec(t, pool, "DELETE FROM sched.operator_action")
	conn := connect(t, pool, "")
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, "SELECT sched.cancel(id) FROM generate_series(1, 3) AS id")
	exec(t, tx, "SELECT sched.retry(2)")
	exec(t, tx, "SAVEPOINT s")
	exec(t, tx, "SELECT sched.retry(id) FROM unnest('{1,3}'::bigint[]) AS id")
	exec(t, tx, "ROLLBACK TO s")
	exec(t, tx, "SELECT sched.retry(3)")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, []string{
		`cancel task 1 {"status": "available"} ->`,
		`cancel task 2 {"status": "available"} ->`,
		`cancel task 3 {"status": "available"} ->`,
		`retry task 2 {"status": "cancelled"} ->`,
		`retry task 3 {"status": "cancelled"} ->`,
	}, actions(t, pool))
}

func TestEachTaskLeavesItsRow(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "SELECT sched.enqueue_many((SELECT jsonb_agg('{\"kind\": \"mail\"}'::jsonb) FROM generate_series(1, 5000)))")
	exec(t, pool, "SELECT sched.cancel(id) FROM sched.task")
	require.Equal(t, int64(5000), one[int64](t, pool, `SELECT count(*) FROM sched.operator_action AS a JOIN sched.task AS t ON t.id::text = a.object
		WHERE a.object_type = 'task' AND a.action = 'cancel' AND a.before ->> 'status' = 'available' AND t.status = 'cancelled'`))
	require.Equal(t, int64(5000), one[int64](t, pool, "SELECT count(*) FROM sched.operator_action"))
}

// Whoever may change a row leaves a trace, and needs no right to the log for it.
func TestALogNeedsNoRights(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	role := newRole(t, pool, "")
	exec(t, pool, "GRANT USAGE ON SCHEMA sched TO "+role)
	exec(t, pool, "GRANT SELECT, UPDATE ON sched.setting TO "+role)
	exec(t, pool, "GRANT EXECUTE ON FUNCTION sched.enqueue, sched.cancel TO "+role)
	conn := connect(t, pool, role)
	exec(t, conn, "SET application_name = 'psql'")
	exec(t, conn, "UPDATE sched.setting SET value = 'false' WHERE key = 'notify'")
	exec(t, conn, "SELECT sched.cancel(sched.enqueue('a'))")
	require.Equal(t, []string{"update " + role + " psql", "cancel " + role + " psql"},
		all[string](t, pool, "SELECT concat_ws(' ', action, db_user, application_name) FROM sched.operator_action ORDER BY id"))
	for _, sql := range []string{"SELECT FROM sched.operator_action", "SELECT sched.operator_change()"} {
		_, err := conn.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "permission denied")
	}
}

// heard returns the channels and payloads that a statement notifies.
func heard(t *testing.T, pool *pgxpool.Pool, listener *pgx.Conn, sql string) []string {
	t.Helper()
	exec(t, pool, sql)
	exec(t, pool, "SELECT pg_notify('sched.config', 'end')")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var list []string
	for {
		n, err := listener.WaitForNotification(ctx)
		require.NoError(t, err)
		if n.Payload == "end" {
			return list
		}
		list = append(list, n.Payload)
	}
}

func TestConfigurationIsNotified(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	listener := connect(t, pool, "")
	exec(t, listener, `LISTEN "sched.config"`)
	exec(t, pool, "SELECT sched.enqueue('a', queue => q) FROM unnest('{x,y,z}'::text[]) AS q")
	exec(t, pool, "INSERT INTO sched.canary (queue, state, percent) VALUES ('q', 'rising', 5)")
	for _, step := range []struct{ sql, want string }{
		{"SELECT 1", "canary"},
		{"UPDATE sched.setting SET value = '8200' WHERE key LIKE 'max_%'", "setting"},
		{"INSERT INTO sched.kind (kind, rate) VALUES ('a', 1), ('b', 2)", "kind"},
		{"UPDATE sched.queue SET max_running = 1", "queue"},
		{"UPDATE sched.river_queue SET paused_at = now()", "river_queue"},
		{"UPDATE sched.canary SET percent = 15, step_at = now() + interval '1 s'", "canary"},
		{"UPDATE sched.canary SET workers = 1", "canary"},
		{"UPDATE sched.canary SET workers = 2", ""},
		{"INSERT INTO sched.flow (scope, name) VALUES ('kind', 'a')", ""},
		{"UPDATE sched.flow SET tokens = 3", ""},
		{"UPDATE sched.flow SET paused_until = now() + interval '1 h'", "flow"},
		{"UPDATE sched.queue SET pressure = 'red', pending = 5", ""},
		{"SELECT sched.enqueue('a', queue => 'another')", ""},
	} {
		var want []string
		if step.want != "" {
			want = []string{step.want}
		}
		require.Equal(t, want, heard(t, pool, listener, step.sql), fmt.Sprint(step.sql))
	}
}
