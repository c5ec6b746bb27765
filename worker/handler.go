package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	workerv1 "github.com/sched-sidecar/sched/proto/sched/worker/v1"
)

// Task is one attempt of a task.
type Task struct {
	ID          int64
	Kind        string
	Queue       string
	Lease       string // proof that this attempt owns the task, for sched.complete
	Args        json.RawMessage
	Headers     map[string]string
	Batch       string
	Attempt     int // counts from 1
	MaxAttempts int
	Priority    int // 1 first … 4 last
	CreatedAt   time.Time
	ScheduledAt time.Time
	Deadline    time.Time // zero: none

	progress func(percent float64, message string)
}

// Progress tells the sidecar how far the task is, 0 to 100, and what it does, in
// words. The newest counts; it costs little and never fails.
func (t *Task) Progress(percent float64, message string) { t.progress(percent, message) }

// Handler works on one task. What it returns becomes the task's outcome:
//
//   - nil: complete. The output is kept with the task: nil for none, a
//     [json.RawMessage] or []byte of JSON as it is, anything else as JSON.
//   - [Snooze] or [Cancel], wrapped or not: what they say.
//   - any other error: retry, as the task's retry policy says or after [RetryIn].
//
// A panic counts as an error.
type Handler func(ctx context.Context, task *Task) (output any, err error)

// outcomeError is an error that chooses the outcome.
type outcomeError struct {
	outcome workerv1.Outcome
	delay   time.Duration
	err     error
}

func (e *outcomeError) Error() string { return e.err.Error() }
func (e *outcomeError) Unwrap() error { return e.err }

// Cancel makes err end the task for good: trying again is pointless.
func Cancel(err error) error {
	return &outcomeError{workerv1.Outcome_OUTCOME_CANCEL, 0, orUnknown(err)}
}

// Snooze puts the task off for delay (1 s to 1 h) without spending an attempt, and
// pauses its kind in the whole fleet for that long: what it needs is busy or away.
func Snooze(delay time.Duration, err error) error {
	return &outcomeError{workerv1.Outcome_OUTCOME_SNOOZE, delay, orUnknown(err)}
}

// RetryIn makes err retry the task after delay (up to 7 days) in place of its
// retry policy's.
func RetryIn(delay time.Duration, err error) error {
	return &outcomeError{workerv1.Outcome_OUTCOME_RETRY, delay, orUnknown(err)}
}

// errUnknownKind answers a task of a kind without a handler.
var errUnknownKind = &outcomeError{workerv1.Outcome_OUTCOME_UNKNOWN_KIND, 0, errors.New("this app has no handler for the kind")}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("no reason given")
	}
	return err
}

// resultOf turns what a handler returned into its result.
func resultOf(task *Task, output any, err error) *workerv1.Result {
	result := &workerv1.Result{TaskId: task.ID, Lease: task.Lease, Outcome: workerv1.Outcome_OUTCOME_COMPLETE}
	if err == nil {
		result.Output, err = encode(output)
		if err != nil {
			err = Cancel(fmt.Errorf("the task was done, but its output can't be encoded: %w", err))
		} else if len(result.Output) > outputMax {
			err = Cancel(fmt.Errorf("the task was done, but its output has %d bytes; at most %d can be sent", len(result.Output), outputMax))
		}
	}
	if err == nil {
		return result
	}
	result.Outcome, result.Output, result.Error = workerv1.Outcome_OUTCOME_RETRY, nil, strings.ToValidUTF8(shorten(err.Error()), "\uFFFD")
	var chosen *outcomeError
	if errors.As(err, &chosen) {
		result.Outcome, result.DelayMs = chosen.outcome, uint64(max(0, chosen.delay.Milliseconds()))
	}
	return result
}

// What one result may hold, so that any of them fits a frame.
const (
	outputMax = 32 << 20
	errorMax  = 2 << 10 // all that is kept
)

func shorten(text string) string { return text[:min(len(text), errorMax)] }

func encode(output any) ([]byte, error) {
	switch output := output.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return output, nil
	case []byte:
		return output, nil
	default:
		return json.Marshal(output)
	}
}
