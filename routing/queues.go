package routing

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	// countBudget is how many waiting tasks a turn counts over all queues, and
	// countLargest the max_pending up to which a queue is counted each turn.
	// Larger ones are counted when the budget is not overdrawn.
	countBudget  = 50_000
	countLargest = 20_000
	// blindAfter is for how long counts may fail before they count for nothing.
	blindAfter = 5 * time.Second

	// statesMax bounds the queues whose state is written in a turn; those left come
	// in the next.
	statesMax = 1000
)

// count counts the tasks that wait in each queue, within the budget, if there are some.
func (r *Router) count(ctx context.Context, now time.Time, some bool) error {
	if r.countedAt.IsZero() {
		r.countedAt = now
	}
	r.budget = min(r.budget+countBudget, countBudget)
	if !some {
		r.countedAt = now
		r.endLap()
		for _, q := range r.queues {
			q.waiting = 0
		}
		return nil
	}
	largest := countLargest
	if r.budget >= 0 {
		largest = 1_000_000
	}
	rows, err := r.q.RoutingWaiting(ctx, dbq.RoutingWaitingParams{
		After: r.after, DefaultMax: int32(r.settings.maxPending), Budget: countBudget, Largest: int32(largest),
	})
	if err != nil {
		if now.Sub(r.countedAt) > blindAfter {
			for _, q := range r.queues {
				q.waiting = 0 // better to let tasks in than to keep them out by a measure of old
			}
		}
		return fmt.Errorf("count waiting tasks: %w", err)
	}
	r.countedAt = now
	for _, row := range rows {
		if row.Queue == "" { // the end: who has not been seen in this lap has no waiting tasks
			for _, q := range r.queues {
				if q.lap != r.lap {
					q.waiting = 0
				}
			}
			r.endLap()
			break
		}
		r.after = row.Queue
		q, ok := r.queues[row.Queue]
		if !ok {
			continue
		}
		q.lap = r.lap
		q.lastActive = now
		if row.Waiting >= 0 {
			q.waiting = int(row.Waiting)
			r.budget -= q.waiting
		}
	}
	return nil
}

// endLap lets counting begin with the first queue again.
func (r *Router) endLap() {
	r.after = ""
	r.lap++
}

// queueChange is a queue whose row is to be written, and what for.
type queueChange struct {
	q       *queueState
	row     queueRow
	signals PressureSignals
	active  bool
}

// putQueues writes the state of queues where it changed, those with tasks first.
func (r *Router) putQueues(ctx context.Context, now time.Time) error {
	var due []queueChange
	few := len(r.names) <= fewQueues
	for _, name := range r.names {
		if c := r.judge(r.queues[name], now); c.q.stale(c.row, c.active || few, r.groupOf(c.q)) {
			due = append(due, c)
		}
	}
	slices.SortStableFunc(due, func(a, b queueChange) int {
		switch {
		case a.active == b.active:
			return 0
		case a.active:
			return -1
		}
		return 1
	})
	due = due[:min(len(due), statesMax)]
	if len(due) == 0 {
		return nil
	}
	rows := make([]queueRow, len(due))
	for i, c := range due {
		rows[i] = c.row
	}
	entries, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("write the state of queues: %w", err)
	}
	written, err := r.q.RoutingQueueState(ctx, dbq.RoutingQueueStateParams{Entries: entries, N: int32(len(rows))})
	if err != nil {
		return fmt.Errorf("write the state of queues: %w", err)
	}
	done := make(map[string]bool, len(written))
	for _, name := range written {
		done[name] = true
	}
	for _, c := range due {
		if done[c.q.name] {
			r.noteQueue(c.q.written, c.row, c.signals)
			r.turned = r.turned || c.q.written.polled() != c.row.polled()
			c.q.written = c.row
		}
	}
	return nil
}

// judge decides the state of a queue.
func (r *Router) judge(q *queueState, now time.Time) queueChange {
	g := r.groupOf(q)
	signals := PressureSignals{Pending: q.waiting, MaxPending: cmp.Or(q.maxPending, r.settings.maxPending), Load: g.load}
	q.pressure = q.pressure.Next(signals, r.settings.thresholds)
	row := queueRow{
		Name: q.name, Pressure: q.pressure.Level().String(), Pending: min(q.waiting, signals.MaxPending), Load: g.load,
		Workers: len(q.assigned.rows), WeightTotal: g.weight, FreeSlots: g.freeSlots, Wake: g.wake,
		Reason: text(q.pressure.Reason(signals, r.settings.thresholds)), Unroutable: text(g.unroutable),
	}
	if row.Workers == 0 { // nobody, or too many queues
		row.WeightTotal, row.FreeSlots, row.Wake = 0, 0, nil
	}
	return queueChange{q, row, signals, q.active(now)}
}

func (r *Router) noteQueue(old, row queueRow, signals PressureSignals) {
	if old.Pressure != row.Pressure {
		r.decisions.Note(Decision{
			What: "pressure", Subject: row.Name, From: old.Pressure, To: row.Pressure, Reason: reasonOr(row.Reason, "below all thresholds"),
			Signals: map[string]any{"pending": signals.Pending, "max_pending": signals.MaxPending, "load": signals.Load},
		})
	}
	if !sameText(old.Unroutable, row.Unroutable) {
		d := Decision{What: "unroutable", Subject: row.Name, From: reasonOr(old.Unroutable, ""), To: reasonOr(row.Unroutable, "")}
		d.Reason = "a live worker offers what it asks for, or none is left"
		if row.Unroutable != nil {
			d.Reason = "no live worker offers " + *row.Unroutable + ": its tasks wait"
		}
		r.decisions.Note(d)
	}
}

func reasonOr(s *string, otherwise string) string {
	if s == nil {
		return otherwise
	}
	return *s
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
