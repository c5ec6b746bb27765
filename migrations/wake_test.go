package migrations_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestFirstUseOfAQueueWaitsForNobody(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	first := begin(t, connect(t, pool, ""))
	exec(t, first, "SELECT sched.enqueue('mail', queue => 'fresh')")

	second := connect(t, pool, "")
	exec(t, second, "SET lock_timeout = '5s'")
	exec(t, second, "SELECT sched.enqueue('mail', queue => 'fresh')")
	exec(t, second, `SELECT sched.enqueue_many('[{"kind": "mail", "queue": "fresh"}]')`)
	require.Empty(t, all[string](t, second, "SELECT name FROM sched.queue"))
	require.Equal(t, []bool{false}, all[bool](t, second, "SELECT added FROM sched.discover_queues()"), "found, but not made yet")
	require.NoError(t, first.Rollback(t.Context()))
	require.Equal(t, []bool{true}, all[bool](t, second, "SELECT added FROM sched.discover_queues()"))
	require.Equal(t, []string{"fresh"}, all[string](t, second, "SELECT name FROM sched.queue"))
}

func TestManyNewQueuesDoNotFillTheLockTable(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tx := begin(t, connect(t, pool, ""))
	exec(t, tx, "SELECT sched.enqueue('a', selector => jsonb_build_object('n', i::text)) FROM generate_series(1, 2000) i")
	require.LessOrEqual(t, one[int](t, tx, "SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"), 256)
	require.Equal(t, 2000, one[int](t, tx, "SELECT count(*)::int FROM sched.queue"))
}

func TestNotifications(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	listener := connect(t, pool, "")
	for _, channel := range []string{"sched.river_insert", "sched.due", "sched.river_control"} {
		exec(t, listener, `LISTEN "`+channel+`"`)
	}
	// Notifications arrive in order, so one of our own ends the list.
	heard := func() (list []string) {
		t.Helper()
		exec(t, pool, `SELECT pg_notify('sched.due', 'end')`)
		for {
			n, err := listener.WaitForNotification(t.Context())
			require.NoError(t, err)
			if n.Payload == "end" {
				return list
			}
			list = append(list, n.Channel+" "+n.Payload)
		}
	}
	exec(t, pool, "SELECT sched.enqueue('a'), sched.enqueue('b')")
	require.Equal(t, []string{`sched.river_insert {"queue":"default"}`}, heard(), "one for each queue in a transaction")
	exec(t, pool, `SELECT sched.enqueue_many('[{"kind": "a"}, {"kind": "b", "queue": "q"}, {"kind": "c"}]')`)
	require.ElementsMatch(t, []string{`sched.river_insert {"queue":"default"}`, `sched.river_insert {"queue":"q"}`}, heard())
	exec(t, pool, "SELECT sched.enqueue('a', run_at => clock_timestamp() + interval '1 hour')")
	require.Empty(t, heard())

	for _, call := range []string{
		"SELECT sched.enqueue('due', run_at => $1)",
		"SELECT sched.enqueue_many(jsonb_build_array(jsonb_build_object('kind', 'due', 'run_at', $1::timestamptz), jsonb_build_object('kind', 'due', 'run_at', $1 + interval '1 day')))",
	} {
		at := time.Now().Add(1900 * time.Millisecond)
		exec(t, pool, call, at)
		list := heard()
		require.Len(t, list, 1)
		due, err := strconv.ParseInt(strings.TrimPrefix(list[0], "sched.due "), 10, 64)
		require.NoError(t, err)
		require.InDelta(t, at.UnixMilli(), due, 1)
		require.GreaterOrEqual(t, due, at.UnixMilli(), "not before the task is due")
	}

	id := one[int64](t, pool, "SELECT sched.enqueue('a', unique_key => 'k')")
	require.Len(t, heard(), 1)
	exec(t, pool, "SELECT sched.enqueue('a', unique_key => 'k')")
	require.Empty(t, heard(), "nothing new, nobody to wake")
	exec(t, pool, "UPDATE sched.river_job SET state = 'running' WHERE id = $1", id)
	exec(t, pool, "SELECT sched.cancel($1)", id)
	list := heard()
	require.Len(t, list, 1)
	require.JSONEq(t, fmt.Sprintf(`{"action": "cancel", "job_id": %d, "queue": "default"}`, id), strings.TrimPrefix(list[0], "sched.river_control "))
	exec(t, pool, "UPDATE sched.river_job SET state = 'discarded', finalized_at = now() WHERE id = $1", id)
	exec(t, pool, "SELECT sched.retry($1)", id)
	require.Len(t, heard(), 1)

	exec(t, pool, "UPDATE sched.setting SET value = 'false' WHERE key = 'notify'")
	exec(t, pool, "UPDATE sched.river_job SET state = 'discarded', finalized_at = now() WHERE id = $1", id)
	exec(t, pool, "SELECT sched.retry($1)", id)
	exec(t, pool, "SELECT sched.enqueue('a'), sched.enqueue('a', run_at => clock_timestamp() + interval '1 second')")
	exec(t, pool, `SELECT sched.enqueue_many('[{"kind": "a"}]')`)
	require.Empty(t, heard())
}

func TestEnqueueNeverWritesAvailableWithAFutureTime(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tx := begin(t, connect(t, pool, ""))
	// Ahead of the transaction's time, at or behind the clock's.
	exec(t, tx, "SELECT sched.enqueue('a', run_at => clock_timestamp())")
	exec(t, tx, "SELECT sched.enqueue('a', run_at => now() - interval '1 day')")
	require.Equal(t, 2, one[int](t, tx, `SELECT count(*)::int FROM sched.river_job
		WHERE state = 'available' AND scheduled_at BETWEEN now() AND clock_timestamp()`))
}
