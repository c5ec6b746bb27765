package routing

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	// assignmentsMax bounds the rows of sched.assignment: beyond it queues in which no
	// task has waited lately have none, and whoever has the labels serves them.
	assignmentsMax = 100_000
	// chunk bounds the rows that one statement writes.
	chunk = 5000
)

// assign writes the assignments that changed.
func (r *Router) assign(ctx context.Context, now time.Time) error {
	if len(r.fleet.gone) > 0 {
		if _, err := r.q.RoutingUnassignWorkers(ctx, r.fleet.gone); err != nil {
			return fmt.Errorf("take assignments of gone workers away: %w", err)
		}
		r.told = true
	}
	gone := make(map[string]bool, len(r.fleet.gone))
	for _, id := range r.fleet.gone {
		gone[id] = true
	}
	rows := 0
	for _, name := range r.names {
		rows += len(r.groupOf(r.queues[name]).shares.rows)
	}
	scarce := rows > assignmentsMax
	rows = 0
	b := assignmentBatch{drop: r.orphans}
	for _, name := range r.names {
		q := r.queues[name]
		next := r.groupOf(q).shares
		if scarce && (!q.active(now) || rows+len(next.rows) > assignmentsMax) {
			next = &shares{}
		}
		rows += len(next.rows)
		if next == q.assigned {
			continue
		}
		put, drop := diffShares(name, q.assigned.rows, next.rows)
		drop = slices.DeleteFunc(drop, func(row assignmentRow) bool { return gone[row.Worker] })
		b.add(q, next, put, drop)
		if b.size() < chunk {
			continue
		}
		if err := r.putAssignments(ctx, &b); err != nil {
			return err
		}
	}
	r.metrics.assignments.Set(float64(rows))
	if err := r.putAssignments(ctx, &b); err != nil {
		return err
	}
	r.orphans = nil
	return nil
}

// assignmentBatch is what one statement each puts and drops, and the queues whose
// assignments are then as they should be.
type assignmentBatch struct {
	put, drop []assignmentRow
	done      map[*queueState]*shares
}

func (b *assignmentBatch) add(q *queueState, next *shares, put, drop []assignmentRow) {
	if b.done == nil {
		b.done = map[*queueState]*shares{}
	}
	b.done[q] = next
	b.put, b.drop = append(b.put, put...), append(b.drop, drop...)
}

func (b *assignmentBatch) size() int { return len(b.put) + len(b.drop) }

func (r *Router) putAssignments(ctx context.Context, b *assignmentBatch) error {
	if len(b.drop) > 0 {
		entries, err := json.Marshal(b.drop)
		if err != nil {
			return fmt.Errorf("take assignments away: %w", err)
		}
		if err := r.q.RoutingUnassign(ctx, entries); err != nil {
			return fmt.Errorf("take assignments away: %w", err)
		}
		r.told = true
	}
	if len(b.put) > 0 {
		entries, err := json.Marshal(b.put)
		if err != nil {
			return fmt.Errorf("write assignments: %w", err)
		}
		if err := r.q.RoutingAssign(ctx, dbq.RoutingAssignParams{Version: r.version, Entries: entries}); err != nil {
			return fmt.Errorf("write assignments: %w", err)
		}
		r.told = true
	}
	for q, next := range b.done {
		q.assigned = next
	}
	*b = assignmentBatch{}
	return nil
}
