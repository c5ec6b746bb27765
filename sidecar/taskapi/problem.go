package taskapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sched-sidecar/sched/jobs"
)

// problem is an error as RFC 9457 writes it, with a code for programs.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

func newProblem(status int, code, detail string) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

func badRequest(detail string) *problem {
	return newProblem(http.StatusBadRequest, "invalid_argument", detail)
}

func forbidden(detail string) *problem {
	return newProblem(http.StatusForbidden, "not_local", detail)
}

func notFound(detail string) *problem {
	return newProblem(http.StatusNotFound, "not_found", detail)
}

func methodNotAllowed(method, allowed string) *problem {
	return newProblem(http.StatusMethodNotAllowed, "method_not_allowed",
		fmt.Sprintf("%s does nothing at this path; use %s", method, allowed))
}

func contentTooLarge(limit int64) *problem {
	return newProblem(http.StatusRequestEntityTooLarge, "too_large",
		fmt.Sprintf("the body has more than %d bytes; the task is unchanged: store a large output elsewhere and send a reference to it", limit))
}

func requestTimeout(limit time.Duration) *problem {
	return newProblem(http.StatusRequestTimeout, "timeout",
		fmt.Sprintf("the body did not arrive within %s; the task is unchanged, call again", limit))
}

func unavailable() *problem {
	return newProblem(http.StatusServiceUnavailable, "unavailable",
		"the sidecar could not reach Postgres in time; call again, which is harmless even if this call took effect")
}

// problemOf translates the errors that a [Settler] names, and returns nil for
// all others.
func problemOf(err error) *problem {
	switch {
	case errors.Is(err, jobs.ErrLeaseLost):
		return newProblem(http.StatusConflict, "lease_lost",
			"this lease no longer owns the task: the attempt was settled, timed out, was cancelled, or the task went to another worker; stop working on it and undo what was not committed")
	case errors.Is(err, jobs.ErrTaskNotFound):
		return newProblem(http.StatusNotFound, "task_not_found", "there is no task with this id; it may have been deleted")
	case errors.Is(err, jobs.ErrInvalidArgument):
		return badRequest(err.Error())
	case errors.Is(err, jobs.ErrTooLarge):
		return newProblem(http.StatusRequestEntityTooLarge, "too_large", err.Error())
	default:
		return nil
	}
}

func (p *problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	// A failed write means that the app has gone.
	_ = json.NewEncoder(w).Encode(p)
}
