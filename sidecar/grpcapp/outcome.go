package grpcapp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sched-sidecar/sched/jobs"
	workerv1 "github.com/sched-sidecar/sched/proto/sched/worker/v1"
	"github.com/sched-sidecar/sched/sidecar/answer"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// protocolError ends a stream whose frame broke the protocol.
func protocolError(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// outcomeOf is the table of outcomes in docs/grpc.md.
func (d *Dispatcher) outcomeOf(r *workerv1.Result) (jobs.Outcome, error) {
	text := answer.Text(r.GetError(), errorBytes)
	delay := time.Duration(min(r.GetDelayMs(), uint64(retryMax.Milliseconds()))) * time.Millisecond
	switch r.GetOutcome() {
	case workerv1.Outcome_OUTCOME_COMPLETE:
		return d.completed(r), nil
	case workerv1.Outcome_OUTCOME_RETRY:
		return jobs.Outcome{Kind: jobs.OutcomeRetry, Error: orElse(text, "the app failed without saying why"), Delay: delay}, nil
	case workerv1.Outcome_OUTCOME_SNOOZE:
		return jobs.Outcome{
			Kind: jobs.OutcomeSnooze, PauseKind: true, Error: orElse(text, "the app put it off"), Delay: min(max(delay, snoozeMin), snoozeMax),
		}, nil
	case workerv1.Outcome_OUTCOME_CANCEL:
		return jobs.Outcome{Kind: jobs.OutcomeCancel, Error: orElse(text, "the app ended it for good without saying why")}, nil
	case workerv1.Outcome_OUTCOME_UNKNOWN_KIND:
		return jobs.Outcome{Kind: jobs.OutcomeHandBack, UnknownKind: true, Error: "the app has no handler for this kind"}, nil
	default:
		return jobs.Outcome{}, protocolError("result of task %d: outcome %d is unknown", r.GetTaskId(), int32(r.GetOutcome()))
	}
}

// completed is the outcome of a task that the app has done.
func (d *Dispatcher) completed(r *workerv1.Result) jobs.Outcome {
	output := bytes.TrimSpace(r.GetOutput())
	switch {
	case len(output) == 0:
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	case int64(len(output)) > d.config.MaxOutputBytes:
		d.config.Logger.Warn("completed a task without its output: it is over the limit",
			slog.Int64("task_id", r.GetTaskId()), slog.Int("bytes", len(output)), slog.Int64("max_response_bytes", d.config.MaxOutputBytes))
		return jobs.Outcome{Kind: jobs.OutcomeComplete}
	}
	if err := answer.Output(output); err != nil {
		// The effect has happened, so a retry would repeat it; and dropping the
		// output would call a task well that isn't.
		return jobs.Outcome{Kind: jobs.OutcomeCancel, Error: answer.Text(fmt.Sprintf("the app completed it, but its %v", err), errorBytes)}
	}
	return jobs.Outcome{Kind: jobs.OutcomeComplete, Output: output}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// reason is the cause as a Cancel has it.
func reason(cause error) workerv1.Reason {
	switch {
	case errors.Is(cause, dispatch.ErrCancelled):
		return workerv1.Reason_REASON_CANCELLED
	case errors.Is(cause, dispatch.ErrDeadline), errors.Is(cause, context.DeadlineExceeded):
		return workerv1.Reason_REASON_DEADLINE
	case errors.Is(cause, dispatch.ErrShutdown):
		return workerv1.Reason_REASON_SHUTDOWN
	default:
		return workerv1.Reason_REASON_LEASE_LOST
	}
}
