package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// leaseLost is the SQLSTATE with which sched.complete refuses an attempt that
// doesn't own its task any more.
const leaseLost = "SC409"

// shop is the example app.
type shop struct {
	pool *pgxpool.Pool
	pace time.Duration
	pid  int
	log  *slog.Logger
}

// routes: one endpoint for people, and one for each kind of task.
func (s *shop) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /month-end", s.serveMonthEnd)
	mux.HandleFunc("POST /carryover", s.serveCarryover)
	return mux
}

// requestError is an error of the caller, with the HTTP status that says so.
type requestError struct {
	status int
	text   string
}

func (e *requestError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &requestError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// answer writes a result as JSON, or an error with the status that tells the
// sidecar what to do: 4xx except 409, trying again is pointless; else, try again.
func (s *shop) answer(w http.ResponseWriter, r *http.Request, result any, err error) {
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		err = json.NewEncoder(w).Encode(result)
		if err != nil {
			s.log.Warn("the caller is gone", "path", r.URL.Path, "error", err)
		}
		return
	}
	status := http.StatusInternalServerError
	var request *requestError
	var postgres *pgconn.PgError
	switch {
	case errors.As(err, &request):
		status = request.status
	case errors.As(err, &postgres) && postgres.Code == leaseLost:
		status = http.StatusConflict
	}
	s.log.Error("request failed", "path", r.URL.Path, "task", r.Header.Get("Sched-Task-Id"), "status", status, "error", err)
	http.Error(w, err.Error(), status)
}
