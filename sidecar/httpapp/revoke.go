package httpapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// revokeTimeout bounds one revocation. The app has only to note it.
const revokeTimeout = 2 * time.Second

// Revoke tells the app that a task it accepted (202) is no longer its own, for
// a cause as [context.Cause] of a dispatch would have it. There is no open
// request whose end would say so. Best effort, at most once: an app that
// missed it finds its lease lost when it settles. The task's outcome doesn't
// depend on the error, which is for a log.
func (d *Dispatcher) Revoke(ctx context.Context, task *dispatch.Task, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	r := d.about(task, http.MethodDelete, d.target.path(task.Kind, strconv.FormatInt(task.ID, 10)))
	r.set(headerReason, reason(cause))
	d.sign(r, task, d.clock())
	r.passThrough(task.Headers)
	response, err := d.transport.send(ctx, r)
	if err != nil {
		return fmt.Errorf("revoke task %d: %w", task.ID, d.noAnswer(err))
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, drainBytes)
	// 4xx: the app doesn't take revocations, or has forgotten the task.
	if response.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("revoke task %d: app answered %s", task.ID, statusLine(response.StatusCode))
	}
	return nil
}

// reason is the cause as the Sched-Reason header has it.
func reason(cause error) string {
	switch {
	case errors.Is(cause, dispatch.ErrCancelled):
		return "cancelled"
	case errors.Is(cause, dispatch.ErrDeadline), errors.Is(cause, context.DeadlineExceeded):
		return "deadline"
	case errors.Is(cause, dispatch.ErrShutdown):
		return "shutdown"
	default:
		// Lost already, or about to be because the sidecar is fenced.
		return "lease_lost"
	}
}
