// Package dispatch is the vocabulary between the governor, which claims and
// settles tasks, and the dispatchers, which hand them to the app over a
// protocol. It holds no logic.
package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sched-sidecar/sched/jobs"
)

// Causes with which the governor ends a dispatch early (see [context.Cause]).
var (
	// ErrCancelled: somebody cancelled the running task.
	ErrCancelled = errors.New("task cancelled")
	// ErrDeadline: the task's timeout is over.
	ErrDeadline = errors.New("task deadline exceeded")
	// ErrFenced: the sidecar can't prove to Postgres that it is alive, so it
	// gives up its tasks before another worker may get them.
	ErrFenced = errors.New("sidecar lost contact with Postgres")
	// ErrLeaseLost: the task was taken away from this worker.
	ErrLeaseLost = errors.New("lease lost")
	// ErrShutdown: the sidecar's shutdown grace is over.
	ErrShutdown = errors.New("sidecar shutting down")
)

// Task is one claimed task.
type Task struct {
	ID          int64
	Kind        string
	Queue       string // as it was named when enqueueing
	Attempt     int    // counts from 1
	MaxAttempts int
	Priority    int // 1 first … 4 last
	Args        json.RawMessage
	Headers     map[string]string
	Batch       string
	Lease       jobs.Lease
	CreatedAt   time.Time
	ScheduledAt time.Time
	// Deadline is when the attempt's timeout is over. Zero means none.
	Deadline time.Time
}

// Dispatcher hands a task to the app and waits for its answer. Dispatch never
// panics and always returns an outcome; it returns soon after ctx ends. The
// cause of ctx is one of this package's errors.
type Dispatcher interface {
	Dispatch(ctx context.Context, task *Task) jobs.Outcome
}

// Starter is a dispatcher that needs no goroutine for each task that it waits for.
type Starter interface {
	// Start hands the task to the app. It calls done exactly once, with the outcome,
	// possibly before it returns; done doesn't block. What it returns ends the attempt
	// for one of this package's errors; after its end that does nothing.
	Start(task *Task, done func(jobs.Outcome)) (end func(cause error))
}
