package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
)

// filterOptions are the flags that say which tasks are meant.
type filterOptions struct {
	filter       operator.Filter
	since, until momentValue
}

func (o *filterOptions) add(cmd *cobra.Command, statuses []string, statusHelp string) {
	fs := cmd.Flags()
	fs.StringSliceVar(&o.filter.Statuses, "status", nil, statusHelp)
	fs.StringArrayVar(&o.filter.Kinds, "kind", nil, "of this `kind`; again for one more")
	fs.StringArrayVar(&o.filter.Queues, "queue", nil, "in this `queue`, or one derived from it; again for one more")
	fs.StringVar(&o.filter.Batch, "batch", "", "in this `batch`")
	fs.Var(&o.since, "since", "whose latest attempt began then or later: a time, or how long ago (2h)")
	fs.Var(&o.until, "until", "whose latest attempt began before that")
	fs.StringVar(&o.filter.Worker, "worker", "", "whose latest attempt was that of this worker (its `id`)")
	oneOf(cmd, "status", statuses)
}

// given reports whether any filter was given.
func (o *filterOptions) given() bool {
	return !o.filter.Empty() || o.since != momentValue{} || o.until != momentValue{}
}

// resolve turns "ago" into times by the database's clock.
func (o *filterOptions) resolve(ctx context.Context, op *operator.Operator) (operator.Filter, error) {
	f := o.filter
	var now time.Time
	if o.since.isAgo || o.until.isAgo {
		var err error
		if now, err = op.Now(ctx); err != nil {
			return f, err
		}
	}
	f.Since, f.Until = o.since.at(now), o.until.at(now)

	return f, f.Validate()
}

// at is the moment that is meant, now being the present one.
func (v momentValue) at(now time.Time) time.Time {
	if v.isAgo {
		return now.Add(-v.ago)
	}

	return v.t
}
