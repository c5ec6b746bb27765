package taskapi

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/sched-sidecar/sched/jobs"
)

// taskState is the answer to a GET. A lost lease is an answer there, not an
// error: it is what the app wants to know.
type taskState struct {
	State           string `json:"state"` // running or lost
	CancelRequested bool   `json:"cancel_requested"`
}

func (h *handler) state(w http.ResponseWriter, r *http.Request) {
	id, lease, refusal := claim(r)
	if refusal != nil {
		refusal.write(w)
		return
	}
	answer := taskState{State: "running"}
	cancelRequested, err := h.settler.AcceptedState(r.Context(), id, lease)
	switch {
	case errors.Is(err, jobs.ErrLeaseLost):
		answer.State = "lost"
	case err != nil:
		h.fail(w, r, id, err)
		return
	default:
		answer.CancelRequested = cancelRequested
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// A failed write means that the app has gone.
	_ = json.NewEncoder(w).Encode(answer)
}
