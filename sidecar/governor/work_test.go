package governor_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

func TestWorksAnyKindFromSeveralQueues(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	d := &dispatcherFunc{work: complete}
	start(t, config(pool, d))
	_, err := pool.Exec(t.Context(), `select sched.enqueue('kind-' || n % 7, jsonb_build_object('n', n), queue => 'q' || n % 5) from generate_series(1, 500) n`)
	require.NoError(t, err)
	eventually(t, func() bool {
		var done int
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from sched.river_job where state = 'completed' and attempt = 1`).Scan(&done))
		return done == 500
	}, "all tasks complete")
	require.EqualValues(t, 500, d.calls.Load(), "each task runs once")
	require.LessOrEqual(t, d.highest.Load(), int64(10), "never more than the slots")
}

func TestTaskArrivesWhole(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	start(t, config(pool, &dispatcherFunc{work: b.work}))
	id := enqueue(t, pool, `'mail', '{"to": "ann"}', queue => 'post', priority => 2, max_attempts => 7,
		timeout => '30 s', batch => 'nov', headers => '{"traceparent": "x"}'`)
	task := b.next(t)
	require.Equal(t, id, task.ID)
	require.Equal(t, "mail", task.Kind)
	require.Equal(t, "post", task.Queue)
	require.Equal(t, 1, task.Attempt)
	require.Equal(t, 7, task.MaxAttempts)
	require.Equal(t, 2, task.Priority)
	require.JSONEq(t, `{"to": "ann"}`, string(task.Args))
	require.Equal(t, "nov", task.Batch)
	require.Equal(t, map[string]string{"traceparent": "x"}, task.Headers)
	require.InDelta(t, 30, time.Until(task.Deadline).Seconds(), 5)
	require.Equal(t, column[time.Time](t, pool, id, "attempted_at").UnixMicro(), task.Lease.AttemptedAt.UnixMicro())
	require.Equal(t, column[string](t, pool, id, "attempted_by[1]"), task.Lease.WorkerID)

	b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete, Output: json.RawMessage(`{"ok": true}`)}
	eventuallyState(t, pool, id, "completed")
	require.JSONEq(t, `{"ok": true}`, column[string](t, pool, id, "(metadata -> 'output')::text"))
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	outcomes := map[string]jobs.Outcome{
		"retry":   {Kind: jobs.OutcomeRetry, Error: "boom", Delay: time.Hour},
		"snooze":  {Kind: jobs.OutcomeSnooze, Delay: time.Hour},
		"cancel":  {Kind: jobs.OutcomeCancel, Error: "pointless"},
		"discard": {Kind: jobs.OutcomeDiscard, Error: "hopeless"},
		"last":    {Kind: jobs.OutcomeRetry, Error: "boom"},
		"nul":     {Kind: jobs.OutcomeComplete, Output: json.RawMessage(`{"text": "a\u0000b"}`)},
	}
	start(t, config(pool, &dispatcherFunc{work: func(_ context.Context, task *dispatch.Task) jobs.Outcome { return outcomes[task.Kind] }}))
	for kind, want := range map[string]struct {
		state   string
		attempt int
		error   string
	}{
		"retry":   {"retryable", 1, "boom"},
		"snooze":  {"scheduled", 0, ""},
		"cancel":  {"cancelled", 1, "pointless"},
		"discard": {"discarded", 1, "hopeless"},
		"last":    {"discarded", 1, "boom"},
		"nul":     {"discarded", 1, "can't be stored"},
	} {
		maxAttempts := 5
		if kind == "last" {
			maxAttempts = 1
		}
		id := enqueue(t, pool, `$1, max_attempts => $2`, kind, maxAttempts)
		eventuallyState(t, pool, id, want.state)
		require.Equal(t, want.attempt, column[int](t, pool, id, "attempt"), kind)
		require.Contains(t, column[string](t, pool, id, "coalesce(errors[cardinality(errors)] ->> 'error', '')"), want.error, kind)
		if want.state == "retryable" || want.state == "scheduled" {
			require.InDelta(t, 3600, column[float64](t, pool, id, "extract(epoch from scheduled_at - clock_timestamp())::float8"), 30, kind)
		}
	}
}

func TestRetriesFollowThePolicyAndThePromoterIsPunctual(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := config(pool, nil)
	starts := make(chan time.Time, 10)
	cfg.Dispatcher = &dispatcherFunc{work: func(_ context.Context, task *dispatch.Task) jobs.Outcome {
		starts <- time.Now()
		if task.Attempt < 5 {
			return jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "again"}
		}
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}}
	cfg.Retry = jobs.RetryPolicy{Base: 50 * time.Millisecond, Factor: 2, Cap: time.Minute, Jitter: 0}
	cfg.PollInterval = time.Hour // nothing but the promoter's own wake-up may start the next attempt
	startLeading(t, cfg)
	id := enqueue(t, pool, `'flaky'`)
	eventuallyState(t, pool, id, "completed")
	require.Equal(t, 5, column[int](t, pool, id, "attempt"))
	previous := <-starts
	for _, want := range []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		now := <-starts
		require.GreaterOrEqual(t, now.Sub(previous), want, "an attempt never starts early")
		require.Less(t, now.Sub(previous), want+8*time.Second, "the promoter doesn't wait for a poll")
		previous = now
	}
	var logged int
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from sched.attempt where task_id = $1`, id).Scan(&logged))
	require.Equal(t, 5, logged, "every attempt is on record")
}

func TestScheduledTaskStartsWhenDue(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	startLeading(t, config(pool, &dispatcherFunc{work: b.work}))
	id := enqueue(t, pool, `'later', run_at => clock_timestamp() + interval '3 s'`)
	require.Equal(t, "scheduled", state(t, pool, id))
	b.next(t)
	late := column[float64](t, pool, id, "extract(epoch from attempted_at - scheduled_at)::float8")
	require.GreaterOrEqual(t, late, 0.0)
	require.Less(t, late, 8.0)
}

func TestDeadlineEndsTheCall(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	start(t, config(pool, &dispatcherFunc{work: b.work}))
	id := enqueue(t, pool, `'slow', timeout => '200 ms', max_attempts => 1`)
	eventuallyState(t, pool, id, "discarded")
	require.Contains(t, column[string](t, pool, id, "errors[1] ->> 'error'"), "deadline exceeded")
}

func TestCancelOfARunningTaskReachesTheApp(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	start(t, config(pool, &dispatcherFunc{work: b.work}))
	id := enqueue(t, pool, `'slow'`)
	b.next(t)
	var status string
	require.NoError(t, pool.QueryRow(t.Context(), `select sched.cancel($1)`, id).Scan(&status))
	require.Equal(t, "running", status)
	eventuallyState(t, pool, id, "cancelled")
}

func TestCancelWithoutItsNotificationIsFoundByTheWatch(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	start(t, config(pool, &dispatcherFunc{work: b.work}))
	id := enqueue(t, pool, `'slow'`)
	b.next(t)
	_, err := pool.Exec(t.Context(), `update sched.river_job set metadata = metadata || '{"cancel_attempted_at": "x"}' where id = $1`, id)
	require.NoError(t, err)
	eventuallyState(t, pool, id, "cancelled")
}

func TestKindThatTheAppLacksIsHandedBackUnspent(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	lacking := &dispatcherFunc{work: func(_ context.Context, task *dispatch.Task) jobs.Outcome {
		if task.Kind == "new" {
			return jobs.Outcome{Kind: jobs.OutcomeHandBack, UnknownKind: true}
		}
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}}
	old := start(t, config(pool, lacking))
	fresh := enqueue(t, pool, `'new'`)
	eventually(t, func() bool { return len(old.Status().SkippedKinds) == 1 }, "the kind is skipped, visibly")
	require.Equal(t, []string{"new"}, old.Status().SkippedKinds)
	// It may be asked for once more, to see whether the app has the kind by now.
	eventually(t, func() bool { return column[bool](t, pool, fresh, "state = 'available' and attempt = 0") }, "no attempt is spent")

	known := enqueue(t, pool, `'known'`)
	eventuallyState(t, pool, known, "completed")

	start(t, config(pool, &dispatcherFunc{work: complete}))
	eventuallyState(t, pool, fresh, "completed")
	require.Equal(t, 1, column[int](t, pool, fresh, "attempt"))
}

func TestPausedQueueIsNotClaimed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	start(t, config(pool, &dispatcherFunc{work: complete}))
	first := enqueue(t, pool, `'k', queue => 'paused'`)
	eventuallyState(t, pool, first, "completed")
	_, err := pool.Exec(t.Context(), `update sched.river_queue set paused_at = now() where name = 'paused'`)
	require.NoError(t, err)
	held := enqueue(t, pool, `'k', queue => 'paused'`)
	other := enqueue(t, pool, `'k', queue => 'other'`)
	eventuallyState(t, pool, other, "completed")
	require.Equal(t, "available", state(t, pool, held))
	_, err = pool.Exec(t.Context(), `update sched.river_queue set paused_at = null where name = 'paused'`)
	require.NoError(t, err)
	eventuallyState(t, pool, held, "completed")
}

func TestSelectorAndConfigNarrowTheClaim(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := config(pool, &dispatcherFunc{work: complete})
	cfg.Labels = map[string]string{"gpu": "true", "zone": "north"}
	cfg.Kinds = []string{"wanted"}
	cfg.Queues = []string{"mine"}
	start(t, cfg)
	matching := enqueue(t, pool, `'wanted', queue => 'mine', selector => '{"gpu": "true"}'`)
	eventuallyState(t, pool, matching, "completed")
	refused := []int64{
		enqueue(t, pool, `'wanted', queue => 'mine', selector => '{"gpu": "true", "zone": "south"}'`),
		enqueue(t, pool, `'wanted', queue => 'theirs'`),
		enqueue(t, pool, `'unwanted', queue => 'mine'`),
		enqueue(t, pool, `'wanted', queue => 'mine', protocol => 'grpc'`),
	}
	last := enqueue(t, pool, `'wanted', queue => 'mine'`)
	eventuallyState(t, pool, last, "completed")
	for _, id := range refused {
		require.Equal(t, "available", state(t, pool, id))
	}
}

func TestForeignTimeoutsAreBounded(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	start(t, config(pool, &dispatcherFunc{work: b.work}))
	for _, millis := range []string{`9223372036855`, `18446744073710`, `9223372036854775807`, `999999999999999999999`, `-5`, `"x"`, `1.5`, `null`} {
		_, err := pool.Exec(t.Context(), `insert into sched.river_job (kind, args, max_attempts, metadata)
			values ('k', '{}', 25, jsonb_build_object('sched:timeout_ms', $1::jsonb))`, millis)
		require.NoError(t, err)
		task := b.next(t)
		left := time.Until(task.Deadline)
		require.Greater(t, left, 30*time.Second, millis)
		require.LessOrEqual(t, left, 7*24*time.Hour, millis)
		b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	}
}

// Nobody should write such rows, but one of them must not stop all others.
func TestOddRowsAreClaimed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `
		insert into sched.river_job (kind, args, max_attempts, attempt, attempted_at, attempted_by, scheduled_at, created_at) values
			('k', '{}', 32767, 32767, null, null, now(), now()),
			('k', '{}', 25, 1, 'infinity', '{w-x}', now(), now()),
			('k', '{}', 25, 1, '-infinity', '{w-x}', now(), now()),
			('k', '{}', 25, 1, now() + interval '100 years', '{w-x}', now(), now()),
			('k', '{}', 25, 0, null, null, '-infinity', now()),
			('k', '{}', 25, 0, null, null, now(), 'infinity')`)
	require.NoError(t, err)
	start(t, config(pool, &dispatcherFunc{work: complete}))
	eventually(t, func() bool {
		var done int
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from sched.river_job where state = 'completed'`).Scan(&done))
		return done == 6
	}, "all of them complete")
}
