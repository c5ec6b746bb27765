package governor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/governor"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds every wait of these tests.
const patience = time.Minute

// dispatcherFunc is a dispatcher made from a function, counting what runs.
type dispatcherFunc struct {
	work    func(ctx context.Context, task *dispatch.Task) jobs.Outcome
	running atomic.Int64
	highest atomic.Int64
	calls   atomic.Int64
}

func (d *dispatcherFunc) Dispatch(ctx context.Context, task *dispatch.Task) jobs.Outcome {
	d.calls.Add(1)
	now := d.running.Add(1)
	defer d.running.Add(-1)
	for {
		highest := d.highest.Load()
		if now <= highest || d.highest.CompareAndSwap(highest, now) {
			break
		}
	}
	return d.work(ctx, task)
}

func complete(context.Context, *dispatch.Task) jobs.Outcome {
	return jobs.Outcome{Kind: jobs.OutcomeComplete}
}

// blocker is a dispatcher that holds each task until it is let go or its
// context ends, as an app with a long call does.
type blocker struct {
	started chan *dispatch.Task
	release chan jobs.Outcome
}

func newBlocker() *blocker {
	return &blocker{started: make(chan *dispatch.Task, 100), release: make(chan jobs.Outcome)}
}

func (b *blocker) work(ctx context.Context, task *dispatch.Task) jobs.Outcome {
	b.started <- task
	select {
	case outcome := <-b.release:
		return outcome
	case <-ctx.Done():
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, dispatch.ErrCancelled):
			return jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "cancelled"}
		case errors.Is(cause, dispatch.ErrDeadline):
			return jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "deadline exceeded"}
		default:
			return jobs.Outcome{Kind: jobs.OutcomeHandBack}
		}
	}
}

func (b *blocker) next(t *testing.T) *dispatch.Task {
	t.Helper()
	select {
	case task := <-b.started:
		return task
	case <-time.After(patience):
		require.FailNow(t, "no task was dispatched")
		return nil
	}
}

// config is a governor's configuration with everything fast.
func config(pool *pgxpool.Pool, dispatcher dispatch.Dispatcher) governor.Config {
	return governor.Config{
		Pool: pool, Dispatcher: dispatcher, Logger: testLogger(), Registerer: prometheus.NewRegistry(),
		ClientID: fmt.Sprintf("test-%d", clientSeq.Add(1)), Protocols: []string{"http"},
		Slots: 10, Ceiling: 100,
		PollInterval: 100 * time.Millisecond, HeartbeatInterval: 100 * time.Millisecond,
		FenceAfter: 3 * time.Second, EvictAfter: 4 * time.Second, DefaultTimeout: time.Minute,
		Retry: jobs.RetryPolicy{Base: 10 * time.Millisecond, Factor: 2, Cap: time.Second, Jitter: 0.2},
	}
}

var clientSeq atomic.Int64

func testLogger() *slog.Logger {
	level := slog.LevelError + 1
	if os.Getenv("SCHED_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// start runs a governor until the end of the test.
func start(t *testing.T, config governor.Config) *governor.Governor {
	t.Helper()
	g, err := governor.New(config)
	require.NoError(t, err)
	require.NoError(t, g.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = g.Stop(ctx, patience) // tests about stopping look at the error themselves
	})
	return g
}

// startLeading is start for what waits for a leader: it returns when it leads.
func startLeading(t *testing.T, config governor.Config) *governor.Governor {
	t.Helper()
	g := start(t, config)
	eventually(t, func() bool { return g.Status().Leading }, "it leads")
	return g
}

func enqueue(t *testing.T, pool *pgxpool.Pool, call string, args ...any) int64 {
	t.Helper()
	var id int64
	require.NoError(t, pool.QueryRow(t.Context(), "select sched.enqueue("+call+")", args...).Scan(&id))
	return id
}

// column reads one value of a task.
func column[T any](t *testing.T, pool *pgxpool.Pool, id int64, expression string) T {
	t.Helper()
	var value T
	require.NoError(t, pool.QueryRow(t.Context(), "select "+expression+" from sched.river_job where id = $1", id).Scan(&value))
	return value
}

func state(t *testing.T, pool *pgxpool.Pool, id int64) string {
	t.Helper()
	return column[string](t, pool, id, "state::text")
}

func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond, what)
}

func eventuallyState(t *testing.T, pool *pgxpool.Pool, id int64, want string) {
	t.Helper()
	eventually(t, func() bool { return state(t, pool, id) == want }, fmt.Sprintf("task %d should become %s, is %s", id, want, state(t, pool, id)))
}
