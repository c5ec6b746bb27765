package migrations_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func explain(t *testing.T, db querier, id int64) string {
	t.Helper()
	return strings.Join(all[string](t, db, "SELECT sched.explain($1)", id), "\n")
}

// explained is a task and the workers that might run it.
type explained struct {
	t    *testing.T
	pool *pgxpool.Pool
	id   int64
}

func explainedTask(t *testing.T, call string) explained {
	t.Helper()
	pool := pgtest.New(t)
	return explained{t, pool, one[int64](t, pool, "SELECT sched.enqueue("+call+")")}
}

func (e explained) exec(sql string, args ...any) {
	e.t.Helper()
	exec(e.t, e.pool, sql, args...)
}

func (e explained) worker(id, columns, values string) {
	e.t.Helper()
	if columns != "" {
		columns, values = ", "+columns, ", "+values
	}
	e.exec("INSERT INTO sched.worker (id, client_id, hostname, app_url, state, slots" + columns + ") VALUES ('" + id + "', 'c', 'host-of-" + id + "', 'http://app:80', 'active', 5" + values + ")")
}

func (e explained) says(parts ...string) {
	e.t.Helper()
	text := explain(e.t, e.pool, e.id)
	for _, part := range parts {
		require.Contains(e.t, text, part)
	}
}

func (e explained) saysNot(parts ...string) {
	e.t.Helper()
	text := explain(e.t, e.pool, e.id)
	for _, part := range parts {
		require.NotContains(e.t, text, part)
	}
}

func TestExplainWhyATaskWaits(t *testing.T) {
	t.Parallel()
	e := explainedTask(t, `'mail', queue => 'bulk', selector => '{"gpu": "a", "zone": "x"}', protocol => 'grpc'`)
	e.says("Task 1 of kind mail is available (queue bulk|", "priority 1", "It waits for a worker, since 2", "No sidecar is running", "It was enqueued at", "by "+one[string](t, e.pool, "SELECT session_user::text"))

	e.worker("w-done", "labels, protocols", `'{"gpu": "a", "zone": "x"}', '{grpc}'`)
	e.exec("UPDATE sched.worker SET state = 'evicted'")
	e.says("No sidecar is running")
	e.worker("w-one", "labels, queues, kinds", `'{"gpu": "b", "zone": "x"}', '{other}', '{else}'`)
	e.says("Live workers: 1. None of them serves it.", "No live worker carries the label gpu=a.", "No live worker speaks grpc.",
		"No live worker is configured to serve queue bulk.", "No live worker is configured to claim kind mail.",
		"Worker w-one on host-of-w-one lacks label gpu=a, protocol grpc, queue bulk in its configuration, kind mail in its configuration.")
	e.saysNot("label zone", "w-done")

	e.worker("w-two", "labels, protocols", `'{"gpu": "a"}', '{http,grpc}'`)
	e.says("Live workers: 2.", "Worker w-two on host-of-w-two lacks label zone=x.")
	e.saysNot("No live worker")

	e.worker("w-three", "labels, protocols, running", `'{"gpu": "a", "zone": "x", "more": "y"}', '{grpc}', 5`)
	e.says("Every worker that serves it is full: w-three runs 5 of 5.")
	e.saysNot("lacks")
	e.exec("UPDATE sched.worker SET running = 3 WHERE id = 'w-three'")
	e.says("Live workers that serve it: 1, with 2 free slots.", "Tasks of its queue that start before it: 0.")

	e.exec("UPDATE sched.worker SET holds = '{app down}' WHERE id = 'w-three'")
	e.says("Worker w-three on host-of-w-three, beside http://app:80, claims nothing now: app down.")
	e.saysNot("free slots")
	e.exec("UPDATE sched.worker SET holds = '{}' WHERE id = 'w-three'")

	e.exec("UPDATE sched.worker SET skipped_kinds = '{mail}' WHERE id = 'w-three'")
	e.says("The app of worker w-three (http://app:80) lacks kind mail")
	e.exec("UPDATE sched.worker SET heartbeat_at = now() - interval '1 hour' WHERE id = 'w-three'")
	e.says("None of them serves it.", "Worker w-three on host-of-w-three has not been heard of since")
	e.exec("UPDATE sched.worker SET state = 'draining'  WHERE state = 'active'")
	e.says("No sidecar is running", "Workers that are draining, and claim nothing more: 3.")
	e.exec("UPDATE sched.river_queue SET paused_at = now()")
	e.says("is paused since")
}

func TestExplainCountsWhatIsAhead(t *testing.T) {
	t.Parallel()
	e := explainedTask(t, "'mail', priority => 2")
	e.exec("SELECT sched.enqueue('mail', priority => p) FROM unnest('{1,1,2,3}'::int[]) AS p")
	e.exec("SELECT sched.enqueue('mail', queue => 'other')")
	e.says("start before it: 2.")
	e.exec("SELECT sched.enqueue_many((SELECT jsonb_agg('{\"kind\": \"mail\"}'::jsonb) FROM generate_series(1, 10050)))")
	e.says("start before it: 10000 or more.")
}

func TestExplainTimedTasks(t *testing.T) {
	t.Parallel()
	e := explainedTask(t, "'mail', run_at => '2100-01-01T00:00:00Z'")
	e.says("is scheduled", "It is scheduled for 2100-01-01 00:00:00.000+00 (in ")
	e.saysNot("No sidecar")
	e.exec("UPDATE sched.river_job SET scheduled_at = now() - interval '1 minute'")
	e.says("It is due", "No sidecar is running")
	e.exec("UPDATE sched.river_job SET state = 'retryable', scheduled_at = now() + interval '1 hour'")
	e.says("is retryable", "Its next attempt is at")
	e.exec("UPDATE sched.river_job SET state = 'pending'")
	e.says("A River client holds it back")
	e.exec("UPDATE sched.river_job SET state = 'available', scheduled_at = 'infinity'")
	e.says("infinity")
}

func TestExplainRunning(t *testing.T) {
	t.Parallel()
	e := explainedTask(t, "'mail', timeout => '1 minute', max_attempts => 3")
	claim(t, e.pool, e.id, "w-one")
	e.says("Attempt 1 of 3 runs since", "on worker w-one.", "It may take until", "That worker is not in sched.worker")
	e.worker("w-one", "", "")
	e.says("on worker w-one (host host-of-w-one, app http://app:80).")
	e.saysNot("That worker", "cancellation")
	require.Equal(t, "running", one[string](t, e.pool, "SELECT sched.cancel($1)", e.id))
	e.says("Its cancellation was asked for at")
	e.exec("UPDATE sched.worker SET heartbeat_at = now() - interval '1 hour'")
	e.says("That worker has not been heard of since")
	e.exec("UPDATE sched.worker SET state = 'evicted', ended_at = now()")
	e.says("That worker is evicted since")
}

func TestExplainWhatBecameOfATask(t *testing.T) {
	t.Parallel()
	e := explainedTask(t, "'mail', max_attempts => 2")
	e.worker("w-one", "", "")
	began := time.Now().Add(-time.Hour)
	e.exec(`INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
		SELECT $1, 1, w, $2::timestamptz + n * interval '1 minute', $2::timestamptz + n * interval '1 minute' + interval '1500 ms', o, e
		FROM (VALUES (1, 'w-one', 'handback', NULL), (2, 'w-one', 'snooze', NULL), (3, 'w-gone', 'rescued', NULL), (4, 'w-one', 'retry', E'no route\n\tto host')) AS v (n, w, o, e)`,
		e.id, began)
	claim(t, e.pool, e.id, "w-one")
	e.exec("UPDATE sched.river_job SET attempt = 2")
	e.says("Attempt 1 began at", "on worker w-one (host host-of-w-one) and was given back unspent after 1.500 s.", "was put off by the app after",
		"on worker w-gone and was lost with its worker", "failed after 1.500 s: no route to host")
	text := explain(t, e.pool, e.id)
	require.Less(t, strings.Index(text, "given back"), strings.Index(text, "no route"), "in the order of their beginning")
	require.NotContains(t, text, "Attempt 2 began", "it has not ended")

	e.exec("UPDATE sched.river_job SET state = 'completed', finalized_at = clock_timestamp()")
	e.says("is completed", "It completed at", "in attempt 2.", "Attempt 2 began at", "and completed after")
	e.exec(`UPDATE sched.river_job SET state = 'discarded', errors = ARRAY['{"attempt": 2, "error": "boom"}'::jsonb]`)
	e.says("It was discarded at", "after 2 of 2 attempts: boom", "failed for good after")
	e.exec("UPDATE sched.river_job SET state = 'cancelled'")
	e.says("It was cancelled at", "by its app: boom", "was cancelled after")

	e.exec(`INSERT INTO sched.attempt_log (task_id, attempt, started_at, outcome) SELECT $1, 1, to_timestamp(g), 'snooze' FROM generate_series(1, 30) AS g`, e.id)
	e.says("Earlier attempts that are not listed here: 15")
	require.Equal(t, 20, strings.Count(explain(t, e.pool, e.id), "began at"))
}

func TestExplainCancelled(t *testing.T) {
	t.Parallel()
	e := explainedTask(t, "'mail'")
	exec(t, e.pool, "SELECT sched.cancel($1)", e.id)
	e.says("It was cancelled at", "as was asked for at 2")
}

func TestExplainUnknown(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.Contains(t, refused(t, pool, "SC404", "SELECT sched.explain(7)").Message, "no task 7")
	refused(t, pool, "SC404", "SELECT sched.explain(NULL)")
}

// A River client may have written anything.
func TestExplainBearsOddTasks(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "INSERT INTO sched.worker (id, client_id, state) VALUES ('w-one', 'c', 'active')")
	for _, value := range []string{"null", `"x"`, "-1", "[]", `{"a": 1}`, `{"a": null}`} {
		exec(t, pool, `INSERT INTO sched.river_job (kind, args, max_attempts, queue, metadata) SELECT 'odd', 'null', 1, 'odd', jsonb_object_agg(key, $1::jsonb)
			FROM unnest('{sched:selector,sched:protocol,sched:timeout_ms,sched:by,sched:lost,snoozes,cancel_attempted_at}'::text[]) AS key`, value)
	}
	for _, state := range []string{"available", "running", "cancelled", "discarded", "completed", "scheduled"} {
		exec(t, pool, `UPDATE sched.river_job SET state = $1::text::sched.river_job_state,
			finalized_at = CASE WHEN $1::text IN ('completed', 'cancelled', 'discarded') THEN now() END`, state)
		require.NotEmpty(t, all[string](t, pool, "SELECT sched.explain(id) FROM sched.river_job"), state)
		require.Zero(t, one[int](t, pool, "SELECT count(*)::int FROM sched.river_job AS j, sched.explain(j.id) AS line WHERE line IS NULL"), state)
	}
}

// leads makes the leader's word count.
func (e explained) leads() {
	e.t.Helper()
	e.exec("UPDATE sched.fleet SET computed_at = clock_timestamp() + interval '1 hour', leader = 'w-lead'")
}

func TestExplainLimits(t *testing.T) {
	t.Parallel()
	e := explainedTask(t, "'mail', queue => 'bulk'")
	e.worker("w-one", "", "")
	e.saysNot("may", "tokens")

	e.exec("UPDATE sched.queue SET max_running = 2, rate = 10, burst = 4")
	e.exec("INSERT INTO sched.kind (kind, rate) VALUES ('mail', 3)")
	e.says("Queue bulk may run 2 at once in the whole fleet (max_running), and runs 0.",
		"Queue bulk may be claimed 10 times a second in the whole fleet; nothing has been claimed under that limit yet.",
		"Kind mail may be claimed 3 times a second in the whole fleet; nothing")

	e.exec("SELECT sched.enqueue('mail', queue => 'bulk') FROM generate_series(1, 3)")
	e.exec("UPDATE sched.river_job SET state = 'running', attempted_at = now(), attempted_by = '{w-one}' WHERE id IN (2, 3)")
	// Far in the future nothing is filled up meanwhile: the tokens are what the row says, at a third of the rate.
	e.exec(`INSERT INTO sched.flow (scope, name, tokens, refilled_at, warm_from) VALUES
		('queue', 'bulk', 0.5, now() + interval '1 hour', now() + interval '1 hour'), ('kind', 'mail', 2, now() + interval '1 hour', now() + interval '1 hour' - interval '30 s')`)
	e.says("and runs 2: nothing more of it starts until one ends.",
		"Queue bulk may be claimed 10 times a second in the whole fleet (now 3.33): 0.50 tokens are there, so its turn is in about 0.15 s.",
		"Kind mail may be claimed 3 times a second in the whole fleet: 1.30 tokens are there, so it need not wait for one.")
}

func TestExplainPauseAndDoor(t *testing.T) {
	t.Parallel()
	e := explainedTask(t, "'mail', queue => 'bulk'")
	e.exec("INSERT INTO sched.flow (scope, name, paused_until, pause_reason, paused_by) VALUES ('kind', 'mail', now() + interval '1 hour', 'HTTP 429', 'w-one')")
	e.says("Kind mail is paused until 2", "(in 00:59:5", ": HTTP 429 (worker w-one).")
	e.exec("UPDATE sched.flow SET paused_until = now() - interval '1 second'")
	e.saysNot("is paused")

	e.exec("UPDATE sched.queue SET pressure = 'red', pressure_reason = '990 of 1000 pending', admission = 'delay'")
	e.saysNot("Pressure")
	e.leads()
	e.says("Pressure of queue bulk is red (990 of 1000 pending); new tasks are made due later.")
	e.exec("UPDATE sched.queue SET admission = 'reject'")
	e.says("new tasks are refused.")
	e.exec("UPDATE sched.queue SET admission = 'delay'")
	e.id = one[int64](t, e.pool, "SELECT sched.enqueue('mail', queue => 'bulk')")
	e.says("is scheduled (queue bulk", "The door of its queue made it due later: by 2.000 s, since pressure was red (990 of 1000 pending).")
	e.id = one[int64](t, e.pool, "SELECT sched.enqueue('mail', queue => 'bulk', run_at => now() + interval '1 hour')")
	e.saysNot("made it due later")
}

func TestExplainRouting(t *testing.T) {
	t.Parallel()
	e := explainedTask(t, `'mail', queue => 'bulk', selector => '{"gpu": "a"}'`)
	name := one[string](t, e.pool, "SELECT name FROM sched.queue")
	e.worker("w-one", "labels, health, load_percent", `'{"gpu": "a", "zone": "x"}', 'overloaded', 93.4`)
	e.says("No sidecar leads: each serves what its labels allow.", "Worker w-one on host-of-w-one is overloaded (load 93 %): it claims nothing until that is over.")
	e.saysNot("Live workers that serve it")
	e.exec("UPDATE sched.worker SET health = 'strained'")
	e.says("Live workers that serve it: 1, with 5 free slots.")
	e.leads()
	e.saysNot("No sidecar leads", "Assigned")
	e.exec("INSERT INTO sched.assignment (queue, worker_id, weight, reason, version) SELECT $1, 'w-' || n, n, 'labels match', 7 FROM generate_series(1, 6) AS n", name)
	e.says("Assigned to its queue (strategy least_loaded): w-6 (weight 6: labels match), w-5 (", "and 1 more.")

	e.exec("UPDATE sched.river_job SET state = 'running', attempt = 1, attempted_at = now(), attempted_by = '{w-one}'")
	e.says("Worker w-one has the labels gpu=a, zone=x; its queue asks for gpu=a.", "It is not assigned to the queue now.", "It is strained now: load 93 %.")
	e.exec("INSERT INTO sched.assignment (queue, worker_id, weight, reason, version) VALUES ($1, 'w-one', 9, 'labels match gpu=a; 9 slots', 12)", name)
	e.says("It is assigned to the queue (strategy least_loaded) with weight 9 of 30 since", "topology version 12: labels match gpu=a; 9 slots.")
	e.exec("UPDATE sched.river_job SET state = 'completed', finalized_at = now()")
	e.says("It completed at", "Worker w-one has the labels", "with weight 9 of 30")
}

func TestExplainCanary(t *testing.T) {
	t.Parallel()
	e := explainedTask(t, "'mail', queue => 'bulk'")
	e.worker("w-one", "", "")
	e.leads()
	e.exec("INSERT INTO sched.canary (queue, percent, state) VALUES ('bulk', 100, 'held')")
	e.says("Its queue has a canary of 100 %, but no canary worker is assigned: the others claim all of it.")
	e.exec("UPDATE sched.canary SET workers = 1")
	e.says("It is the canary's (its place is ", ", below 100 %): workers with the label track=canary alone claim it.")
	e.exec("UPDATE sched.canary SET percent = sched.canary_share($1)", e.id)
	e.says("It is not the canary's (its place is ")
}
