package governor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// SettleAccepted writes the outcome of a task that the app accepted (202) and
// now settles by its lease. It returns [jobs.ErrLeaseLost] when the lease owns no
// running attempt, or ctx's error.
func (g *Governor) SettleAccepted(ctx context.Context, taskID int64, lease jobs.Lease, outcome jobs.Outcome) error {
	x := g.running.get(leaseKey{taskID, lease.AttemptedAt.UnixMicro()})
	if outcome.Kind == jobs.OutcomeRetry && outcome.Delay == 0 {
		kind, failures := "", 0
		if x != nil {
			kind, failures = x.task.Kind, x.task.Attempt-1
		}
		outcome.Delay = g.retryDelay(kind, failures, rand.Float64())
	}
	result, err := g.settler.Settle(ctx, jobs.Settlement{TaskID: taskID, Lease: lease, Outcome: outcome})
	if err != nil {
		return err
	}
	if result.Verdict == jobs.Refused {
		g.metrics.refused.Inc()
		return fmt.Errorf("task %d: %w", taskID, jobs.ErrLeaseLost)
	}
	if x != nil {
		// Ends the wait for it; its own settle will be found a replay.
		select {
		case x.later <- outcome:
		default:
		}
	}
	if result.State == "retryable" || result.State == "scheduled" {
		g.promoter.expect(time.Now().Add(outcome.Delay))
	}
	return nil
}

// AcceptedState says whether the lease still owns its task, and whether somebody
// asked to cancel it. It returns [jobs.ErrLeaseLost] when it doesn't.
func (g *Governor) AcceptedState(ctx context.Context, taskID int64, lease jobs.Lease) (cancelRequested bool, err error) {
	rows, err := g.q.TaskWatch(ctx, dbq.TaskWatchParams{
		Ids: []int64{taskID}, WorkerIds: []string{lease.WorkerID}, AttemptedAts: []time.Time{lease.AttemptedAt},
	})
	if err != nil {
		return false, err
	}
	if len(rows) == 0 || !rows[0].Held {
		return false, fmt.Errorf("task %d: %w", taskID, jobs.ErrLeaseLost)
	}
	return rows[0].CancelRequested, nil
}
