package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Status is where a task stands: River's state, verbatim.
type Status string

// The statuses of a task. Completed, cancelled and discarded are final.
const (
	StatusAvailable Status = "available"
	StatusScheduled Status = "scheduled"
	StatusPending   Status = "pending"
	StatusRunning   Status = "running"
	StatusRetryable Status = "retryable"
	StatusCompleted Status = "completed"
	StatusCancelled Status = "cancelled"
	StatusDiscarded Status = "discarded"
)

// Complete ends the task in the app's own transaction, which makes its effect
// happen exactly once: what tx wrote and the task's completion commit
// together or not at all. Lease is the Sched-Lease header of the request that
// brought the task, unchanged. Output is kept with the task: nil for none,
// else anything that encoding/json marshals.
//
// It returns [ErrLeaseLost] when the attempt no longer owns the task, which
// includes that it is completed already: roll tx back, the effect is another
// attempt's. [ErrTaskNotFound] means that there is no such task,
// [ErrInvalidArgument] that the lease or the output is malformed, [ErrTooLarge]
// that the output is over the limit of args.
//
// Call it last before the commit: from then on tx holds the task's row.
func Complete(ctx context.Context, tx Tx, taskID int64, lease string, output any) error {
	var body *string
	if strings.ContainsRune(lease, 0) {
		return fmt.Errorf("sched.complete: %w: lease %q has a NUL character; pass the Sched-Lease header unchanged", ErrInvalidArgument, lease)
	}
	if output != nil {
		encoded, err := json.Marshal(output)
		if err != nil {
			return fmt.Errorf("sched.complete: %w: output of task %d is no JSON: %w", ErrInvalidArgument, taskID, err)
		}
		text := string(encoded)
		body = &text
	}
	var done bool
	// In FROM, because a void result is no type that database/sql can scan.
	err := tx.QueryRow(ctx, "select true from sched.complete($1::bigint, $2::text, $3::jsonb)", taskID, lease, body).Scan(&done)
	if err != nil {
		return serverError("sched.complete", err)
	}
	return nil
}

// Cancel ends a task that nobody needs any more and returns its status
// afterwards: [StatusCancelled]; [StatusRunning] when an app is at work on it
// and its sidecar has been asked to end that; or the final status that the
// task already had. It returns [ErrTaskNotFound] when there is no such task.
func Cancel(ctx context.Context, db DB, taskID int64) (Status, error) {
	return control(ctx, db, "sched.cancel", "select sched.cancel($1::bigint)", taskID)
}

// Retry makes a task available at once, whether it waits for a later time or
// has ended, with one more attempt when its attempts are spent. It returns
// the status afterwards, [ErrTaskNotFound] when there is no such task,
// [ErrTaskRunning] while the task runs, and [ErrUniqueConflict] when another
// unfinished task has its unique key by now.
func Retry(ctx context.Context, db DB, taskID int64) (Status, error) {
	return control(ctx, db, "sched.retry", "select sched.retry($1::bigint)", taskID)
}

func control(ctx context.Context, db DB, function, query string, taskID int64) (Status, error) {
	var status string
	if err := db.QueryRow(ctx, query, taskID).Scan(&status); err != nil {
		return "", serverError(function, err)
	}
	return Status(status), nil
}
