package books_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/examples/carryover/books"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// carryAllSQL carries every order as a completed task would have.
const carryAllSQL = `
with task as (
    insert into sched.river_job (kind, queue, args, state, attempt, max_attempts, attempted_at, attempted_by, finalized_at)
    values ('carryover', 'default', '{}', 'completed', 1, 25, now(), '{w-000000000001}', now()) returning id
), carry as (
    insert into books.carried (order_id, month, amount_cents, task_id, attempt)
    select o.id, '2026-11',
           case when total_cents > paid_cents then (total_cents - paid_cents) + ((total_cents - paid_cents) * 5 + 500) / 1000
                else total_cents - paid_cents end,
           task.id, 1
    from books.orders o, task
)
update books.orders set status = 'CARRIED'`

func TestMain(m *testing.M) { pgtest.Main(m) }

func setup(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	require.NoError(t, books.Create(t.Context(), pool, 300))
	return pool
}

func TestCheckFindsBooksInOrder(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	_, err := pool.Exec(t.Context(), carryAllSQL)
	require.NoError(t, err)

	report, err := books.Check(t.Context(), pool)
	require.NoError(t, err)
	require.Empty(t, report.Problems())
	require.Equal(t, int64(300), report.Once)
	require.Positive(t, report.DueCents)
}

func TestCheckFindsEveryDisorder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ harm, found string }{
		"lost":          {`delete from books.carried where order_id = 7`, "1 orders were never carried"},
		"twice":         {`insert into books.carried select * from books.carried where order_id in (7, 8)`, "2 orders were carried more than once"},
		"a cent off":    {`update books.carried set amount_cents = amount_cents + 1 where order_id = 7`, "1 orders were carried with a wrong amount"},
		"status behind": {`update books.orders set status = 'PROCESSING' where id = 7`, "1 orders were carried with a wrong amount or status"},
		"stray":         {`update books.carried set order_id = 100000 where order_id = 7`, "1 carried orders don't exist"},
		"no order":      {`truncate books.orders, books.carried`, "there are no orders"},
		"unproven": {
			`update books.carried set attempt = 2 where order_id = 7`, "1 carry rows belong to no completed attempt",
		},
		"unfinished": {
			`insert into sched.river_job (kind, queue, args, max_attempts) values ('carryover', 'default', '{}', 25)`, "1 of 2 tasks completed",
		},
		"sum": {
			`update books.carried set amount_cents = amount_cents + case order_id when 7 then 100 else 0 end`, "the orders add up to",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := setup(t)
			_, err := pool.Exec(t.Context(), carryAllSQL)
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), test.harm)
			require.NoError(t, err)

			report, err := books.Check(t.Context(), pool)
			require.NoError(t, err)
			require.Contains(t, join(report.Problems()), test.found)
		})
	}
}

func join(lines []string) string {
	var all string
	for _, line := range lines {
		all += line + "\n"
	}
	return all
}

func TestOrdersAreOfEverySort(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	for sort, condition := range map[string]string{
		"owing": "total_cents > paid_cents", "settled": "total_cents = paid_cents", "credit": "total_cents < paid_cents",
	} {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), "select count(*) from books.orders where "+condition).Scan(&n))
		require.Greater(t, n, 10, sort)
	}
}
