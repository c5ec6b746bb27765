package operator

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTasks(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	waiting := enqueue(t, pool, `'mail', batch => 'night'`)
	failed := enqueue(t, pool, `'mail', queue => 'bulk', selector => '{"gpu": "a"}'`)
	end(t, pool, failed, "discarded", 30)
	done := enqueue(t, pool, `'image', queue => 'bulk', batch => 'night'`)
	end(t, pool, done, "completed", 90)
	runs := enqueue(t, pool, `'image'`)
	end(t, pool, runs, "running", 1)
	exec(t, pool, `INSERT INTO sched.worker (id, client_id, started_at) VALUES ('w-one', 'c', now() - interval '1 hour')`)
	hour := time.Now().Add(-time.Hour)

	for _, tt := range []struct {
		name   string
		filter Filter
		want   []int64
	}{
		{"all", Filter{}, []int64{runs, done, failed, waiting}},
		{"one status", Filter{Statuses: []string{"discarded"}}, []int64{failed}},
		{"two statuses", Filter{Statuses: []string{"available", "completed"}}, []int64{done, waiting}},
		{"kind", Filter{Kinds: []string{"mail"}}, []int64{failed, waiting}},
		{"queue and derived", Filter{Queues: []string{"bulk"}}, []int64{done, failed}},
		{"derived queue", Filter{Queues: []string{one[string](t, pool, `SELECT queue FROM sched.task WHERE id = $1`, failed)}}, []int64{failed}},
		{"no such queue", Filter{Queues: []string{"bul"}}, []int64{}},
		{"batch", Filter{Batch: "night"}, []int64{done, waiting}},
		{"batch and status", Filter{Batch: "night", Statuses: []string{"completed"}}, []int64{done}},
		{"since", Filter{Since: hour}, []int64{runs, failed}},
		{"until", Filter{Until: hour}, []int64{done}},
		{"since and batch", Filter{Since: hour.Add(-time.Hour), Batch: "night"}, []int64{done}},
		{"worker, whose row bounds the starts", Filter{Worker: "w-one"}, []int64{runs, failed}},
		{"worker without a row", Filter{Worker: "w-two"}, []int64{}},
	} {
		tasks, next, err := o.Tasks(t.Context(), tt.filter, "", 10)
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.want, ids(tasks), tt.name)
		require.Empty(t, next, tt.name)
	}
	_, _, err := o.Tasks(t.Context(), Filter{Statuses: []string{"done"}}, "", 10)
	require.ErrorIs(t, err, ErrInvalid)
}

// What an auditor may see suffices to list tasks, show one, and follow batches.
func TestAsAuditor(t *testing.T) {
	t.Parallel()
	_, pool := setup(t)
	derived := enqueue(t, pool, `'mail', queue => 'bulk', protocol => 'http', batch => 'night'`)
	enqueue(t, pool, `'mail'`)
	o := connect(t, pool, "sched_auditor")

	for _, f := range []Filter{{Queues: []string{"bulk"}}, {Batch: "night"}, {Batch: "night", Queues: []string{"bulk"}}} {
		tasks, _, err := o.Tasks(t.Context(), f, "", 10)
		require.NoError(t, err)
		require.Equal(t, []int64{derived}, ids(tasks))
	}
	tasks, _, err := o.Tasks(t.Context(), Filter{Worker: "w-one", Queues: []string{"bulk"}}, "", 10)
	require.NoError(t, err)
	require.Empty(t, tasks)
	_, err = o.Task(t.Context(), derived, 10)
	require.NoError(t, err)
	batch, err := o.Batch(t.Context(), "night")
	require.NoError(t, err)
	require.EqualValues(t, 1, batch.Total)

	_, err = o.Workers(t.Context(), false, 10)
	require.ErrorContains(t, err, "hint: log in as a member of sched_sidecar")
}

// Pages together are the list, whatever the order and the filter.
func TestTasksPageByPage(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	exec(t, pool, `SELECT sched.enqueue_many(jsonb_agg(jsonb_build_object('kind', 'mail', 'batch', 'b') ORDER BY g)) FROM generate_series(1, 40) AS g`)
	// Several starts at the same moment, in several statuses, and tasks that never started.
	exec(t, pool, `UPDATE sched.river_job SET attempted_at = now() - (id % 4) * interval '1 minute',
			state = (ARRAY['running', 'retryable', 'cancelled'])[1 + id % 3]::sched.river_job_state,
			finalized_at = CASE WHEN id % 3 = 2 THEN now() END
		WHERE id % 5 > 0`)
	for name, tt := range map[string]struct {
		filter Filter
		total  int
	}{
		"by id":    {Filter{}, 40},
		"batch":    {Filter{Batch: "b", Statuses: []string{"available", "running", "retryable"}}, 30},
		"by start": {Filter{Since: time.Now().Add(-time.Hour)}, 32},
	} {
		whole, next, err := o.Tasks(t.Context(), tt.filter, "", 100)
		require.NoError(t, err, name)
		require.Empty(t, next, name)
		require.Len(t, whole, tt.total, name)
		for _, size := range []int{1, 3, 7} {
			var paged []int64
			for after := ""; ; {
				tasks, next, err := o.Tasks(t.Context(), tt.filter, after, size)
				require.NoError(t, err, name)
				paged = append(paged, ids(tasks)...)
				if next == "" {
					break
				}
				require.Len(t, tasks, size, name)
				after = next
			}
			require.Equal(t, ids(whole), paged, "%s by %d", name, size)
		}
	}
}

func TestTask(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	id := enqueue(t, pool, `'mail', '{"to": [1, 2.50]}', priority => 2, timeout => '90 seconds', headers => '{"a": "b"}', unique_key => 'k'`)
	end(t, pool, id, "discarded", 5)
	exec(t, pool, `INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
		SELECT $1, 1, 'w-old', now() - g * interval '1 hour', now() - g * interval '1 hour', 'retry', 'try ' || g FROM generate_series(1, 5) AS g`, id)

	task, err := o.Task(t.Context(), id, 3)
	require.NoError(t, err)
	require.Equal(t, "mail", task.Kind)
	require.Equal(t, "discarded", task.Status)
	require.Equal(t, "no luck", task.Error)
	require.Equal(t, "00:01:30", task.Timeout)
	require.Equal(t, "k", task.UniqueKey)
	require.JSONEq(t, `{"to": [1, 2.50]}`, string(task.Args))
	var outcomes []string
	for _, a := range task.Attempts {
		outcomes = append(outcomes, a.Error)
	}
	require.Equal(t, []string{"try 2", "try 1", "no luck"}, outcomes, "the latest, in the order they began")

	// The row as the view has it, times as RFC 3339 in UTC.
	var row map[string]any
	require.NoError(t, json.Unmarshal(task.JSON, &row))
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00$`, row["start_time"])
	require.Contains(t, row, "enqueued_app")
	require.Len(t, row["attempts"], 3)
	require.Nil(t, row["batch"])

	_, err = o.Task(t.Context(), id+1, 3)
	require.ErrorIs(t, err, ErrNotFound)
}

// Odd metadata of a River client must not spoil a list.
func TestTasksOfRiverClients(t *testing.T) {
	t.Parallel()
	o, pool := setup(t)
	exec(t, pool, `INSERT INTO sched.river_job (kind, args, queue, max_attempts, metadata)
		VALUES ('theirs', '[]', 'their_queue', 5, '{"sched:selector": {"gpu": 1}, "sched:headers": {"a": [1]}, "sched:batch": 7, "sched:timeout_ms": "x"}')`)
	exec(t, pool, `SELECT sched.discover_queues()`)
	tasks, _, err := o.Tasks(t.Context(), Filter{Batch: "7"}, "", 10)
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	queues, err := o.Queues(t.Context(), nil, "", 10, 10)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(queues, func(q Queue) bool { return q.Name == "their_queue" }))
}
