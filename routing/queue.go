package routing

import (
	"slices"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	// activeFor is how long a queue counts as active after tasks last waited in it.
	activeFor = time.Minute
	// fewQueues is up to how many queues the state of each is written as if it were
	// active, whether tasks wait in it or not.
	fewQueues = 200
)

// queueState is one queue as the leader knows it.
type queueState struct {
	name       string
	demand     Demand
	class      classKey
	strategy   Strategy
	maxPending int // 0: as the setting says

	assigned   *shares // as in the database
	written    queueRow
	pressure   Pressure
	waiting    int
	lap        int // of counting, when it was last seen to have waiting tasks
	lastActive time.Time
}

// queueRow is the state of a queue that the leader writes.
type queueRow struct {
	Name        string   `json:"name"`
	Pressure    string   `json:"pressure"`
	Reason      *string  `json:"reason"`
	Pending     int      `json:"pending"`
	Load        float64  `json:"load"`
	Workers     int      `json:"workers"`
	WeightTotal int64    `json:"weight_total"`
	FreeSlots   int      `json:"free_slots"`
	Unroutable  *string  `json:"unroutable"`
	Wake        []string `json:"wake"` // nil: everybody
}

// polled reports whether nobody is woken for the queue since one of its workers polls.
func (r queueRow) polled() bool { return r.Wake != nil && len(r.Wake) == 0 && r.FreeSlots > 0 }

func newQueueState(row dbq.RoutingQueuesRow) *queueState {
	q := &queueState{
		name:   row.Name,
		demand: Demand{Base: row.Base, Selector: textPairs(row.Selector), Protocol: row.Protocol},
		class:  classKey{selector: row.Selector, protocol: row.Protocol, base: row.Base}, strategy: Strategy(row.Strategy),
		maxPending: int(row.MaxPending.Int32),
		assigned:   &shares{},
		waiting:    int(row.Pending),
		written: queueRow{
			Name: row.Name, Pressure: row.Pressure, Pending: int(row.Pending), Load: float64(row.Load), Workers: int(row.Workers),
			WeightTotal: row.WeightTotal, FreeSlots: int(row.FreeSlots), Wake: row.Wake,
		},
	}
	if row.PressureReason.Valid {
		q.written.Reason = &row.PressureReason.String
	}
	if row.Unroutable.Valid {
		q.written.Unroutable = &row.Unroutable.String
	}
	level := parseLevel(row.Pressure)
	q.pressure = Pressure{Pending: level, Load: level}
	return q
}

// take keeps what is known of the queue beside its row.
func (q *queueState) take(old *queueState) {
	q.assigned, q.pressure, q.waiting, q.lap, q.lastActive = old.assigned, old.pressure, old.waiting, old.lap, old.lastActive
}

func (q *queueState) active(now time.Time) bool {
	return !q.lastActive.IsZero() && now.Sub(q.lastActive) < activeFor
}

// stale reports whether the row should be written anew. near: its measures matter
// now, since tasks wait in it; otherwise only what makes a difference once some do.
func (q *queueState) stale(next queueRow, near bool, group *group) bool {
	old := q.written
	if old.Pressure != next.Pressure || old.Workers != next.Workers || old.WeightTotal != next.WeightTotal || old.Pending != next.Pending ||
		!sameText(old.Unroutable, next.Unroutable) || (old.Wake == nil) != (next.Wake == nil) {
		return true
	}
	if near {
		return !slices.Equal(old.Wake, next.Wake) || moved(float64(old.FreeSlots), float64(next.FreeSlots), weightStep) ||
			moved(old.Load, next.Load, weightStep/2)
	}
	// An entry that would not claim delays a task; a list of too many wakes somebody in vain.
	if len(old.Wake) == 0 && len(next.Wake) > 0 {
		return true
	}
	return slices.ContainsFunc(old.Wake, func(id string) bool { return !group.wakeable[id] })
}

func sameText(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// moved reports whether a measure changed by a part of what it was, or came to 0 or
// from it.
func moved(old, next, part float64) bool {
	if (old == 0) != (next == 0) {
		return true
	}
	return max(next-old, old-next) > part*old
}
