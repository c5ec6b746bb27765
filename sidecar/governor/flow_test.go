package governor_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/governor"
)

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// fill puts n tasks of a kind into a queue, as an old backlog.
func fill(t *testing.T, pool *pgxpool.Pool, queue, kind string, n int) {
	t.Helper()
	exec(t, pool, `insert into sched.river_job (kind, queue, args, max_attempts, state, scheduled_at)
		select $2, $1, '{}', 25, 'available', now() - interval '1 hour' from generate_series(1, $3::int)`, queue, kind, n)
	exec(t, pool, `select sched.discover_queues()`)
}

// limitKind and limitQueue set limits as an operator does, on flows that have warmed up.
func limitKind(t *testing.T, pool *pgxpool.Pool, kind string, rate float64) {
	t.Helper()
	exec(t, pool, `insert into sched.kind (kind, rate) values ($1, $2)`, kind, rate)
	warm(t, pool, "kind", kind)
}

func warm(t *testing.T, pool *pgxpool.Pool, scope, name string) {
	t.Helper()
	exec(t, pool, `insert into sched.flow (scope, name, warm_from) values ($1, $2, clock_timestamp() - interval '1 minute')`, scope, name)
}

func TestRateOfAKindHoldsForTheFleet(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const rate = 100
	fill(t, pool, "default", "slow", 5000)
	limitKind(t, pool, "slow", rate)
	var done atomic.Int64
	for range 4 {
		start(t, config(pool, &dispatcherFunc{work: func(context.Context, *dispatch.Task) jobs.Outcome {
			done.Add(1)
			return jobs.Outcome{Kind: jobs.OutcomeComplete}
		}}))
	}
	free := enqueue(t, pool, `'free'`)
	eventuallyState(t, pool, free, "completed")
	eventually(t, func() bool { return done.Load() > rate/2 }, "claims begin")
	// The database's clock and count: what was granted between two moments.
	granted := func() (n int64, at time.Time) {
		require.NoError(t, pool.QueryRow(t.Context(), `select granted, refilled_at from sched.flow where name = 'slow'`).Scan(&n, &at))
		return n, at
	}
	first, from := granted()
	timer := time.NewTimer(5 * time.Second)
	<-timer.C
	last, to := granted()
	// The rate is the limit. How much of it a busy machine uses is not what this is about.
	reached := float64(last-first) / to.Sub(from).Seconds()
	require.LessOrEqual(t, reached, 1.1*rate)
	require.Greater(t, reached, 0.3*rate, "claims go on")
	var claimed int64
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from sched.river_job where kind = 'slow' and attempt > 0`).Scan(&claimed))
	last, _ = granted()
	require.LessOrEqual(t, claimed, last, "nothing is claimed that was not granted")
}

func TestMaxRunningIsNeverExceeded(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fill(t, pool, "narrow", "k", 300)
	exec(t, pool, `update sched.queue set max_running = 3 where name = 'narrow'`)
	d := &dispatcherFunc{work: func(ctx context.Context, _ *dispatch.Task) jobs.Outcome {
		timer := time.NewTimer(2 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}}
	for range 3 {
		start(t, config(pool, d))
	}
	wide := enqueue(t, pool, `'k', queue => 'wide'`)
	eventuallyState(t, pool, wide, "completed")
	eventually(t, func() bool {
		var running, left int
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*) filter (where state = 'running'), count(*) filter (where state <> 'completed')
			from sched.river_job where queue = 'narrow'`).Scan(&running, &left))
		require.LessOrEqual(t, running, 3)
		return left == 0
	}, "freed capacity is used at once")
	require.LessOrEqual(t, d.highest.Load(), int64(4), "and one task of the other queue")
}

func TestTasksBehindAPausedKindAreFound(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fill(t, pool, "default", "paused", 50_000)
	exec(t, pool, `select sched.pause_kind('paused', now() + interval '1 hour', 'busy', 'w-test')`)
	var paused atomic.Int64
	g := start(t, config(pool, &dispatcherFunc{work: func(_ context.Context, task *dispatch.Task) jobs.Outcome {
		if task.Kind == "paused" {
			paused.Add(1)
		}
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}}))
	for priority := 4; priority > 0; priority-- {
		eventuallyState(t, pool, enqueue(t, pool, fmt.Sprintf(`'other', priority => %d`, priority)), "completed")
	}
	// One that appears behind the marks, as a rescued task does.
	var behind int64
	require.NoError(t, pool.QueryRow(t.Context(), `insert into sched.river_job (kind, queue, args, max_attempts, state, scheduled_at)
		values ('other', 'default', '{}', 25, 'available', now() - interval '2 hours') returning id`).Scan(&behind))
	eventuallyState(t, pool, behind, "completed")
	require.Zero(t, paused.Load())
	require.Contains(t, fmt.Sprint(g.Status().Limits), "kind paused: paused by the app")
	exec(t, pool, `update sched.flow set paused_until = null where name = 'paused'`)
	exec(t, pool, `select pg_notify('sched.config', 'flow')`)
	eventually(t, func() bool { return paused.Load() > 1000 }, "claims go on when the pause is over")
}

func TestRetryAfterPausesTheKindForAll(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const pause = 6 * time.Second
	var busy, calls atomic.Int64
	var answered atomic.Pointer[time.Time]
	busy.Store(1)
	work := func(_ context.Context, task *dispatch.Task) jobs.Outcome {
		if task.Kind == "busy" {
			calls.Add(1)
			if busy.Load() == 1 {
				now := time.Now()
				answered.Store(&now)
				return jobs.Outcome{Kind: jobs.OutcomeSnooze, PauseKind: true, Delay: pause, Error: "app answered 429"}
			}
		}
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}
	one, other := config(pool, &dispatcherFunc{work: work}), config(pool, &dispatcherFunc{work: work})
	one.Slots, other.Slots = 1, 1
	governors := []*governor.Governor{start(t, one), start(t, other)}
	first := enqueue(t, pool, `'busy'`)
	eventually(t, func() bool { return calls.Load() == 1 }, "the app answers")
	for _, g := range governors {
		eventually(t, func() bool { return len(g.Status().Limits) == 1 }, "both know")
	}
	second := enqueue(t, pool, `'busy'`)
	eventuallyState(t, pool, enqueue(t, pool, `'idle'`), "completed")
	busy.Store(0)
	eventuallyState(t, pool, second, "completed")
	require.True(t, column[time.Time](t, pool, second, `attempted_at`).After(answered.Load().Add(pause)), "not before")
	eventuallyState(t, pool, first, "completed")
	require.Equal(t, 1, column[int](t, pool, first, "attempt"), "no attempt was spent")
	require.Equal(t, int64(3), calls.Load())
	var decisions int
	require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from sched.decision where what = 'pause' and subject = 'busy' and reason = 'app answered 429'`).Scan(&decisions))
	require.Equal(t, 1, decisions)
}

func TestTokensBoundClaims(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fill(t, pool, "default", "k", 500)
	d := &dispatcherFunc{work: complete}
	cfg := config(pool, d)
	cfg.Slots, cfg.TokenRate, cfg.TokenBurst = 100, 50, 20
	began := time.Now()
	g := start(t, cfg)
	eventually(t, func() bool { return d.calls.Load() >= 20 }, "the burst")
	var limits []string
	eventually(t, func() bool {
		limits = g.Status().Limits
		return len(limits) == 1
	}, "the wait is shown")
	require.Regexp(t, `^tokens: next in \d+ms$`, limits[0])
	eventually(t, func() bool { return d.calls.Load() >= 100 }, "it goes on")
	require.LessOrEqual(t, float64(d.calls.Load()), 20+50*time.Since(began).Seconds())
}
