package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sched-sidecar/sched/jobs"
)

// Interrupted is the outcome of an attempt that was ended from outside, for this
// cause and after this long, before what it waited for had come.
func Interrupted(cause error, after time.Duration, waitedFor string) jobs.Outcome {
	switch {
	case errors.Is(cause, ErrDeadline), errors.Is(cause, context.DeadlineExceeded):
		return jobs.Outcome{
			Kind:  jobs.OutcomeRetry,
			Error: fmt.Sprintf("deadline exceeded after %s without %s", after.Round(time.Millisecond), waitedFor),
		}
	case errors.Is(cause, ErrCancelled):
		return jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "cancelled while the app was working on it"}
	default:
		// Fenced, shutting down or the lease lost: no fault of the task.
		return jobs.Outcome{Kind: jobs.OutcomeHandBack, Error: cause.Error()}
	}
}
