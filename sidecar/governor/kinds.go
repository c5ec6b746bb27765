package governor

import (
	"context"
	"log/slog"
	"time"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// refreshKinds reads the retry delays that kinds have of their own.
func (g *Governor) refreshKinds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	rows, err := g.q.KindRetry(ctx)
	if err != nil {
		g.config.Logger.DebugContext(ctx, "retry delays of kinds not refreshed", slog.Any("error", err))
		return
	}
	policies := make(map[string]jobs.RetryPolicy, len(rows))
	for _, row := range rows {
		policies[row.Kind] = overlay(g.config.Retry, row)
	}
	g.retries.Store(&policies)
}

// retryDelay is how long a task of the kind waits that had failed failures times
// before the failure at hand. Rnd is a random number from 0 to 1.
func (g *Governor) retryDelay(kind string, failures int, rnd float64) time.Duration {
	if policies := g.retries.Load(); policies != nil {
		if policy, own := (*policies)[kind]; own {
			return policy.Delay(failures, rnd)
		}
	}
	return g.config.Retry.Delay(failures, rnd)
}

// overlay puts what a kind sets (the rest is -1) over the sidecar's own policy.
// Where the two don't fit together the kind's side wins.
func overlay(policy jobs.RetryPolicy, kind dbq.KindRetryRow) jobs.RetryPolicy {
	if kind.BaseMs > 0 {
		policy.Base = time.Duration(kind.BaseMs) * time.Millisecond
	}
	if kind.CapMs > 0 {
		policy.Cap = time.Duration(kind.CapMs) * time.Millisecond
	}
	if kind.Factor >= 1 {
		policy.Factor = kind.Factor
	}
	if kind.Jitter >= 0 && kind.Jitter < 1 {
		policy.Jitter = kind.Jitter
	}
	if policy.Cap < policy.Base {
		if kind.CapMs > 0 && kind.BaseMs <= 0 {
			policy.Base = policy.Cap
		} else {
			policy.Cap = policy.Base
		}
	}
	return policy
}
