package jobs_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
)

// exampleDatabase returns a database with a table of orders. Done drops it.
func exampleDatabase() (ctx context.Context, pool *pgxpool.Pool, done func()) {
	tb := &exampleTB{}
	pool = pgtest.New(tb)
	ctx = context.Background()
	if _, err := pool.Exec(ctx, "create table public.orders (id bigint primary key, receipts int not null default 0)"); err != nil {
		panic(err)
	}
	return ctx, pool, tb.done
}

// claimedTask returns a task as a sidecar's claim leaves it, and its order.
func claimedTask(ctx context.Context, pool *pgxpool.Pool) (id int64, lease string) {
	if _, err := pool.Exec(ctx, "insert into orders (id) values (1)"); err != nil {
		panic(err)
	}
	id, err := jobs.Enqueue(ctx, pool, SendReceipt{OrderID: 1})
	if err != nil {
		panic(err)
	}
	claim := jobs.Lease{WorkerID: "w-3f9k2m7q4t1x", AttemptedAt: time.Now()}
	if _, err := pool.Exec(ctx, `
update sched.river_job set state = 'running', attempt = 1, attempted_at = $2, attempted_by = array[$3] where id = $1`,
		id, claim.AttemptedAt, claim.WorkerID); err != nil {
		panic(err)
	}
	return id, claim.String()
}

// listTasks returns a line for each task.
func listTasks(ctx context.Context, pool *pgxpool.Pool) string {
	var lines string
	err := pool.QueryRow(ctx, `select string_agg(kind || ' ' || args || ' ' || status, e'\n' order by id) from sched.task`).Scan(&lines)
	if err != nil {
		panic(err)
	}
	return lines
}

// exampleTB lets an example, which gets no test, use what a test uses. What
// would fail a test panics.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

func (*exampleTB) Helper()                           {}
func (*exampleTB) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*exampleTB) FailNow()                          { panic("failed") }
func (tb *exampleTB) Cleanup(f func())               { tb.cleanups = append(tb.cleanups, f) }

func (tb *exampleTB) done() {
	for i := len(tb.cleanups) - 1; i >= 0; i-- {
		tb.cleanups[i]()
	}
}
