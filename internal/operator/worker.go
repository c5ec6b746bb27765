package operator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// Worker is a row of sched.worker: one registration of a sidecar.
type Worker struct {
	ID           string          `json:"id"`
	Hostname     string          `json:"hostname"`
	PID          int             `json:"pid"`
	Version      string          `json:"version"`
	AppURL       string          `json:"app_url"`
	Labels       json.RawMessage `json:"labels"`
	Queues       []string        `json:"queues"` // nil: all
	Kinds        []string        `json:"kinds"`  // nil: all
	Protocols    []string        `json:"protocols"`
	State        string          `json:"state"`
	StartedAt    time.Time       `json:"started_at"`
	HeartbeatAt  time.Time       `json:"heartbeat_at"`
	EndedAt      *time.Time      `json:"ended_at"`
	Reason       string          `json:"reason"`
	SkippedKinds []string        `json:"skipped_kinds"` // that its app lacks
	Running      int             `json:"running"`
	Slots        int             `json:"slots"`
	Ceiling      int             `json:"ceiling"`
	LoadPercent  float64         `json:"load_percent"`
	RTT          float64         `json:"rtt_ms"`
	Alive        bool            `json:"alive"` // not ended, and its heartbeat is at most 20 s old

	JSON json.RawMessage `json:"-"` // the row
}

// Workers lists up to limit workers, the living first; with ended those that
// ended, too, the latest first.
func (o *Operator) Workers(ctx context.Context, ended bool, limit int) ([]Worker, error) {
	var rows [][]byte
	err := o.read(ctx, "listing workers", func(q *dbq.Queries) (err error) {
		rows, err = q.WorkerList(ctx, dbq.WorkerListParams{Ended: ended, Max: int32(limit)})
		return err
	})
	if err != nil {
		return nil, err
	}
	return decodeAll(rows, func(w *Worker, row json.RawMessage) { w.JSON = row })
}

// Drain asks a worker to take nothing more and end what it runs. It returns its
// state after that, draining, done or evicted, and how many tasks it ran at its
// last heartbeat; [ErrNotFound] when there is no such worker.
func (o *Operator) Drain(ctx context.Context, id string) (state string, running int, err error) {
	if state, err = o.q.WorkerDrain(ctx, id); err != nil {
		return "", 0, translate("draining worker", err)
	}
	n, err := o.q.WorkerRunning(ctx, id)
	if err != nil {
		return state, 0, translate("worker "+id, err)
	}
	return state, int(n), nil
}
