package governor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/governor"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// evict takes the worker out as a leader does that saw its heartbeat stand still.
func evict(t *testing.T, pool *pgxpool.Pool, workerID string) []routing.Rescued {
	t.Helper()
	registry := routing.NewRegistry(pool)
	var rescued []routing.Rescued
	eventually(t, func() bool {
		evicted, tasks, err := registry.Evict(t.Context(), beatOf(t, pool, workerID), "test")
		require.NoError(t, err)
		rescued = tasks
		return evicted // false: it beat just now
	}, "the worker is evicted")
	return rescued
}

// beatOf is a worker's heartbeat as a leader sees it.
func beatOf(t *testing.T, pool *pgxpool.Pool, workerID string) routing.Beat {
	t.Helper()
	beat := routing.Beat{WorkerID: workerID}
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT heartbeat_seq FROM sched.worker WHERE id = $1", workerID).Scan(&beat.Seq))
	return beat
}

func counter(t *testing.T, cfg governor.Config, name string) float64 {
	t.Helper()
	families, err := cfg.Registerer.(*prometheus.Registry).Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.FailNow(t, "no metric "+name)
	return 0
}

func TestEvictedWorkerLosesItsTasksAndComesBackAsAnother(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	cfg := config(pool, &dispatcherFunc{work: b.work})
	g := start(t, cfg)
	id := enqueue(t, pool, `'k'`)
	first := b.next(t)
	before := g.Status().WorkerID
	rescued := evict(t, pool, before)
	require.Equal(t, []routing.Rescued{{TaskID: id, Kind: "k", WorkerID: before, State: "available"}}, rescued)

	second := b.next(t) // the call for the first attempt is ended, the second one runs
	require.NotEqual(t, before, g.Status().WorkerID)
	require.Equal(t, g.Status().WorkerID, second.Lease.WorkerID)
	require.Equal(t, 2, second.Attempt)
	require.NotEqual(t, first.Lease, second.Lease)
	eventually(t, func() bool { return counter(t, cfg, "sched_settles_refused_total") == 1 }, "the first attempt's settle is refused and counted")
	require.Equal(t, "running", state(t, pool, id))
	b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	eventuallyState(t, pool, id, "completed")
	require.Equal(t, second.Lease.WorkerID, column[string](t, pool, id, "attempted_by[cardinality(attempted_by)]"))
}

func TestTaskWhoseWorkersDieIsDiscardedAsAPoisonPill(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	start(t, config(pool, &dispatcherFunc{work: b.work}))
	id := enqueue(t, pool, `'killer'`)
	for range 3 {
		evict(t, pool, b.next(t).Lease.WorkerID)
	}
	require.Equal(t, "discarded", state(t, pool, id))
	require.Contains(t, column[string](t, pool, id, "errors[cardinality(errors)] ->> 'error'"), "poison pill: 3 workers died")
}

func TestSilentWorkerIsEvictedByTheLeader(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	held, free := enqueue(t, pool, `'k'`), enqueue(t, pool, `'k'`)
	claimOne(t, pool, "w-dead")
	claimOne(t, pool, "w-dead")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `select 1 from sched.river_job where id = $1 for update`, held)
	require.NoError(t, err)

	cfg := config(pool, &dispatcherFunc{work: complete})
	cfg.FenceAfter, cfg.EvictAfter = 4*time.Second, 5*time.Second
	start(t, cfg)
	eventuallyState(t, pool, free, "completed")
	require.Equal(t, 2, column[int](t, pool, free, "attempt"))
	var workerState string
	require.NoError(t, pool.QueryRow(t.Context(), `select state from sched.worker where id = 'w-dead'`).Scan(&workerState))
	require.Equal(t, "evicted", workerState)

	require.Equal(t, "running", state(t, pool, held), "an app that holds its task's row blocks neither the eviction nor the rescue of others")
	require.NoError(t, tx.Rollback(t.Context()))
	eventuallyState(t, pool, held, "completed")
	require.Equal(t, 2, column[int](t, pool, held, "attempt"), "the leader's sweep rescued it")
}

// settleDB is a database whose answers can be lost.
type settleDB struct {
	dbq.Querier
	loseNext int
}

var errAnswerLost = errors.New("answer lost")

func (d *settleDB) TaskSettle(ctx context.Context, params dbq.TaskSettleParams) ([]dbq.TaskSettleRow, error) {
	rows, err := d.Querier.TaskSettle(ctx, params)
	if d.loseNext > 0 {
		d.loseNext--
		return nil, errAnswerLost
	}
	return rows, err
}

func (d *settleDB) TaskComplete(ctx context.Context, params dbq.TaskCompleteParams) ([]int32, error) {
	written, err := d.Querier.TaskComplete(ctx, params)
	if d.loseNext > 0 {
		d.loseNext--
		return nil, errAnswerLost
	}
	return written, err
}

func claimOne(t *testing.T, pool *pgxpool.Pool, worker string) (int64, jobs.Lease) {
	t.Helper()
	row := claimRow(t, pool, worker)
	return row.ID, jobs.Lease{WorkerID: worker, AttemptedAt: row.AttemptedAt}
}

func claimRow(t *testing.T, pool *pgxpool.Pool, worker string) dbq.TaskClaimRow {
	t.Helper()
	_, err := pool.Exec(t.Context(), `insert into sched.worker (id, client_id) values ($1, $1) on conflict do nothing`, worker)
	require.NoError(t, err)
	rows, err := dbq.New(pool).TaskClaim(t.Context(), dbq.TaskClaimParams{Queues: []string{"default"}, Max: 1, WorkerID: worker})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	return rows[0]
}

func runSettler(t *testing.T, db dbq.Querier) *jobs.Settler {
	t.Helper()
	settler := jobs.NewSettler(db, testLogger())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = settler.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return settler
}

func TestSettleWhoseAnswerWasLostIsReplayedHarmlessly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		outcome jobs.Outcome
		status  string
	}{
		{jobs.Outcome{Kind: jobs.OutcomeComplete}, "completed"},
		{jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "x", Delay: time.Millisecond}, "retryable"},
		{jobs.Outcome{Kind: jobs.OutcomeSnooze, Delay: time.Millisecond}, "scheduled"},
		{jobs.Outcome{Kind: jobs.OutcomeSnooze}, "available"},
		{jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "x"}, "cancelled"},
		{jobs.Outcome{Kind: jobs.OutcomeDiscard, Error: "x"}, "discarded"},
		{jobs.Outcome{Kind: jobs.OutcomeHandBack}, "available"},
	} {
		outcome := test.outcome
		t.Run(fmt.Sprintf("%s after %s", outcome.Kind, outcome.Delay), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			id := enqueue(t, pool, `'k'`)
			_, lease := claimOne(t, pool, "w-same")
			settler := runSettler(t, &settleDB{Querier: dbq.New(pool), loseNext: 2})
			result, err := settler.Settle(t.Context(), jobs.Settlement{TaskID: id, Lease: lease, Outcome: outcome})
			require.NoError(t, err)
			require.Equal(t, jobs.SettleResult{Verdict: jobs.Replayed, State: test.status}, result)
			require.LessOrEqual(t, column[int](t, pool, id, "coalesce(cardinality(errors), 0)"), 1, "the error is on record once")

			// The next attempt runs on the same worker: a late replay of the first must not touch it.
			_, err = pool.Exec(t.Context(), `select sched.retry($1)`, id)
			require.NoError(t, err)
			_, again := claimOne(t, pool, "w-same")
			require.NotEqual(t, lease, again)
			result, err = settler.Settle(t.Context(), jobs.Settlement{TaskID: id, Lease: lease, Outcome: outcome})
			require.NoError(t, err)
			require.NotEqual(t, jobs.Settled, result.Verdict)
			require.Equal(t, "running", state(t, pool, id))
			result, err = settler.Settle(t.Context(), jobs.Settlement{TaskID: id, Lease: again, Outcome: jobs.Outcome{Kind: jobs.OutcomeComplete}})
			require.NoError(t, err)
			require.Equal(t, jobs.Settled, result.Verdict)
		})
	}
}

func TestSettleWaitsForARowThatTheAppHoldsAndOthersDoNot(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	first, second := enqueue(t, pool, `'k'`), enqueue(t, pool, `'k'`)
	_, firstLease := claimOne(t, pool, "w-1")
	_, secondLease := claimOne(t, pool, "w-1")
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{})
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `select sched.complete($1, $2)`, first, firstLease.String())
	require.NoError(t, err)

	settler := runSettler(t, dbq.New(pool))
	held := make(chan jobs.SettleResult, 1)
	go func() {
		result, err := settler.Settle(context.Background(), jobs.Settlement{TaskID: first, Lease: firstLease, Outcome: jobs.Outcome{Kind: jobs.OutcomeComplete}})
		if err == nil {
			held <- result
		}
	}()
	result, err := settler.Settle(t.Context(), jobs.Settlement{TaskID: second, Lease: secondLease, Outcome: jobs.Outcome{Kind: jobs.OutcomeComplete}})
	require.NoError(t, err)
	require.Equal(t, jobs.Settled, result.Verdict, "another task's settle doesn't wait")
	require.Empty(t, held)
	require.NoError(t, tx.Commit(t.Context()))
	select {
	case result := <-held:
		require.Equal(t, jobs.Replayed, result.Verdict, "the app has completed it")
	case <-time.After(patience):
		require.FailNow(t, "the settle never got its answer")
	}
}

func TestAcceptedTaskIsSettledLater(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	accepted := make(chan *dispatch.Task, 10)
	g := start(t, config(pool, &dispatcherFunc{work: func(_ context.Context, task *dispatch.Task) jobs.Outcome {
		accepted <- task
		return jobs.Outcome{Kind: jobs.OutcomeAccepted}
	}}))
	viaSidecar := enqueue(t, pool, `'k'`)
	task := <-accepted
	require.NoError(t, g.SettleAccepted(t.Context(), task.ID, task.Lease, jobs.Outcome{Kind: jobs.OutcomeComplete, Output: []byte(`42`)}))
	require.Equal(t, "completed", state(t, pool, viaSidecar))
	require.Equal(t, "42", column[string](t, pool, viaSidecar, "metadata ->> 'output'"))
	stale := task.Lease
	stale.AttemptedAt = stale.AttemptedAt.Add(-time.Second)
	require.ErrorIs(t, g.SettleAccepted(t.Context(), task.ID, stale, jobs.Outcome{Kind: jobs.OutcomeRetry}), jobs.ErrLeaseLost)

	viaSQL := enqueue(t, pool, `'k'`)
	task = <-accepted
	_, err := pool.Exec(t.Context(), `select sched.complete($1, $2)`, viaSQL, task.Lease.String())
	require.NoError(t, err)
	tooLate := enqueue(t, pool, `'k', timeout => '300 ms', max_attempts => 1`)
	<-accepted
	eventuallyState(t, pool, tooLate, "discarded")
	eventually(t, func() bool { return g.Status().Running == 0 }, "no slot stays taken")
}

func TestDrainFromOutsideIsNoticed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	g := start(t, config(pool, &dispatcherFunc{work: b.work}))
	running := enqueue(t, pool, `'k'`)
	b.next(t)
	_, err := pool.Exec(t.Context(), `select sched.drain_worker($1)`, g.Status().WorkerID)
	require.NoError(t, err)
	waiting := enqueue(t, pool, `'k'`)
	eventually(t, func() bool { return len(g.Status().Holds) == 1 }, "the sidecar shows it")
	require.Equal(t, []string{"draining"}, g.Status().Holds)
	b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	eventuallyState(t, pool, running, "completed")
	require.Equal(t, "available", state(t, pool, waiting), "a draining worker takes nothing new, from the first moment on")
}

// A draining worker that is evicted gives up what it runs and is no worker any more:
// it has no contact to lose.
func TestEvictedWhileDraining(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	cfg := config(pool, &dispatcherFunc{work: b.work})
	cfg.HeartbeatInterval, cfg.FenceAfter, cfg.EvictAfter = 200*time.Millisecond, 4*time.Second, 5*time.Second
	g := start(t, cfg)
	id := enqueue(t, pool, `'k'`)
	b.next(t)
	_, err := pool.Exec(t.Context(), `select sched.drain_worker($1)`, g.Status().WorkerID)
	require.NoError(t, err)
	eventually(t, func() bool { return len(g.Status().Holds) == 1 }, "the sidecar shows it")
	evict(t, pool, g.Status().WorkerID)
	eventually(t, func() bool { return g.Status().Running == 0 }, "the call is ended")
	require.Equal(t, "available", state(t, pool, id))
	<-time.After(cfg.FenceAfter + cfg.HeartbeatInterval)
	require.Equal(t, []string{"draining"}, g.Status().Holds)
	require.Zero(t, counter(t, cfg, "sched_fences_total"))
}

// An operator's open transaction may hold a dead worker's row.
func TestWorkerThatCannotBeEvictedNowKeepsNoOtherFromIt(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `insert into sched.worker (id, client_id, state) values ('w-a', 'a', 'active'), ('w-b', 'b', 'active')`)
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `select sched.drain_worker('w-a')`)
	require.NoError(t, err)

	cfg := config(pool, &dispatcherFunc{work: complete})
	cfg.FenceAfter, cfg.EvictAfter = 4*time.Second, 5*time.Second
	start(t, cfg)
	worker := func(id string) (state string) {
		require.NoError(t, pool.QueryRow(t.Context(), `select state from sched.worker where id = $1`, id).Scan(&state))
		return state
	}
	eventually(t, func() bool { return worker("w-b") == "evicted" }, "the other is evicted")
	require.NoError(t, tx.Commit(t.Context()))
	eventually(t, func() bool { return worker("w-a") == "evicted" }, "and this one when its row is free")
}

// A River client may have left `retryable` out of the states of its unique keys:
// making such a task available waits for who is inserting its key.
func TestPromotingThatWaitsKeepsNobodyFromEviction(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const insert = `insert into sched.river_job (kind, args, max_attempts, state, scheduled_at, unique_key, unique_states)
		values ('k', '{}', 25, $1, now() - interval '1 s', '\x01', B'11010001')`
	_, err := pool.Exec(t.Context(), `insert into sched.worker (id, client_id, state) values ('w-a', 'a', 'active')`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), insert, "retryable")
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), insert, "available")
	require.NoError(t, err)

	cfg := config(pool, &dispatcherFunc{work: complete})
	cfg.FenceAfter, cfg.EvictAfter = 4*time.Second, 5*time.Second
	start(t, cfg)
	eventually(t, func() bool {
		var state string
		require.NoError(t, pool.QueryRow(t.Context(), `select state from sched.worker where id = 'w-a'`).Scan(&state))
		return state == "evicted"
	}, "the dead worker is evicted")
}

// Whoever writes rows by hand can give a unique key states that leave out `running`.
func TestOutcomeThatAConstraintRefusesHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	b := newBlocker()
	cfg := config(pool, &dispatcherFunc{work: b.work})
	cfg.Kinds = []string{"k"}
	start(t, cfg)
	const insert = `insert into sched.river_job (kind, args, max_attempts, unique_key, unique_states)
		values ($1, '{}', 25, '\x01', B'00000001') returning id`
	var odd int64
	require.NoError(t, pool.QueryRow(t.Context(), insert, "k").Scan(&odd))
	b.next(t)
	_, err := pool.Exec(t.Context(), insert, "other") // takes the key
	require.NoError(t, err)
	b.release <- jobs.Outcome{Kind: jobs.OutcomeHandBack}
	eventuallyState(t, pool, odd, "discarded")
	id := enqueue(t, pool, `'k'`)
	b.next(t)
	b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	eventuallyState(t, pool, id, "completed")
}
