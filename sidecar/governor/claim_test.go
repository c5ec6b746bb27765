package governor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// activeWorker registers a worker without a sidecar.
func activeWorker(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	r := routing.NewRegistry(pool)
	id := routing.NewWorkerID()
	require.NoError(t, r.Register(t.Context(), routing.Worker{ID: id, ClientID: id, Protocols: []string{"http"}, Slots: 1000, Ceiling: 1000}))
	return id
}

// wholeLanes asks for everything in the queues, each priority for itself.
func wholeLanes(worker string, most int, queues ...string) dbq.TaskClaimLanesParams {
	params := dbq.TaskClaimLanesParams{WorkerID: worker, Max: int32(most), SkipKinds: []string{}, WindowRows: 10_000, BudgetMs: 10_000}
	for priority := int32(1); priority <= 4; priority++ {
		for _, queue := range queues {
			addLane(&params, queue, priority, "", 0, 100)
		}
	}
	return params
}

func addLane(params *dbq.TaskClaimLanesParams, queue string, priority int32, kind string, low, high float32) {
	params.Queues, params.Priorities, params.LaneKinds = append(params.Queues, queue), append(params.Priorities, priority), append(params.LaneKinds, kind)
	params.FromUs, params.FromIds = append(params.FromUs, -1), append(params.FromIds, 0)
	params.ToUs, params.ToIds = append(params.ToUs, math.MaxInt64), append(params.ToIds, 0)
	params.Lows, params.Highs = append(params.Lows, low), append(params.Highs, high)
}

// lanesClaim claims and returns the tasks, without the report.
func lanesClaim(t *testing.T, q *dbq.Queries, params dbq.TaskClaimLanesParams) []dbq.TaskClaimLanesRow {
	t.Helper()
	rows, err := q.TaskClaimLanes(t.Context(), params)
	require.NoError(t, err)
	require.NotEmpty(t, rows)
	require.True(t, json.Valid(rows[len(rows)-1].Report))
	return rows[:len(rows)-1]
}

func TestClaimsTakeTheMostUrgentOfAllQueues(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker, q := activeWorker(t, pool), dbq.New(pool)
	put := func() {
		exec(t, pool, `insert into sched.river_job (kind, queue, priority, args, max_attempts, state) values
			('k', 'a', 3, '{}', 25, 'available'), ('k', 'a', 3, '{}', 25, 'available'), ('k', 'b', 1, '{}', 25, 'available'),
			('k', 'c', 2, '{}', 25, 'available'), ('k', 'b', 4, '{}', 25, 'available'), ('k', 'c', 1, '{}', 25, 'available')`)
	}
	queues := []string{"a", "b", "c"}
	for name, claim := range map[string]func(most int) (priorities []int16){
		"plain": func(most int) (priorities []int16) {
			rows, err := q.TaskClaim(t.Context(), dbq.TaskClaimParams{WorkerID: worker, Queues: queues, Max: int32(most)})
			require.NoError(t, err)
			for _, row := range rows {
				priorities = append(priorities, row.Priority)
			}
			return priorities
		},
		"lanes": func(most int) (priorities []int16) {
			for _, row := range lanesClaim(t, q, wholeLanes(worker, most, queues...)) {
				priorities = append(priorities, row.Priority)
			}
			return priorities
		},
	} {
		put()
		require.ElementsMatch(t, []int16{1}, claim(1), name)
		require.ElementsMatch(t, []int16{1, 2, 3}, claim(3), name)
		require.ElementsMatch(t, []int16{3, 4}, claim(100), name)
		require.Empty(t, claim(100), name)
	}
}

func TestClaimsOfManyQueuesLockOnlyWhatTheyTake(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker := activeWorker(t, pool)
	exec(t, pool, `insert into sched.river_job (kind, queue, args, max_attempts, state)
		select 'k', 'q' || g % 300, '{}', 25, 'available' from generate_series(1, 6000) as g`)
	var queues []string
	for i := range 300 {
		queues = append(queues, fmt.Sprintf("q%d", i))
	}
	for name, claim := range map[string]func(q *dbq.Queries) int{
		"plain": func(q *dbq.Queries) int {
			rows, err := q.TaskClaim(t.Context(), dbq.TaskClaimParams{WorkerID: worker, Queues: queues, Max: 50})
			require.NoError(t, err)
			return len(rows)
		},
		"lanes": func(q *dbq.Queries) int { return len(lanesClaim(t, q, wholeLanes(worker, 50, queues...))) },
	} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		require.Equal(t, 50, claim(dbq.New(pool).WithTx(tx)), name)
		var free int
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from (select from sched.river_job where state = 'available' for update skip locked) as f`).Scan(&free))
		require.Equal(t, 6000-50, free, name)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// reads returns how many rows of river_job the session read through indexes, and how
// often it scanned the whole table, since it last reported that.
func reads(t *testing.T, tx pgx.Tx) (rows, scans int64) {
	t.Helper()
	require.NoError(t, tx.QueryRow(t.Context(), `select coalesce(idx_tup_fetch, 0), coalesce(seq_scan, 0)
		from pg_stat_xact_user_tables where relid = 'sched.river_job'::regclass`).Scan(&rows, &scans))
	return rows, scans
}

// What a claim reads doesn't depend on how much waits, whatever Postgres believes of
// the table and however often the statement ran before.
func TestClaimsReadLittleOfALargeTable(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker := activeWorker(t, pool)
	exec(t, pool, `alter table sched.river_job set (autovacuum_enabled = off)`)
	exec(t, pool, `insert into sched.river_job (kind, queue, args, max_attempts, state) select 'k', 'q0', '{}', 25, 'available' from generate_series(1, 10)`)
	exec(t, pool, `analyze sched.river_job`)
	exec(t, pool, `insert into sched.river_job (kind, queue, priority, args, max_attempts, state, scheduled_at)
		select 'k', 'q' || g % 20, 1 + g % 4, '{}', 25, 'available', now() - interval '1 hour' + g * interval '1 millisecond'
		from generate_series(1, 200000) as g`)
	exec(t, pool, `insert into sched.queue (name, base) select 'q' || g, 'q' || g from generate_series(0, 19) as g`)
	exec(t, pool, `update sched.queue set rate = 1000000, burst = 1000000, max_running = 1000000 where name = 'q1'`)
	exec(t, pool, `insert into sched.flow (scope, name, tokens) values ('queue', 'q1', 1000)`)
	var queues []string
	for i := range 20 {
		queues = append(queues, fmt.Sprintf("q%d", i))
	}
	var at int64
	require.NoError(t, pool.QueryRow(t.Context(), `select (extract(epoch from scheduled_at) * 1000000)::bigint from sched.river_job where id = 100010`).Scan(&at))
	for name, claim := range map[string]func(q *dbq.Queries) int{
		"plain": func(q *dbq.Queries) int {
			rows, err := q.TaskClaim(t.Context(), dbq.TaskClaimParams{WorkerID: worker, Queues: queues, Max: 10})
			require.NoError(t, err)
			return len(rows)
		},
		"lanes":   func(q *dbq.Queries) int { return len(lanesClaim(t, q, wholeLanes(worker, 10, queues...))) },
		"limited": func(q *dbq.Queries) int { return len(lanesClaim(t, q, wholeLanes(worker, 10, "q1"))) },
		"from a mark": func(q *dbq.Queries) int {
			params := wholeLanes(worker, 10, queues...)
			for i := range params.FromUs {
				params.FromUs[i], params.FromIds[i] = at, 100010
			}
			return len(lanesClaim(t, q, params))
		},
	} {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		for range 8 { // the plan of a prepared statement may change after five
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			rowsBefore, scansBefore := reads(t, tx)
			require.Equal(t, 10, claim(dbq.New(pool).WithTx(tx)), name)
			rows, scans := reads(t, tx)
			require.Equal(t, scansBefore, scans, name)
			// Heads, or lanes, and what is claimed, twice: to lock it and to change it.
			require.Less(t, rows-rowsBefore, int64(4*len(queues)+30), name)
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
}

func TestAgedTasksGetTheirPart(t *testing.T) {
	t.Parallel()
	for _, limited := range []bool{false, true} {
		pool := pgtest.New(t)
		exec(t, pool, `insert into sched.setting (key, value) values ('priority_ageing_seconds', '300') on conflict (key) do update set value = excluded.value`)
		if limited {
			exec(t, pool, `select sched.pause_kind('paused', now() + interval '1 hour', 'busy', 'w')`)
		}
		fill(t, pool, "default", "urgent", 100_000)
		var old, young int64
		require.NoError(t, pool.QueryRow(t.Context(), `insert into sched.river_job (kind, priority, args, max_attempts, state, scheduled_at)
			values ('old', 4, '{}', 25, 'available', now() - interval '30 minutes') returning id`).Scan(&old))
		young = enqueue(t, pool, `'young', priority => 4`)
		g := start(t, config(pool, &dispatcherFunc{work: complete}))
		eventuallyState(t, pool, old, "completed")
		require.Equal(t, "available", state(t, pool, young), "it is not its time yet")
		var urgent int
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*) from sched.river_job where kind = 'urgent' and state = 'available'`).Scan(&urgent))
		require.Positive(t, urgent, "while urgent ones wait")
		g.Hold("end of test")
	}
}

func TestWorkerOfManyQueuesFindsAllTasks(t *testing.T) {
	t.Parallel()
	for _, queues := range []int{400, 2500} {
		pool := pgtest.New(t)
		exec(t, pool, `insert into sched.queue (name, base) select 'q' || g, 'q' || g from generate_series(1, $1::int) as g`, queues)
		exec(t, pool, `insert into sched.river_job (kind, queue, args, max_attempts, state)
			select 'k', 'q' || (1 + g * 7 % $1::int), '{}', 25, 'available' from generate_series(1, 1000) as g`, queues)
		var done atomic.Int64
		start(t, config(pool, &dispatcherFunc{work: func(context.Context, *dispatch.Task) jobs.Outcome {
			done.Add(1)
			return jobs.Outcome{Kind: jobs.OutcomeComplete}
		}}))
		eventually(t, func() bool { return done.Load() == 1000 }, "all are found")
		late := enqueue(t, pool, `'k', queue => 'q17'`)
		eventuallyState(t, pool, late, "completed")
	}
}

func TestFlowsWarmUpAndCool(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `insert into sched.kind (kind, rate, burst) values ('k', 30, 1000000)`)
	for _, tt := range []struct {
		name            string
		tokens          float64
		idle, age       float64 // seconds: since the last claim, and of warmth then
		wantTokens      float64
		wantRate, delta float64
	}{
		{"cold", 0, 0, 0, 0, 10, 2},
		{"half way", 0, 15, 0, 225, 20, 2}, // 30/s × (15 s/3 + 2/3 × 15²/60 s)
		{"warm", 0, 30, 0, 600, 30, 2},     // 30/s × (30 s/3 + 2/3 × 15 s)
		{"warm for long", 0, 60, 30, 1800, 30, 2},
		{"cooled half", 1_000_003, 15, 30, 1_000_003, 20, 2},
		{"cooled", 1_000_003, 40, 30, 1_000_003, 10, 2},
	} {
		exec(t, pool, `insert into sched.flow (scope, name, tokens, refilled_at, warm_from)
			select 'kind', 'k', $1, t.at - make_interval(secs => $2), t.at - make_interval(secs => $2) - make_interval(secs => $3)
			from (select clock_timestamp() as at) as t
			on conflict (scope, name) do update set tokens = excluded.tokens, refilled_at = excluded.refilled_at, warm_from = excluded.warm_from`,
			tt.tokens, tt.idle, tt.age)
		var tokens, rate float64
		require.NoError(t, pool.QueryRow(t.Context(), `select tokens, rate_now from sched.open_flow('kind', 'k', 10)`).Scan(&tokens, &rate))
		require.InDelta(t, tt.wantTokens, tokens, 60, tt.name)
		require.InDelta(t, tt.wantRate, rate, tt.delta, tt.name)
	}
}

func TestCanaryShareIsEvenAndTheClaimsOwn(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker, q := activeWorker(t, pool), dbq.New(pool)
	var shares int
	for _, stride := range []int{1, 2, 3, 7, 10, 64} {
		require.NoError(t, pool.QueryRow(t.Context(), `select count(*) filter (where sched.canary_share(5000000000 + g * $1::bigint) < 15)
			from generate_series(1, 1000) as g`, stride).Scan(&shares))
		require.InDelta(t, 150, shares, 20, "of a thousand tasks with a stride of %d", stride)
	}
	exec(t, pool, `insert into sched.river_job (kind, args, max_attempts, state) select 'k', '{}', 25, 'available' from generate_series(1, 1000)`)
	params := dbq.TaskClaimLanesParams{WorkerID: worker, Max: 1000, SkipKinds: []string{}, WindowRows: 10_000, BudgetMs: 10_000}
	addLane(&params, "default", 1, "", 30, 50)
	ids := map[int64]bool{}
	for _, row := range lanesClaim(t, q, params) {
		ids[row.ID] = true
	}
	rows, err := pool.Query(t.Context(), `select id from sched.river_job where sched.canary_share(id) >= 30 and sched.canary_share(id) < 50`)
	require.NoError(t, err)
	want, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	require.NotEmpty(t, want)
	require.Len(t, ids, len(want))
	for _, id := range want {
		require.True(t, ids[id])
	}
}

// max_running holds whatever claims meet each other, and what a dead worker held is
// free once its tasks are rescued.
func TestMaxRunningHoldsAmongRacingClaims(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fill(t, pool, "narrow", "k", 1000)
	exec(t, pool, `update sched.queue set max_running = 7 where name = 'narrow'`)
	worker, q := activeWorker(t, pool), dbq.New(pool)
	var claimed atomic.Int64
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			for range 20 {
				rows, err := q.TaskClaimLanes(t.Context(), wholeLanes(worker, 3, "narrow"))
				if err != nil {
					return err
				}
				claimed.Add(int64(len(rows) - 1))
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, int64(7), claimed.Load())
	require.Empty(t, lanesClaim(t, q, wholeLanes(worker, 3, "narrow")))

	r := routing.NewRegistry(pool)
	evicted, rescued, err := r.Evict(t.Context(), beatOf(t, pool, worker), "test")
	require.NoError(t, err)
	require.True(t, evicted)
	require.Len(t, rescued, 7)
	none, err := q.TaskClaimLanes(t.Context(), wholeLanes(worker, 3, "narrow"))
	require.NoError(t, err)
	require.Empty(t, none, "an evicted worker gets nothing, not even a report")
	require.Len(t, lanesClaim(t, q, wholeLanes(activeWorker(t, pool), 10, "narrow")), 7)
}

// The commit of another max_running waits for the claim that is under way by the old
// one, and claims don't wait for the change: once it is committed, nothing starts above it.
func TestMaxRunningMovesBetweenClaims(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fill(t, pool, "narrow", "k", 100)
	exec(t, pool, `update sched.queue set max_running = 7 where name = 'narrow'`)
	worker, q := activeWorker(t, pool), dbq.New(pool)
	begin := func() pgx.Tx {
		t.Helper()
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
		_, err = tx.Exec(t.Context(), `set local lock_timeout = '50ms'`)
		require.NoError(t, err)
		return tx
	}
	const move = `update sched.queue set max_running = 2 where name = 'narrow'`
	require.Len(t, lanesClaim(t, q, wholeLanes(worker, 1, "narrow")), 1)
	claim := begin()
	require.Len(t, lanesClaim(t, q.WithTx(claim), wholeLanes(worker, 2, "narrow")), 2)
	early := begin()
	_, err := early.Exec(t.Context(), move)
	require.NoError(t, err)
	var refusal *pgconn.PgError
	require.ErrorAs(t, early.Commit(t.Context()), &refusal)
	require.Equal(t, "55P03", refusal.Code, "it waits for the claim")
	exec(t, pool, `update sched.queue set description = 'Narrow' where name = 'narrow'`)
	require.NoError(t, claim.Commit(t.Context()))

	change := begin()
	_, err = change.Exec(t.Context(), move)
	require.NoError(t, err)
	require.Len(t, lanesClaim(t, q, wholeLanes(worker, 1, "narrow")), 1, "a change that isn't committed stops nothing")
	require.NoError(t, change.Commit(t.Context()))
	require.Empty(t, lanesClaim(t, q, wholeLanes(worker, 3, "narrow")), "four run, two may")
}

// A task of a limited kind in a limited queue obeys both limits.
func TestLimitsOfQueueAndKindAddUp(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker, q := activeWorker(t, pool), dbq.New(pool)
	fill(t, pool, "narrow", "slow", 100)
	fill(t, pool, "narrow", "other", 100)
	exec(t, pool, `update sched.queue set rate = 0.001, burst = 5 where name = 'narrow'`)
	exec(t, pool, `insert into sched.kind (kind, rate, burst) values ('slow', 0.001, 3)`)
	exec(t, pool, `insert into sched.flow (scope, name, tokens) values ('queue', 'narrow', 5), ('kind', 'slow', 3)`)
	params := dbq.TaskClaimLanesParams{WorkerID: worker, Max: 50, SkipKinds: []string{"slow"}, WindowRows: 10_000, BudgetMs: 10_000}
	addLane(&params, "narrow", 1, "slow", 0, 100)
	addLane(&params, "narrow", 1, "", 0, 100)
	kinds := map[string]int{}
	for _, row := range lanesClaim(t, q, params) {
		kinds[row.Kind]++
	}
	require.Equal(t, map[string]int{"slow": 3, "other": 2}, kinds)
	require.Empty(t, lanesClaim(t, q, params))
	var left float64
	require.NoError(t, pool.QueryRow(t.Context(), `select sum(tokens) from sched.flow`).Scan(&left))
	require.Less(t, left, 0.1)
}

// A window bounds what a claim reads, also among tasks that start at the same time.
func TestWindowsBoundWhatIsRead(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	worker := activeWorker(t, pool)
	fill(t, pool, "default", "left", 20_000)
	fill(t, pool, "default", "other", 3)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	q := dbq.New(pool).WithTx(tx)
	params := dbq.TaskClaimLanesParams{WorkerID: worker, Max: 10, SkipKinds: []string{"left"}, WindowRows: 1000, BudgetMs: 10_000}
	addLane(&params, "default", 1, "", 0, 100)
	found := 0
	for window := range 21 {
		params.ToUs[0] = -1
		before, _ := reads(t, tx)
		rows, err := q.TaskClaimLanes(t.Context(), params)
		require.NoError(t, err)
		after, _ := reads(t, tx)
		require.Less(t, after-before, int64(2500), "window %d: to find its end, and through it", window)
		found += len(rows) - 1
		var report struct {
			Lanes []struct {
				EndUS int64 `json:"end_us"`
				EndID int64 `json:"end_id"`
			} `json:"lanes"`
		}
		require.NoError(t, json.Unmarshal(rows[len(rows)-1].Report, &report))
		params.FromUs[0], params.FromIds[0] = report.Lanes[0].EndUS, report.Lanes[0].EndID
	}
	require.Equal(t, 3, found)
}
