package postgres_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireSQLAPI goes through the SQL API, as an app and an operator use it.
func requireSQLAPI(t *testing.T, db database) {
	t.Helper()
	// A task exists when its transaction commits, and never if that rolls back.
	tx, err := db.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	undone := one[int64](t, tx, "SELECT sched.enqueue('api.undone')")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Zero(t, one[int](t, db, "SELECT count(*) FROM sched.task WHERE id = $1", undone))

	id := one[int64](t, db, `SELECT sched.enqueue('api.full', $1::jsonb, queue => 'api', priority => 2, run_at => now() + interval '1 hour',
		selector => '{"gpu": "a100", "zone": "eu"}', protocol => 'http', unique_key => 'order-1', max_attempts => 3,
		timeout => '90 seconds', batch => 'api', headers => '{"x-tenant": "acme"}')`, `{"text": "grüße", "n": [1, 2, {"deep": null}]}`)
	require.Equal(t, id, one[int64](t, db, "SELECT sched.enqueue('api.full', unique_key => 'order-1')"), "one unfinished task for each unique key")
	require.Equal(t, "grüße", one[string](t, db, "SELECT args ->> 'text' FROM sched.task WHERE id = $1", id))
	require.Equal(t, "scheduled", statusOf(t, db, id))
	require.True(t, one[bool](t, db, `SELECT queue LIKE 'api|%' AND priority = 2 AND max_attempts = 3 AND timeout = '90 s' AND batch = 'api'
		AND selector = '{"gpu": "a100", "zone": "eu"}' AND headers = '{"x-tenant": "acme"}' AND enqueued_by = session_user FROM sched.task WHERE id = $1`, id))

	ids := all[int64](t, db, `SELECT sched.enqueue_many((SELECT jsonb_agg(jsonb_build_object('kind', 'api.many', 'queue', 'api', 'batch', 'api', 'args',
		jsonb_build_object('n', n))) FROM generate_series(1, 500) AS n))`)
	require.Len(t, ids, 500)
	require.Equal(t, "500", one[string](t, db, "SELECT args ->> 'n' FROM sched.task WHERE id = $1", ids[499]), "ids come in order")
	require.Equal(t, 501, one[int](t, db, "SELECT total FROM sched.batch WHERE batch = 'api'"))

	require.Equal(t, "cancelled", one[string](t, db, "SELECT sched.cancel($1)", id))
	require.Equal(t, "available", one[string](t, db, "SELECT sched.retry($1)", id))
	require.Equal(t, "cancelled", one[string](t, db, "SELECT sched.cancel($1)", id))
	require.Len(t, all[string](t, db, "SELECT sched.cancel(id) FROM unnest($1::bigint[]) AS id", ids), 500)
	requireCode(t, db, "SC404", "SELECT sched.cancel(-1)")
	requireCode(t, db, "SC409", "SELECT sched.complete($1, 'w-nobody.1')", id)
	requireCode(t, db, "22023", "SELECT sched.enqueue('no spaces here')")
	requireCode(t, db, "22023", "SELECT sched.enqueue('k', priority => 9)")
}

// requireSidecars has sidecars work what an app and an operator may ask for:
// success with an output, retries, a time to run at, a cancel while it runs, the
// app's own completing transaction, and the death of a sidecar.
//
// dsn is the sidecars' way to the database, db the app's and the operator's.
func requireSidecars(t *testing.T, db database, dsn string, set settings) {
	t.Helper()
	set = quick().plus(set)
	a := newApp(t, nil)
	a.handle = func(c *call) (int, string) {
		switch c.kind {
		case "fails":
			if c.attempt < 3 {
				return http.StatusInternalServerError, ""
			}
		case "endless":
			<-c.ctx.Done()
		case "deadly":
			if len(a.callsOf(c.id)) == 1 {
				<-c.ctx.Done()
			}
		case "once":
			return completeInTransaction(c, db)
		}
		return http.StatusOK, `{"by": "the app"}`
	}
	// The first leads, so that the others can be killed without an election.
	leader := startSidecar(t, dsn, a.url, set.plus(settings{setQueues: "default"}))

	done, failing, endless, once := enqueue(t, db, "plain"), enqueue(t, db, "fails"), enqueue(t, db, "endless"), enqueue(t, db, "once")
	var due time.Time
	var later int64
	require.NoError(t, db.QueryRow(t.Context(), "SELECT t, sched.enqueue('later', run_at => t) FROM (SELECT clock_timestamp() + interval '1.5 s' AS t) AS x").Scan(&due, &later))

	awaitStatus(t, db, done, "completed", soon)
	require.Equal(t, "the app", one[string](t, db, "SELECT output ->> 'by' FROM sched.task WHERE id = $1", done))
	awaitStatus(t, db, failing, "completed", leaderless)
	// A sidecar that loses sight of a slow Postgres hands tasks back, which spends nothing.
	require.Equal(t, []string{"retry", "retry", "completed"},
		all[string](t, db, "SELECT outcome::text FROM sched.attempt WHERE task_id = $1 AND outcome <> 'handback' ORDER BY start_time", failing))
	a.await(t, endless, 1, soon)
	require.Equal(t, "running", one[string](t, db, "SELECT sched.cancel($1)", endless))
	awaitStatus(t, db, endless, "cancelled", soon)
	awaitStatus(t, db, once, "completed", soon)
	require.Equal(t, 1, one[int](t, db, "SELECT count(*) FROM effect WHERE task_id = $1", once))
	// The leader has to be elected before it promotes.
	awaitStatus(t, db, later, "completed", leaderless)
	require.False(t, one[bool](t, db, "SELECT start_time < $2 FROM sched.task WHERE id = $1", later, due), "it began before its time")

	leader.awaitMetric(t, "sched_leading", 1, leaderless)
	doomed := startSidecar(t, dsn, a.url, set.plus(settings{setQueues: "deadly"}))
	deadly := one[int64](t, db, "SELECT sched.enqueue('deadly', queue => 'deadly')")
	victim := a.await(t, deadly, 1, soon).worker()
	doomed.kill()
	startSidecar(t, dsn, a.url, set.plus(settings{setQueues: "deadly"}))
	awaitStatus(t, db, deadly, "completed", evictAfter+soon)
	require.Equal(t, "evicted", one[string](t, db, "SELECT state FROM sched.worker WHERE id = $1", victim))
	require.Equal(t, 1, one[int](t, db, "SELECT lost FROM sched.task WHERE id = $1", deadly))
	require.Len(t, a.callsOf(deadly), 2)
}

// createEffects makes the table for completeInTransaction.
func createEffects(t *testing.T, db database) {
	t.Helper()
	execute(t, db, "CREATE TABLE effect (task_id bigint NOT NULL)")
}

// completeInTransaction is a handler whose effect and whose task's end are one
// transaction.
func completeInTransaction(c *call, db database) (int, string) {
	tx, err := db.Begin(c.ctx)
	if err != nil {
		return http.StatusInternalServerError, ""
	}
	defer tx.Rollback(context.WithoutCancel(c.ctx))
	if _, err = tx.Exec(c.ctx, "INSERT INTO effect (task_id) VALUES ($1)", c.id); err == nil {
		_, err = tx.Exec(c.ctx, "SELECT sched.complete($1, $2)", c.id, c.lease)
	}
	if err == nil {
		err = tx.Commit(c.ctx)
	}
	if err != nil {
		return http.StatusInternalServerError, ""
	}
	return http.StatusNoContent, ""
}
