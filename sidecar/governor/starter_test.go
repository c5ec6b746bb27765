package governor_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// starterFunc is a dispatcher that needs no goroutine for a task.
type starterFunc func(task *dispatch.Task, done func(jobs.Outcome)) (end func(cause error))

func (f starterFunc) Start(task *dispatch.Task, done func(jobs.Outcome)) (end func(cause error)) {
	return f(task, done)
}

func (f starterFunc) Dispatch(context.Context, *dispatch.Task) jobs.Outcome {
	panic("started, not dispatched")
}

// TestStartedTasksEndOnce: whatever a dispatcher does, a task has one outcome and
// its slot is given back once.
func TestStartedTasksEndOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var calls atomic.Int64
	cfg := config(pool, starterFunc(func(task *dispatch.Task, done func(jobs.Outcome)) func(error) {
		calls.Add(1)
		switch task.Kind {
		case "panics":
			panic("no such frame")
		case "panics_after":
			done(jobs.Outcome{Kind: jobs.OutcomeComplete})
			panic("too late")
		case "twice":
			done(jobs.Outcome{Kind: jobs.OutcomeComplete})
			done(jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "once more"})
		case "never":
			return func(cause error) { done(jobs.Outcome{Kind: jobs.OutcomeRetry, Error: cause.Error()}) }
		default:
			done(jobs.Outcome{Kind: jobs.OutcomeComplete})
		}
		return func(error) {}
	}))
	g := start(t, cfg)
	reason := func(id int64) (reason string) {
		require.NoError(t, pool.QueryRow(t.Context(), "select coalesce(error, '') from sched.task where id = $1", id).Scan(&reason))
		return reason
	}
	panics := enqueue(t, pool, "'panics', max_attempts => 1")
	after := enqueue(t, pool, "'panics_after'")
	twice := enqueue(t, pool, "'twice'")
	never := enqueue(t, pool, "'never', max_attempts => 1, timeout => interval '100 ms'")
	eventuallyState(t, pool, panics, "discarded")
	require.Contains(t, reason(panics), "panicked: no such frame")
	eventuallyState(t, pool, after, "completed")
	eventuallyState(t, pool, twice, "completed")
	eventuallyState(t, pool, never, "discarded")
	require.Contains(t, reason(never), dispatch.ErrDeadline.Error())
	eventually(t, func() bool { s := g.Status(); return s.Taken == 0 && s.Running == 0 }, "all slots are free again")
	require.Equal(t, int64(4), calls.Load())
	ids := make([]int64, 30) // more than there are slots
	for i := range ids {
		ids[i] = enqueue(t, pool, "'plain'")
	}
	for _, id := range ids {
		eventuallyState(t, pool, id, "completed")
	}
}
