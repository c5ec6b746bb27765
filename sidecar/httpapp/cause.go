package httpapp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// ended is the outcome of an attempt whose context ended, for this cause and
// after this long, before the app had answered.
func ended(cause error, after time.Duration) jobs.Outcome {
	switch {
	case errors.Is(cause, dispatch.ErrDeadline), errors.Is(cause, context.DeadlineExceeded):
		return jobs.Outcome{
			Kind:  jobs.OutcomeRetry,
			Error: fmt.Sprintf("deadline exceeded after %s without an answer from the app", after.Round(time.Millisecond)),
		}
	case errors.Is(cause, dispatch.ErrCancelled):
		return jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "cancelled while the app was working on it"}
	default:
		// Fenced, shutting down or the lease lost: no fault of the task.
		return jobs.Outcome{Kind: jobs.OutcomeHandBack, Error: cause.Error()}
	}
}
