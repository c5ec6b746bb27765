package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
)

// taskRow is a task as the view sched.task shows it.
type taskRow struct {
	Kind, Queue, Status string
	Priority            int
	MaxAttempts         int
	RunAt               time.Time
	Now                 time.Time
	Args                string
	Selector            string
	Protocol            string
	Batch, UniqueKey    *string
	Headers             string
	Timeout             *time.Duration
}

func taskOf(t *testing.T, pool *pgxpool.Pool, id int64) taskRow {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
select kind, queue, status::text as status, priority, max_attempts, run_at, created_at as now, args::text as args,
	coalesce(selector, '{}')::text as selector, protocol, batch, unique_key,
	coalesce(headers, '{}')::text as headers, timeout
from sched.task where id = $1`, id)
	require.NoError(t, err)
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[taskRow])
	require.NoError(t, err)
	return row
}

func TestTaskExistsWhenItsTransactionCommits(t *testing.T) {
	t.Parallel()

	eachFamily(t, func(t *testing.T, pool *pgxpool.Pool, h handle) {
		_, err := pool.Exec(t.Context(), "create table public.orders (id int primary key)")
		require.NoError(t, err)
		const orders, tasks = "select count(*) from public.orders", "select count(*) from sched.task"
		enqueue := func(order int) transaction {
			tx := h.begin(t)
			tx.exec(t, "insert into public.orders values ($1)", order)
			_, err := jobs.EnqueueTx(t.Context(), tx, note{Text: "one"})
			require.NoError(t, err)
			_, err = jobs.EnqueueManyTx(t.Context(), tx, []jobs.Task{{Args: note{}}, {Args: note{}}})
			require.NoError(t, err)
			return tx
		}

		require.NoError(t, enqueue(1).Rollback(t.Context()))
		require.Zero(t, one[int](t, pool, orders))
		require.Zero(t, one[int](t, pool, tasks))

		tx := enqueue(2)
		require.Zero(t, one[int](t, pool, tasks), "visible before the commit")
		require.NoError(t, tx.Commit(t.Context()))
		require.Equal(t, 1, one[int](t, pool, orders))
		require.Equal(t, 3, one[int](t, pool, tasks))
	})
}

func TestDefaults(t *testing.T) {
	t.Parallel()

	eachFamily(t, func(t *testing.T, pool *pgxpool.Pool, h handle) {
		single, err := jobs.Enqueue(t.Context(), h.db, jobs.Raw("bare", nil))
		require.NoError(t, err)
		many, err := jobs.EnqueueMany(t.Context(), h.db, []jobs.Task{{Args: jobs.Raw("bare", nil)}})
		require.NoError(t, err)
		require.Len(t, many, 1)

		for _, id := range []int64{single, many[0]} {
			got := taskOf(t, pool, id)
			require.WithinDuration(t, got.Now, got.RunAt, time.Second)
			got.Now, got.RunAt = time.Time{}, time.Time{}
			require.Equal(t, taskRow{
				Kind: "bare", Queue: "default", Status: "available", Priority: 1, MaxAttempts: 25,
				Args: "{}", Selector: "{}", Protocol: "any", Headers: "{}",
			}, got)
		}
	})
}

func TestEveryOptionArrives(t *testing.T) {
	t.Parallel()

	runAt := time.Date(2099, 12, 31, 23, 59, 59, 123456000, time.UTC)
	options := func(key string) []jobs.Option {
		return []jobs.Option{
			jobs.Queue("mail"),
			jobs.Priority(3),
			jobs.RunAt(runAt),
			jobs.Selector(map[string]string{"region": "eu", "gpu": "yes"}),
			jobs.Protocol(jobs.ProtocolGRPC),
			jobs.UniqueKey(key),
			jobs.MaxAttempts(7),
			jobs.Timeout(90*time.Second + 250*time.Millisecond),
			jobs.Batch("import 7"),
			jobs.Headers(map[string]string{"traceparent": "00-abc-01", "quote": `"'\`}),
		}
	}
	args := jobs.Raw("mail.send", json.RawMessage(`{"to": "ann@example.com", "text": "<ä> & ☃"}`))

	eachFamily(t, func(t *testing.T, pool *pgxpool.Pool, h handle) {
		single, err := jobs.Enqueue(t.Context(), h.db, args, options("k1")...)
		require.NoError(t, err)
		many, err := jobs.EnqueueMany(t.Context(), h.db, []jobs.Task{{Args: args, Options: options("k2")}})
		require.NoError(t, err)
		require.Len(t, many, 1)

		for id, key := range map[int64]string{single: "k1", many[0]: "k2"} {
			got := taskOf(t, pool, id)
			require.Equal(t, runAt, got.RunAt.UTC())
			require.True(t, strings.HasPrefix(got.Queue, "mail|"), "queue %q is derived from mail", got.Queue)
			require.JSONEq(t, `{"to": "ann@example.com", "text": "<ä> & ☃"}`, got.Args)
			require.JSONEq(t, `{"region": "eu", "gpu": "yes"}`, got.Selector)
			require.JSONEq(t, `{"traceparent": "00-abc-01", "quote": "\"'\\"}`, got.Headers)
			require.Equal(t, 90*time.Second+250*time.Millisecond, *got.Timeout)
			require.Equal(t, key, *got.UniqueKey)
			require.Equal(t, "import 7", *got.Batch)
			require.Equal(t,
				[]any{"mail.send", "scheduled", 3, 7, "grpc"},
				[]any{got.Kind, got.Status, got.Priority, got.MaxAttempts, got.Protocol})
		}
	})
}

// A delay is the server's arithmetic, also for one task among many.
func TestDelayCountsOnTheServer(t *testing.T) {
	t.Parallel()

	eachFamily(t, func(t *testing.T, pool *pgxpool.Pool, h handle) {
		single, err := jobs.Enqueue(t.Context(), h.db, note{}, jobs.Delay(time.Hour))
		require.NoError(t, err)
		many, err := jobs.EnqueueMany(t.Context(), h.db, []jobs.Task{
			{Args: note{}},
			{Args: note{}, Options: []jobs.Option{jobs.Delay(time.Hour), jobs.Queue("later")}},
		})
		require.NoError(t, err)
		require.Len(t, many, 2)

		for _, id := range []int64{single, many[1]} {
			got := taskOf(t, pool, id)
			require.Equal(t, "scheduled", got.Status)
			require.WithinDuration(t, got.Now.Add(time.Hour), got.RunAt, 10*time.Second)
		}
		require.Equal(t, "later", taskOf(t, pool, many[1]).Queue)
		require.Equal(t, "available", taskOf(t, pool, many[0]).Status)
	})
}

func TestEnqueueManyKeepsOrder(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t)
	const n = 10_000
	tasks := make([]jobs.Task, n)
	for i := range tasks {
		tasks[i] = jobs.Task{
			Args: jobs.Raw("order", fmt.Appendf(nil, `{"n": %d}`, i)),
			// Queues and priorities that would show a sort by either.
			Options: []jobs.Option{jobs.Queue(fmt.Sprintf("q%d", i%3)), jobs.Priority(4 - i%4)},
		}
	}
	started := time.Now()
	ids, err := jobs.EnqueueMany(t.Context(), pool, tasks)
	require.NoError(t, err)
	t.Logf("%d tasks in %s", n, time.Since(started))
	require.Len(t, ids, n)

	rows, err := pool.Query(t.Context(), `
select (t.args->>'n')::int from unnest($1::bigint[]) with ordinality as i (id, n) join sched.task t on t.id = i.id order by i.n`, ids)
	require.NoError(t, err)
	order, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	require.Len(t, order, n)
	for i, got := range order {
		require.Equal(t, i, got)
	}
}

func TestEnqueueManyIsAllOrNothing(t *testing.T) {
	t.Parallel()

	eachFamily(t, func(t *testing.T, pool *pgxpool.Pool, h handle) {
		_, err := jobs.EnqueueMany(t.Context(), h.db, []jobs.Task{
			{Args: note{}},
			{Args: note{}},
			{Args: note{}, Options: []jobs.Option{jobs.Priority(9)}},
		})
		require.ErrorIs(t, err, jobs.ErrInvalidArgument)
		require.ErrorContains(t, err, "tasks[2]")
		require.Zero(t, one[int](t, pool, "select count(*) from sched.task"))
	})
}

func TestUniqueKey(t *testing.T) {
	t.Parallel()

	eachFamily(t, func(t *testing.T, pool *pgxpool.Pool, h handle) {
		key := jobs.UniqueKey("customer 5")
		first, err := jobs.Enqueue(t.Context(), h.db, note{}, key)
		require.NoError(t, err)
		again, err := jobs.Enqueue(t.Context(), h.db, note{Text: "other args"}, key, jobs.Queue("other"))
		require.NoError(t, err)
		require.Equal(t, first, again)

		otherKind, err := jobs.Enqueue(t.Context(), h.db, jobs.Raw("other", nil), key)
		require.NoError(t, err)
		require.NotEqual(t, first, otherKind, "a key belongs to its kind")

		many, err := jobs.EnqueueMany(t.Context(), h.db, []jobs.Task{
			{Args: note{}},
			{Args: note{}, Options: []jobs.Option{key}},
			{Args: note{}, Options: []jobs.Option{jobs.UniqueKey("customer 6")}},
			{Args: note{}, Options: []jobs.Option{jobs.UniqueKey("customer 6")}},
		})
		require.NoError(t, err)
		require.Len(t, many, 4)
		require.Equal(t, first, many[1])
		require.Equal(t, many[2], many[3])
		require.NotEqual(t, first, many[0])

		_, err = jobs.Cancel(t.Context(), h.db, first)
		require.NoError(t, err)
		next, err := jobs.Enqueue(t.Context(), h.db, note{}, key)
		require.NoError(t, err)
		require.NotEqual(t, first, next, "a task that ended gives its key back")
	})
}

func TestUniqueKeyUnderConcurrency(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t)
	const callers = 16
	ids := make([]int64, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			ids[i], errs[i] = jobs.Enqueue(t.Context(), pool, note{}, jobs.UniqueKey("one"))
		})
	}
	wg.Wait()
	for i := range callers {
		require.NoError(t, errs[i])
		require.Equal(t, ids[0], ids[i])
	}
	require.Equal(t, 1, one[int](t, pool, "select count(*) from sched.task"))
}

// Transactions that stay open for long must not make each other wait, not
// even when all are the first to use a queue.
func TestOpenTransactionsDontBlockEnqueue(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	first, err := pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = first.Rollback(context.Background()) }()
	_, err = jobs.EnqueueTx(ctx, first, note{}, jobs.Queue("fresh"))
	require.NoError(t, err)

	second, err := pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = second.Rollback(context.Background()) }()
	_, err = jobs.EnqueueTx(ctx, second, note{}, jobs.Queue("fresh"))
	require.NoError(t, err)
	_, err = jobs.EnqueueManyTx(ctx, second, []jobs.Task{{Args: note{}, Options: []jobs.Option{jobs.Queue("fresh")}}})
	require.NoError(t, err)

	require.NoError(t, second.Commit(ctx))
	require.NoError(t, first.Commit(ctx))
	require.Equal(t, 3, one[int](t, pool, "select count(*) from sched.task where queue = 'fresh'"))
}
