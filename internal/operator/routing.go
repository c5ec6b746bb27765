package operator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// Pressure is how close the fleet, or a queue, is to its limits.
type Pressure struct {
	Scope      string     `json:"scope"` // fleet or queue
	Name       string     `json:"name"`  // of the queue
	Level      string     `json:"level"` // green, yellow or red; green while nobody leads
	Reason     string     `json:"reason"`
	Pending    int64      `json:"pending"` // counted up to MaxPending
	MaxPending int64      `json:"max_pending"`
	Load       float64    `json:"load"` // 0 to 1
	Workers    int64      `json:"workers"`
	Led        bool       `json:"led"` // a leader wrote this a moment ago
	Leader     string     `json:"leader"`
	ComputedAt *time.Time `json:"computed_at"`

	JSON json.RawMessage `json:"-"`
}

// Pressure returns that of the fleet and of the queues that are not green, or with
// all of every queue; with names that of those queues and the ones derived from
// them, up to limit. It returns [ErrNotFound] for a name without a queue.
func (o *Operator) Pressure(ctx context.Context, names []string, all bool, limit int) ([]Pressure, error) {
	if names != nil {
		if err := o.known(ctx, names, false); err != nil {
			return nil, err
		}
	}
	rows, err := o.q.PressureList(ctx, dbq.PressureListParams{Names: names, Everything: all, Max: int32(limit)})
	if err != nil {
		return nil, translate("reading pressure", err)
	}
	return decodeAll(rows, func(p *Pressure, row json.RawMessage) { p.JSON = row })
}

// Assignment says that a worker serves a queue, and how much of it.
type Assignment struct {
	Queue     string    `json:"queue"`
	WorkerID  string    `json:"worker_id"`
	Hostname  string    `json:"hostname"`
	Weight    int64     `json:"weight"`
	Reason    string    `json:"reason"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
	State     string    `json:"state"`
	Health    string    `json:"health"`
	Running   int64     `json:"running"`
	Slots     int64     `json:"slots"`

	JSON json.RawMessage `json:"-"`
}

// Assignments lists up to limit assignments by queue, the heaviest first: of queues
// (with those derived from them) if any is named, and of one worker if it is named.
func (o *Operator) Assignments(ctx context.Context, queues []string, worker string, limit int) ([]Assignment, error) {
	rows, err := o.q.AssignmentList(ctx, dbq.AssignmentListParams{Queues: queues, WorkerID: nullText(worker), Max: int32(limit)})
	if err != nil {
		return nil, translate("listing assignments", err)
	}
	return decodeAll(rows, func(a *Assignment, row json.RawMessage) { a.JSON = row })
}

// Canary is a queue's share for workers with the label track=canary.
type Canary struct {
	Queue       string    `json:"queue"`
	Percent     float64   `json:"percent"`
	State       string    `json:"state"` // off, rising, held, full or rolled_back
	Steps       []float64 `json:"steps"`
	HoldSeconds float64   `json:"hold_seconds"`
	StepAt      time.Time `json:"step_at"`
	Reason      string    `json:"reason"`
	Workers     int64     `json:"workers"`

	JSON json.RawMessage `json:"-"`
}

// Canaries lists all canaries, or that of a queue if one is named.
func (o *Operator) Canaries(ctx context.Context, queue string) ([]Canary, error) {
	rows, err := o.q.CanaryList(ctx, nullText(queue))
	if err != nil {
		return nil, translate("listing canaries", err)
	}
	return decodeAll(rows, func(c *Canary, row json.RawMessage) { c.JSON = row })
}

// CanaryRules are how a canary rises; what is zero stays as it is.
type CanaryRules struct {
	Steps             []float64     // percent, rising
	Hold              time.Duration // for how long a step must do well
	MaxP95            time.Duration // most by which 95th percentiles may differ
	MaxErrorPoints    *float64
	MaxCPUPoints      *float64
	AbortErrorPercent *float64
}

// HoldCanary gives a canary a share in percent and keeps it there; 0 ends it. It
// returns [ErrNotFound] when there is no such queue.
func (o *Operator) HoldCanary(ctx context.Context, queue string, percent float64) (Canary, error) {
	state := "held"
	if percent == 0 {
		state = "off"
	}
	return o.putCanary(ctx, queue, map[string]any{"percent": percent, "state": state})
}

// StartCanary lets a canary rise, from where it is held, or else from nothing. As
// [Operator.HoldCanary].
func (o *Operator) StartCanary(ctx context.Context, queue string, rules CanaryRules) (Canary, error) {
	values := map[string]any{"state": "rising"}
	if rules.Steps != nil {
		values["steps"] = rules.Steps
	}
	if rules.Hold > 0 {
		values["hold_seconds"] = rules.Hold.Seconds()
	}
	if rules.MaxP95 > 0 {
		values["max_p95_ms"] = float64(rules.MaxP95) / float64(time.Millisecond)
	}
	for name, v := range map[string]*float64{
		"max_error_points": rules.MaxErrorPoints, "max_cpu_points": rules.MaxCPUPoints, "abort_error_percent": rules.AbortErrorPercent,
	} {
		if v != nil {
			values[name] = *v
		}
	}
	return o.putCanary(ctx, queue, values)
}

func (o *Operator) putCanary(ctx context.Context, queue string, values map[string]any) (Canary, error) {
	if err := o.known(ctx, []string{queue}, true); err != nil {
		return Canary{}, err
	}
	text, err := json.Marshal(values)
	if err != nil {
		return Canary{}, err
	}
	if err := o.q.CanaryPut(ctx, dbq.CanaryPutParams{Queue: queue, Values: text}); err != nil {
		return Canary{}, translate("setting the canary of queue "+queue, err)
	}
	list, err := o.Canaries(ctx, queue)
	if err != nil {
		return Canary{}, err
	}
	return list[0], nil
}
