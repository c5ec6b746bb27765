package operator

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

func register(t *testing.T, pool *pgxpool.Pool, id, columns, values string) {
	t.Helper()
	if columns != "" {
		columns, values = ", "+columns, ", "+values
	}
	exec(t, pool, "INSERT INTO sched.worker (id, client_id"+columns+") VALUES ('"+id+"', 'c'"+values+")")
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	register(t, pool, "w-lives", "state, labels, running, slots, app_url", `'active', '{"zone": "a"}', 3, 8, 'http://app'`)
	register(t, pool, "w-silent", "state, heartbeat_at, started_at", `'active', now() - interval '1 minute', now() - interval '1 hour'`)
	register(t, pool, "w-ended", "state, ended_at, reason", `'evicted', now(), 'no heartbeat'`)

	workers, err := o.Workers(t.Context(), false, 10)
	require.NoError(t, err)
	require.Len(t, workers, 2)
	require.Equal(t, "w-lives", workers[0].ID)
	require.True(t, workers[0].Alive)
	require.Equal(t, 3, workers[0].Running)
	require.JSONEq(t, `{"zone": "a"}`, string(workers[0].Labels))
	require.False(t, workers[1].Alive)

	workers, err = o.Workers(t.Context(), true, 10)
	require.NoError(t, err)
	require.Len(t, workers, 3)
	require.Equal(t, "w-ended", workers[2].ID)
	require.False(t, workers[2].Alive)
	require.NotNil(t, workers[2].EndedAt)
	var row map[string]any
	require.NoError(t, json.Unmarshal(workers[0].JSON, &row))
	require.Contains(t, row, "client_id")
}

func TestDrain(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	register(t, pool, "w-one", "state, running", "'active', 2")
	register(t, pool, "w-done", "state", "'done'")

	state, running, err := o.Drain(t.Context(), "w-one")
	require.NoError(t, err)
	require.Equal(t, "draining", state)
	require.Equal(t, 2, running)
	require.Equal(t, "1 drained by postgres", one[string](t, pool, "SELECT state_version || ' ' || reason FROM sched.worker WHERE id = 'w-one'"))

	state, _, err = o.Drain(t.Context(), "w-one")
	require.NoError(t, err)
	require.Equal(t, "draining", state)
	require.EqualValues(t, 1, one[int64](t, pool, "SELECT state_version FROM sched.worker WHERE id = 'w-one'"), "nothing moved")

	state, _, err = o.Drain(t.Context(), "w-done")
	require.NoError(t, err)
	require.Equal(t, "done", state)
	_, _, err = o.Drain(t.Context(), "w-none")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestQueues(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	oldest := enqueue(t, pool, `'mail', queue => 'bulk', priority => 4`)
	exec(t, pool, "UPDATE sched.river_job SET scheduled_at = now() - interval '2 minutes' WHERE id = $1", oldest)
	for range 3 {
		enqueue(t, pool, `'mail', queue => 'bulk'`)
	}
	enqueue(t, pool, `'mail', queue => 'bulk', run_at => now() + interval '1 hour'`)
	end(t, pool, enqueue(t, pool, `'mail', queue => 'bulk'`), "retryable", 1)
	end(t, pool, enqueue(t, pool, `'mail', queue => 'bulk'`), "running", 1)
	end(t, pool, enqueue(t, pool, `'mail', queue => 'bulk'`), "completed", 1)
	enqueue(t, pool, `'mail', queue => 'bulk', selector => '{"gpu": "a"}', protocol => 'http'`)
	exec(t, pool, "INSERT INTO sched.river_queue (name, updated_at) VALUES ('theirs', now())")

	register(t, pool, "w-any", "state", "'active'")
	register(t, pool, "w-gpu", "state, labels, queues", `'pending', '{"gpu": "a", "zone": "b"}', '{bulk}'`)
	register(t, pool, "w-grpc", "state, labels, protocols", `'active', '{"gpu": "a"}', '{grpc}'`)
	register(t, pool, "w-other", "state, queues", `'active', '{mail}'`)
	register(t, pool, "w-drains", "state", "'draining'")
	register(t, pool, "w-silent", "state, heartbeat_at", "'active', now() - interval '1 minute'")

	queues, err := o.Queues(t.Context(), nil, "", 10, 100)
	require.NoError(t, err)
	require.Len(t, queues, 3)
	bulk, gpu, theirs := queues[0], queues[1], queues[2]
	require.Equal(t, "bulk", bulk.Name)
	require.Equal(t, []int64{4, 1, 1, 1}, []int64{bulk.Available, bulk.Running, bulk.Scheduled, bulk.Retryable})
	require.False(t, bulk.AvailableIsMore || bulk.RunningIsMore || bulk.TimedIsMore)
	require.InDelta(t, 120, *bulk.OldestSeconds, 30, "the oldest of all priorities")
	require.EqualValues(t, 3, bulk.Workers)
	require.Equal(t, "bulk", gpu.Base)
	require.EqualValues(t, 1, gpu.Available)
	require.EqualValues(t, 1, gpu.Workers)
	require.Equal(t, "theirs", theirs.Name)
	require.Zero(t, theirs.Available)
	require.Nil(t, theirs.OldestAvailable)
	require.Nil(t, theirs.OldestSeconds)

	queues, err = o.Queues(t.Context(), []string{"bulk"}, "", 10, 2)
	require.NoError(t, err)
	require.Len(t, queues, 2, "the named one and those derived from it")
	require.EqualValues(t, 2, queues[0].Available)
	require.True(t, queues[0].AvailableIsMore)
	require.False(t, queues[0].RunningIsMore)
	require.True(t, queues[0].TimedIsMore)
	require.False(t, queues[1].AvailableIsMore)

	queues, err = o.Queues(t.Context(), nil, gpu.Name, 1, 2)
	require.NoError(t, err)
	require.Len(t, queues, 1)
	require.Equal(t, "theirs", queues[0].Name)
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	enqueue(t, pool, `'mail', queue => 'bulk'`)
	enqueue(t, pool, `'mail', queue => 'bulk', protocol => 'http'`)
	enqueue(t, pool, `'mail', queue => 'bulk_mail'`)
	derived := one[string](t, pool, "SELECT name FROM sched.queue WHERE name LIKE 'bulk|%'")
	// River's row of it is gone, as after its cleaner.
	exec(t, pool, "DELETE FROM sched.river_queue WHERE name = $1", derived)

	listener, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer listener.Release()
	_, err = listener.Exec(t.Context(), `LISTEN "sched.river_control"`)
	require.NoError(t, err)
	told := func(n int) (payloads []string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range n {
			notification, err := listener.Conn().WaitForNotification(ctx)
			require.NoError(t, err)
			payloads = append(payloads, notification.Payload)
		}

		return payloads
	}
	paused := func() string {
		return one[string](t, pool, "SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM sched.river_queue WHERE paused_at IS NOT NULL")
	}

	_, err = o.Pause(t.Context(), []string{"bulk", "nope"}, false)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "queue nope: ")
	require.Empty(t, paused())

	changes, err := o.Pause(t.Context(), []string{"bulk"}, false)
	require.NoError(t, err)
	require.Equal(t, "bulk "+derived, paused())
	require.Equal(t, []string{"bulk", derived}, []string{changes[0].Name, changes[1].Name})
	require.True(t, changes[0].Changed && changes[1].Changed)
	require.Equal(t, []string{
		`{"action" : "pause", "queue" : "bulk"}`,
		`{"action" : "pause", "queue" : "` + derived + `"}`,
	}, told(2), "as a River client says it")
	since := *changes[0].PausedAt

	changes, err = o.Pause(t.Context(), []string{"bulk"}, true)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.False(t, changes[0].Changed)
	require.True(t, since.Equal(*changes[0].PausedAt), "as old as it was")
	told(1)

	changes, err = o.Resume(t.Context(), []string{"bulk"}, true)
	require.NoError(t, err)
	require.Equal(t, []QueueChange{{Name: "bulk", Changed: true}}, changes)
	require.Equal(t, derived, paused())
	require.Equal(t, []string{`{"action" : "resume", "queue" : "bulk"}`}, told(1))

	changes, err = o.Resume(t.Context(), []string{"bulk"}, false)
	require.NoError(t, err)
	require.Equal(t, []QueueChange{{Name: "bulk"}, {Name: derived, Changed: true}}, changes)
	require.Empty(t, paused())
}

func TestBatches(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	enqueue(t, pool, `'mail'`)
	for _, name := range []string{"b", "a", "c", "a", "d"} {
		enqueue(t, pool, `'mail', batch => '`+name+`'`)
	}
	end(t, pool, enqueue(t, pool, `'mail', batch => 'a'`), "completed", 1)
	end(t, pool, enqueue(t, pool, `'mail', batch => 'a'`), "discarded", 1)

	names := func(batches []Batch) (list []string) {
		for _, b := range batches {
			list = append(list, b.Batch)
		}

		return list
	}
	page, err := o.Batches(t.Context(), "", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, names(page))
	page, err = o.Batches(t.Context(), "c", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"d"}, names(page))

	batch, err := o.Batch(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, []int64{4, 2, 1, 1, 2}, []int64{batch.Total, batch.Available, batch.Completed, batch.Discarded, batch.Finished})
	require.InDelta(t, 0.5, batch.Progress, 1e-6)
	_, err = o.Batch(t.Context(), "e")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestConnectErrors(t *testing.T) {
	t.Parallel()
	_, err := Connect(t.Context(), "postgres://u@h:port/d")
	require.ErrorContains(t, err, "parse the connection string")
}

func TestTopComesBackAfterALostConnection(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	_, err := o.Top(t.Context(), 10)
	require.NoError(t, err)
	exec(t, pool, `SELECT pg_terminate_backend($1)`, int32(o.Conn().PgConn().PID()))
	_, err = o.Top(t.Context(), 10)
	require.Error(t, err)
	_, err = o.Top(t.Context(), 10)
	require.NoError(t, err)
}
