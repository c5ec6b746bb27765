package governor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/governor"
	"github.com/sched-sidecar/sched/sql/dbq"
)

func TestSlotsMoveLive(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var gate atomic.Pointer[chan struct{}] // tasks stay until it is closed
	shut := func() chan struct{} {
		c := make(chan struct{})
		gate.Store(&c)
		return c
	}
	d := &dispatcherFunc{work: func(ctx context.Context, _ *dispatch.Task) jobs.Outcome {
		select {
		case <-*gate.Load():
		case <-ctx.Done():
		}
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}}
	open := shut()
	cfg := config(pool, d)
	cfg.Slots, cfg.Ceiling = 5, 200
	_, err := pool.Exec(t.Context(), `select sched.enqueue_many((select jsonb_agg(jsonb_build_object('kind', 'k')) from generate_series(1, 20000)))`)
	require.NoError(t, err)
	g := start(t, cfg)
	for _, limit := range []int64{5, 50, 200, 10} {
		require.NoError(t, g.SetSlots(int(limit)))
		close(open)
		eventually(t, func() bool { return g.Status().Taken <= int(limit) }, "what holds a slot above a lowered limit ends")
		d.highest.Store(0)
		calls := d.calls.Load()
		eventually(t, func() bool { return d.calls.Load() > calls+3*limit }, "work goes on")
		open = shut()
		eventually(t, func() bool { return d.running.Load() == limit }, "the limit is reached")
		require.LessOrEqual(t, d.highest.Load(), limit, "and never exceeded")
	}
	require.NoError(t, g.SetSlots(0))
	close(open)
	eventually(t, func() bool { return g.Status().Taken == 0 }, "no slots, no tasks")
	require.Error(t, g.SetSlots(201))
	require.Error(t, g.SetSlots(-1))
}

func TestHoldStopsClaimsAndReleaseResumesThem(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	g := start(t, config(pool, &dispatcherFunc{work: complete}))
	g.Hold("app down")
	g.Hold("other")
	id := enqueue(t, pool, `'k'`)
	require.Never(t, func() bool { return state(t, pool, id) != "available" }, 300*time.Millisecond, 20*time.Millisecond)
	require.Equal(t, []string{"app down", "other"}, g.Status().Holds)
	g.Release("other")
	require.Never(t, func() bool { return state(t, pool, id) != "available" }, 300*time.Millisecond, 20*time.Millisecond)
	g.Release("app down")
	eventuallyState(t, pool, id, "completed")
}

func TestStopLetsTasksEndAndHandsTheRestBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	g := start(t, config(pool, &dispatcherFunc{work: b.work}))
	ends, stays := enqueue(t, pool, `'k'`), enqueue(t, pool, `'k'`)
	b.next(t)
	b.next(t)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(ctx, patience) }()
	b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	eventually(t, func() bool {
		return state(t, pool, ends) == "completed" || state(t, pool, stays) == "completed"
	}, "a draining worker settles what ends")
	late := enqueue(t, pool, `'k'`)
	cancel() // the grace is over
	select {
	case err := <-stopped:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "stop did not return")
	}
	require.Equal(t, "available", state(t, pool, late), "nothing is claimed while draining")
	var handedBack, done int
	require.NoError(t, pool.QueryRow(t.Context(),
		`select count(*) filter (where state = 'available' and attempt = 0), count(*) filter (where state = 'completed')
		from sched.river_job where id = any($1)`, []int64{ends, stays}).Scan(&handedBack, &done))
	require.Equal(t, 1, handedBack, "the other is handed back, unspent")
	require.Equal(t, 1, done)
	var workers string
	require.NoError(t, pool.QueryRow(t.Context(), `select string_agg(state, ' ') from sched.worker`).Scan(&workers))
	require.Equal(t, "done", workers)
}

// slowClaim is a database whose claims take their time once they have tasks.
type slowClaim struct {
	dbq.Querier
	claimed chan struct{}
	answer  chan struct{}
}

func (d *slowClaim) TaskClaim(ctx context.Context, params dbq.TaskClaimParams) ([]dbq.TaskClaimRow, error) {
	rows, err := d.Querier.TaskClaim(ctx, params)
	if len(rows) > 0 {
		close(d.claimed)
		<-d.answer
	}
	return rows, err
}

func TestStopHandsBackWhatAClaimUnderWayGets(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	d := &dispatcherFunc{work: func(ctx context.Context, _ *dispatch.Task) jobs.Outcome {
		<-ctx.Done()
		return jobs.Outcome{Kind: jobs.OutcomeHandBack}
	}}
	g, err := governor.New(config(pool, d))
	require.NoError(t, err)
	db := &slowClaim{claimed: make(chan struct{}), answer: make(chan struct{})}
	g.WrapQueries(func(q dbq.Querier) dbq.Querier { db.Querier = q; return db })
	id := enqueue(t, pool, `'k'`)
	require.NoError(t, g.Start(t.Context()))
	<-db.claimed

	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		stopped <- g.Stop(ctx, patience)
	}()
	time.AfterFunc(600*time.Millisecond, func() { close(db.answer) }) // the grace is over by then
	require.NoError(t, <-stopped)
	require.Equal(t, "available", state(t, pool, id))
	require.Equal(t, 0, column[int](t, pool, id, "attempt"), "unspent")
}

// What the app holds at once is the ceiling where it is lower; an app that holds
// nothing says nothing about it.
func TestCeilingIsWhatTheAppHolds(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	g := start(t, config(pool, &dispatcherFunc{work: complete}))
	for _, test := range []struct{ room, slots, ceiling int }{{300, 10, 100}, {40, 10, 40}, {4, 4, 4}, {0, 0, 100}, {60, 10, 60}} {
		g.SetAppCapacity(test.room)
		status := g.Status()
		require.Equal(t, []int{test.slots, test.ceiling}, []int{status.Slots, status.Ceiling})
		eventually(t, func() bool {
			return worker[int](t, pool, status.WorkerID, "slots") == test.slots && worker[int](t, pool, status.WorkerID, "ceiling") == test.ceiling
		}, "the row says so")
	}
}
