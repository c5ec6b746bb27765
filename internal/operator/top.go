package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// Top is the fleet at a moment, for those who watch it: what its workers said last
// and what the leader found last. Rates are in tasks a second; nil is what nobody
// measures.
type Top struct {
	Fleet   TopFleet    `json:"fleet"`
	Workers []TopWorker `json:"workers"` // those first that run the most
	Queues  []TopQueue  `json:"queues"`  // those first that are under pressure
}

// TopFleet is all of it: sched.fleet_demand, and whether somebody leads.
type TopFleet struct {
	At       time.Time `json:"at"`
	Desired  int       `json:"desired_workers"`
	Reason   string    `json:"reason"` // why so many are desired
	Workers  int       `json:"workers"`
	Draining int       `json:"draining"`
	Arrivals float64   `json:"arrivals"`
	Forecast float64   `json:"forecast"`
	Demand   float64   `json:"demand"` // in slots
	Running  int       `json:"running"`
	Slots    int       `json:"slots"`
	Ceiling  int       `json:"ceiling"`
	Led      bool      `json:"led"`
	Pressure string    `json:"pressure"` // green while nobody leads
}

// TopWorker is a living worker.
type TopWorker struct {
	ID           string     `json:"id"`
	Hostname     string     `json:"hostname"`
	AppURL       string     `json:"app_url"`
	State        string     `json:"state"`
	Health       string     `json:"health"`
	Holds        []string   `json:"holds"` // why it claims nothing
	Running      int        `json:"running"`
	Slots        int        `json:"slots"`
	Ceiling      int        `json:"ceiling"`
	CPU          float64    `json:"cpu"`
	Mem          float64    `json:"mem"`
	LoadPercent  float64    `json:"load_percent"`
	Arrivals     *float64   `json:"arrivals"`
	Forecast     *float64   `json:"forecast"`
	Demand       *float64   `json:"demand"`
	Score        *float64   `json:"score"`
	ScoreCPU     *float64   `json:"score_cpu"`
	ScoreMem     *float64   `json:"score_mem"`
	ScorePending *float64   `json:"score_pending"`
	ScaleOut     bool       `json:"scale_out"`
	Reason       string     `json:"elastic_reason"` // what decided last; empty: nothing does
	HeartbeatAt  time.Time  `json:"heartbeat_at"`
	Alive        bool       `json:"alive"`
	SlotsReason  string     `json:"slots_reason"` // of the last change of slots
	SlotsAt      *time.Time `json:"slots_at"`
	SlotsFrom    string     `json:"slots_from"`
	SlotsTo      string     `json:"slots_to"`
}

// TopQueue is a queue as the leader found it.
type TopQueue struct {
	Name           string     `json:"name"`
	Pressure       string     `json:"pressure"`
	PressureReason string     `json:"pressure_reason"`
	Pending        int64      `json:"pending"` // counted up to FullAt
	FullAt         int64      `json:"full_at"`
	Load           float64    `json:"load"` // mean running ÷ ceiling of its workers
	Workers        int64      `json:"workers"`
	FreeSlots      int64      `json:"free_slots"`
	PausedAt       *time.Time `json:"paused_at"`
	Unroutable     string     `json:"unroutable"`
}

// Top reads the fleet with up to limit workers and as many queues, all as of one
// moment. It costs a few scans of small tables, however many tasks there are. A
// connection that was lost is opened anew, so that the next look may succeed.
func (o *Operator) Top(ctx context.Context, limit int) (top Top, err error) {
	if err := o.revive(ctx); err != nil {
		return top, err
	}
	var fleet []byte
	var workers, queues [][]byte
	err = o.read(ctx, "reading the fleet", func(q *dbq.Queries) (err error) {
		if fleet, err = q.TopFleet(ctx); err != nil {
			return err
		}
		if workers, err = q.TopWorkers(ctx, int32(limit)); err != nil {
			return err
		}
		queues, err = q.TopQueues(ctx, int32(limit))
		return err
	})
	if err != nil {
		return top, err
	}
	if err := json.Unmarshal(fleet, &top.Fleet); err != nil {
		return top, fmt.Errorf("reading row %s: %w", fleet, err)
	}
	if top.Workers, err = decodeAll(workers, func(*TopWorker, json.RawMessage) {}); err != nil {
		return top, err
	}
	top.Queues, err = decodeAll(queues, func(*TopQueue, json.RawMessage) {})
	return top, err
}
