package governor_test

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/migrations"
	"github.com/sched-sidecar/sched/sidecar/governor"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// TestRiverVersion holds the seam to the version it was made for. River's pilot,
// driver and executor are internal to it. Before changing the version here, read
// River's changes to them and to its producer and completer; the tests of this
// package then say whether the seam still holds.
func TestRiverVersion(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	for _, module := range []string{"river", "river/riverdriver", "river/riverdriver/riverpgxv5", "river/rivershared"} {
		require.Contains(t, string(mod), "github.com/riverqueue/"+module+" v0.51.2")
	}
}

// lostClaim is a database that commits a claim and loses its answer.
type lostClaim struct {
	dbq.Querier
	lose atomic.Bool
}

func (d *lostClaim) TaskClaim(ctx context.Context, params dbq.TaskClaimParams) ([]dbq.TaskClaimRow, error) {
	rows, err := d.Querier.TaskClaim(ctx, params)
	if err == nil && len(rows) > 0 && d.lose.CompareAndSwap(true, false) {
		return nil, io.ErrUnexpectedEOF
	}
	return rows, err
}

func TestTasksOfAClaimWhoseAnswerWasLostAreHandedBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	d := &dispatcherFunc{work: complete}
	g, err := governor.New(config(pool, d))
	require.NoError(t, err)
	db := &lostClaim{}
	db.lose.Store(true)
	g.WrapQueries(func(q dbq.Querier) dbq.Querier { db.Querier = q; return db })
	id := enqueue(t, pool, `'k'`)
	require.NoError(t, g.Start(t.Context()))
	eventuallyState(t, pool, id, "completed")
	require.False(t, db.lose.Load(), "an answer was lost")
	require.Equal(t, 1, column[int](t, pool, id, "attempt"), "no attempt is spent")
	require.EqualValues(t, 1, d.calls.Load())
	require.NoError(t, g.Stop(t.Context(), patience))
}

// failingClaim fails each claim.
type failingClaim struct {
	dbq.Querier
	asked atomic.Int64
}

func (f *failingClaim) TaskClaim(context.Context, dbq.TaskClaimParams) ([]dbq.TaskClaimRow, error) {
	f.asked.Add(1)
	return nil, errors.New("permission denied")
}

// Claims that keep failing are tried again at the pace of the poll interval, whatever
// wakes the sidecar meanwhile.
func TestFailingClaimsKeepTheirPace(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	cfg := config(pool, &dispatcherFunc{work: complete})
	cfg.PollInterval = 500 * time.Millisecond
	g, err := governor.New(cfg)
	require.NoError(t, err)
	db := &failingClaim{}
	g.WrapQueries(func(q dbq.Querier) dbq.Querier { db.Querier = q; return db })
	require.NoError(t, g.Start(t.Context()))
	begun := time.Now()
	for time.Since(begun) < 4*time.Second {
		enqueue(t, pool, `'k'`) // each wakes it
		<-time.After(5 * time.Millisecond)
	}
	// 50, 100, 200, 400 ms, then each 500 ms.
	require.LessOrEqual(t, db.asked.Load(), int64(5+time.Since(begun)/cfg.PollInterval))
	require.GreaterOrEqual(t, db.asked.Load(), int64(4))
	require.NoError(t, g.Stop(t.Context(), patience))
}

func TestFenceAndReturnAfterAnOutage(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	ctx := t.Context()
	require.NoError(t, migrations.Up(ctx, server.DSN(), migrations.Options{NoRoles: true}))
	pool, err := pgxpool.New(ctx, server.DSN())
	require.NoError(t, err)
	t.Cleanup(pool.Close)

	b := newBlocker()
	cfg := config(pool, &dispatcherFunc{work: b.work})
	g := start(t, cfg)
	finished, interrupted := enqueue(t, pool, `'k'`), enqueue(t, pool, `'k'`)
	b.next(t)
	b.next(t)
	worker := g.Status().WorkerID

	require.NoError(t, server.Kill())
	b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete} // this outcome has to wait for Postgres
	eventually(t, func() bool { return len(g.Status().Holds) > 0 }, "the sidecar fences itself")
	require.Equal(t, []string{"no contact with Postgres"}, g.Status().Holds)
	require.Equal(t, 2, g.Status().Running, "outcomes that can't be written keep their slots")

	require.NoError(t, server.Restart(ctx))
	eventually(t, func() bool { return len(g.Status().Holds) == 0 }, "the fence is lifted")
	// One of the two was released and completes; the other was interrupted, is
	// handed back unspent and runs again.
	again := b.next(t)
	require.Equal(t, 1, again.Attempt)
	b.release <- jobs.Outcome{Kind: jobs.OutcomeComplete}
	eventually(t, func() bool {
		return state(t, pool, finished) == "completed" && state(t, pool, interrupted) == "completed"
	}, "nothing is lost")
	require.Equal(t, worker, g.Status().WorkerID, "nobody is evicted for an outage that everybody had")
}

func TestStartFailsWithoutASchema(t *testing.T) {
	t.Parallel()
	g, err := governor.New(config(pgtest.Empty(t), &dispatcherFunc{work: complete}))
	require.NoError(t, err)
	require.Error(t, g.Start(t.Context()))
}
