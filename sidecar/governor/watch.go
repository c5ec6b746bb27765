package governor

import (
	"context"
	"log/slog"
	"time"

	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	watchInterval = 2 * time.Second
	watchTimeout  = 5 * time.Second
)

// watch looks after attempts that run for longer than a moment: a cancel whose
// notification was lost, an accepted task that the app completed in its own
// transaction, a lease that is gone. No SQL while there is none.
func (g *Governor) watch(ctx context.Context) error {
	for sleep(ctx, watchInterval) {
		horizon := time.Now().Add(-watchInterval)
		long := g.running.all(func(x *execution) bool { return x.started.Before(horizon) && !x.ends() })
		if len(long) == 0 || g.holds.has(holdFenced) {
			continue
		}
		if err := g.watchOnce(ctx, long); err != nil && ctx.Err() == nil {
			g.config.Logger.DebugContext(ctx, "watch of running tasks failed", slog.Any("error", err))
		}
	}
	return nil
}

func (g *Governor) watchOnce(ctx context.Context, long []*execution) error {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	params := dbq.TaskWatchParams{}
	byID := make(map[int64]*execution, len(long))
	for _, x := range long {
		params.Ids = append(params.Ids, x.task.ID)
		params.WorkerIds = append(params.WorkerIds, x.task.Lease.WorkerID)
		params.AttemptedAts = append(params.AttemptedAts, x.task.Lease.AttemptedAt)
		byID[x.task.ID] = x
	}
	rows, err := g.q.TaskWatch(ctx, params)
	if err != nil {
		return err
	}
	for _, row := range rows {
		x := byID[row.ID]
		switch {
		case row.Held && row.CancelRequested:
			x.end(dispatch.ErrCancelled)
		case row.Held:
		case row.State == "completed":
			// The app has completed it. An open call may still have an answer to
			// give; a task that was accepted has not.
			if x.accepted.Load() {
				x.end(errSettledByApp)
			}
		default:
			x.end(dispatch.ErrLeaseLost)
		}
	}
	return nil
}

// cancelTask ends the attempts of a task that somebody cancelled.
func (g *Governor) cancelTask(taskID int64) {
	for _, x := range g.running.all(func(x *execution) bool { return x.task.ID == taskID }) {
		x.end(dispatch.ErrCancelled)
	}
}

// sleep waits for d and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
