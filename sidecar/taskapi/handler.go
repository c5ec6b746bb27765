package taskapi

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/sched-sidecar/sched/jobs"
)

// Defaults of [Options].
const (
	DefaultMaxBodyBytes = 1 << 20
	DefaultBodyTimeout  = 10 * time.Second
)

// Settler settles accepted tasks; the governor is one. Both methods return
// [jobs.ErrLeaseLost] when the lease doesn't own a running attempt of the task,
// and may return [jobs.ErrTaskNotFound] when there is no such task.
//
// An app may call before the sidecar has read its 202, since it answers and
// works at the same time. The lease is valid then, too.
type Settler interface {
	// SettleAccepted returns nil when the outcome is written, or was already.
	SettleAccepted(ctx context.Context, taskID int64, lease jobs.Lease, outcome jobs.Outcome) error
	// AcceptedState returns nil while the lease owns the task, and whether
	// somebody asked to cancel it.
	AcceptedState(ctx context.Context, taskID int64, lease jobs.Lease) (cancelRequested bool, err error)
}

// Options of [Handler]. The zero value has the defaults.
type Options struct {
	// MaxBodyBytes bounds a request's body and so an output, BodyTimeout how
	// long it may take to arrive.
	MaxBodyBytes int64
	BodyTimeout  time.Duration
	// AllowedHosts are names, without a port, under which apps may call besides
	// localhost and loopback addresses: a container's name, say.
	AllowedHosts []string
	Logger       *slog.Logger // nil = none
}

type handler struct {
	settler Settler
	options Options
	logger  *slog.Logger
}

// Handler returns the API's handler.
func Handler(settler Settler, options Options) http.Handler {
	if options.MaxBodyBytes <= 0 {
		options.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if options.BodyTimeout <= 0 {
		options.BodyTimeout = DefaultBodyTimeout
	}
	h := &handler{settler: settler, options: options, logger: options.Logger}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/tasks/{id}", h.only(h.state, http.MethodGet, http.MethodHead))
	for action, decode := range actions() {
		mux.HandleFunc("/v1/tasks/{id}/"+action, h.only(h.settle(decode), http.MethodPost))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		notFound("there is nothing at this path; tasks are settled at /v1/tasks/{id}/complete, retry, snooze or cancel, and looked up at /v1/tasks/{id}").write(w)
	})
	return h.local(mux)
}

// settle returns a handler that settles the task with what decode makes of the
// body.
func (h *handler) settle(decode decoder) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, lease, refusal := claim(r)
		if refusal != nil {
			refusal.write(w)
			return
		}
		body, refusal := h.readBody(w, r)
		if refusal != nil {
			refusal.write(w)
			return
		}
		outcome, err := decode(body)
		if err != nil {
			badRequest(err.Error()).write(w)
			return
		}
		if err := h.settler.SettleAccepted(r.Context(), id, lease, outcome); err != nil {
			h.fail(w, r, id, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// fail answers with an error of the settler.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, id int64, err error) {
	if refusal := problemOf(err); refusal != nil {
		refusal.write(w)
		return
	}
	if r.Context().Err() != nil {
		return // nobody is there to answer
	}
	h.logger.ErrorContext(r.Context(), "an app's call about its task failed",
		slog.Int64("task_id", id), slog.String("path", r.URL.Path), slog.Any("error", err))
	w.Header().Set("Retry-After", "1")
	unavailable().write(w)
}

// claim reads which attempt a request is about.
func claim(r *http.Request) (int64, jobs.Lease, *problem) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id <= 0 {
		return 0, jobs.Lease{}, badRequest("the task id in the path is not a positive integer; use the Sched-Task-Id header of the task's request")
	}
	header, query := r.Header.Get("Sched-Lease"), r.URL.Query().Get("lease")
	token := header
	switch {
	case header == "" && query == "":
		return 0, jobs.Lease{}, badRequest("the lease is missing; send the Sched-Lease header of the task's request back as a header or as ?lease=")
	case header == "":
		token = query
	case query != "" && query != header:
		return 0, jobs.Lease{}, badRequest("the Sched-Lease header and ?lease= differ; send one of them")
	}
	lease, err := jobs.ParseLease(token)
	if err != nil {
		return 0, jobs.Lease{}, badRequest(err.Error())
	}
	return id, lease, nil
}

// only refuses all but these methods.
func (h *handler) only(next http.HandlerFunc, methods ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, method := range methods {
			if r.Method == method {
				next(w, r)
				return
			}
		}
		for _, method := range methods {
			w.Header().Add("Allow", method)
		}
		methodNotAllowed(r.Method, methods[0]).write(w)
	}
}
