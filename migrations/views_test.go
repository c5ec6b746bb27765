package migrations_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestTaskView(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	conn := connect(t, pool, "")
	exec(t, conn, "SET application_name = 'shop'")
	id := one[int64](t, conn, `SELECT sched.enqueue('mail', '{"to": "a"}', 'q', 2, NULL, '{"gpu": "a"}', 'http', 'k', 3, '90 seconds', 'b', '{"h": "v"}')`)
	exec(t, pool, "UPDATE sched.river_job SET metadata = metadata || '{\"sched:lost\": 1, \"snoozes\": 2}'")
	type row struct {
		Kind, Args, Selector, Protocol, Batch, UniqueKey, Headers, By, App string
		Priority, MaxAttempts, Lost, Snoozes                               int
		Timeout                                                            time.Duration
	}
	require.Equal(t, []row{{
		"mail", `{"to": "a"}`, `{"gpu": "a"}`, "http", "b", "k", `{"h": "v"}`, one[string](t, conn, "SELECT session_user::text"), "shop", 2, 3, 1, 2,
		90 * time.Second,
	}}, rowsOf[row](t, pool, `SELECT kind, args::text, selector::text, protocol, batch, unique_key, headers::text, enqueued_by, enqueued_app,
		priority, max_attempts, lost, snoozes, timeout FROM sched.task WHERE id = $1`, id))
	require.Equal(t, "river_job_state", one[string](t, pool, `SELECT t.typname::text FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
		WHERE a.attrelid = 'sched.task'::regclass AND a.attname = 'status'`), "an index serves only the type it is on")
}

// Any River client may write any metadata: one odd task must not break a view.
func TestViewsBearOddMetadata(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, value := range []string{"null", `"x"`, "-1", "1e300", "1.5", "[]", "{}", "true", `{"user": {"a": 1}, "app": []}`} {
		exec(t, pool, `INSERT INTO sched.river_job (kind, args, max_attempts, metadata) SELECT 'odd', 'null', 1, jsonb_object_agg(key, $1::jsonb)
			FROM unnest('{sched:selector,sched:protocol,sched:timeout_ms,sched:batch,sched:headers,sched:key,sched:by,sched:lost,snoozes,output}'::text[]) AS key`, value)
	}
	for _, metadata := range []string{"[]", "7", "null", `"x"`} {
		exec(t, pool, `INSERT INTO sched.river_job (kind, args, max_attempts, metadata, attempted_at, attempted_by, errors)
			VALUES ('odd', 'null', 1, $1, now(), '{}', ARRAY['7'::jsonb])`, metadata)
	}
	exec(t, pool, "CREATE TEMP TABLE t AS SELECT * FROM sched.task")
	exec(t, pool, "CREATE TEMP TABLE a AS SELECT * FROM sched.attempt")
	exec(t, pool, "CREATE TEMP TABLE b AS SELECT * FROM sched.batch")
	exec(t, pool, "SELECT * FROM sched.discover_queues()")
}

func TestBatchView(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `SELECT sched.enqueue_many((SELECT jsonb_agg('{"kind": "a", "batch": "night"}'::jsonb) FROM generate_series(1, 10)))`)
	exec(t, pool, "SELECT sched.enqueue('a', batch => 'other'), sched.enqueue('a')")
	for i, state := range []string{"available", "scheduled", "running", "retryable", "pending", "completed", "cancelled", "discarded"} {
		exec(t, pool, `UPDATE sched.river_job SET state = $2::text::sched.river_job_state, finalized_at = CASE WHEN $2::text IN ('completed', 'cancelled', 'discarded') THEN now() END
			WHERE id = (SELECT min(id) + $1 FROM sched.river_job)`, i, state)
	}
	type row struct {
		Total, Available, Scheduled, Running, Retryable, Pending, Completed, Cancelled, Discarded, Finished int
		Progress                                                                                            float32
		Created, Ended                                                                                      bool
	}
	require.Equal(t, []row{{10, 3, 1, 1, 1, 1, 1, 1, 1, 3, 0.3, true, true}}, rowsOf[row](t, pool, `
		SELECT total, available, scheduled, running, retryable, pending, completed, cancelled, discarded, finished, progress,
			first_created IS NOT NULL, last_ended IS NOT NULL
		FROM sched.batch WHERE batch = 'night'`))
	require.Equal(t, 2, one[int](t, pool, "SELECT count(*)::int FROM sched.batch"))
}
