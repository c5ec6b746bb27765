package routing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	turnTimeout = 2 * time.Second
	partTimeout = time.Second
	// reloadEvery is after how many turns everything is read again, lest a row that
	// somebody else wrote or deleted go unnoticed for long.
	reloadEvery = 300
	sweepEvery  = 60 // turns
	sweepMax    = 20_000

	// assignmentsMax bounds the rows of sched.assignment: beyond it queues in which no
	// task has waited lately have none, and whoever has the labels serves them.
	assignmentsMax = 100_000
	// chunk bounds the rows that one statement writes.
	chunk = 5000
	// statesMax bounds the queues whose state is written in a turn; those left come
	// in the next.
	statesMax = 1000

	// countBudget is how many waiting tasks a turn counts over all queues, and
	// countLargest the max_pending up to which a queue is counted each turn.
	// Larger ones are counted when the budget is not overdrawn.
	countBudget  = 50_000
	countLargest = 20_000
	// blindAfter is for how long counts may fail before they count for nothing.
	blindAfter = 5 * time.Second
)

// Router is the leader's part of routing: each turn it decides who serves which
// queue, whom an enqueue wakes, and how close queues and the fleet are to their
// limits, and writes down what changed. Not safe for concurrent use, apart from its
// metrics.
type Router struct {
	q         *dbq.Queries
	who       func() string
	decisions *DecisionLog
	metrics   *metrics

	turn     int
	loaded   bool
	horizon  string // transactions from which on queues are to be read
	version  int64  // of the topology
	settings settings
	fleet    fleetState
	classes  map[classKey]*class
	groups   map[groupKey]*group
	queues   map[string]*queueState
	names    []string // of queues, sorted
	orphans  []assignmentRow
	pressure Pressure // of the fleet

	present  Topology // as it is
	topology Topology // as it was written last
	taken    time.Time

	after     string // the queue after which counting goes on
	lap       int    // of counting
	budget    int
	countedAt time.Time

	told bool // sidecars are to be told that assignments or the topology changed
}

// NewRouter returns a router for the worker that who names.
func NewRouter(db dbq.DBTX, who func() string, decisions *DecisionLog, registerer prometheus.Registerer) *Router {
	r := &Router{q: dbq.New(db), who: who, decisions: decisions, metrics: newMetrics(registerer)}
	r.Reset()
	return r
}

// Reset forgets everything: to be called when this sidecar leads no more, or begins
// to.
func (r *Router) Reset() {
	*r = Router{
		q: r.q, who: r.who, decisions: r.decisions, metrics: r.metrics, settings: defaultSettings(),
		classes: map[classKey]*class{}, groups: map[groupKey]*group{}, queues: map[string]*queueState{}, lap: 1,
	}
	r.metrics.reset()
}

// Turn takes one turn, bounded by two seconds. To be called each second. What
// doesn't depend on a part that failed is done all the same; the fleet's row, which
// says that somebody leads, is written only if the workers could be read.
func (r *Router) Turn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	started := time.Now()
	if err := r.read(ctx, started); err != nil {
		return err
	}
	errs := []error{
		within(ctx, partTimeout, func(ctx context.Context) error { return r.count(ctx, started) }),
		r.snapshot(ctx, started),
		within(ctx, partTimeout, func(ctx context.Context) error { return r.assign(ctx, started) }),
		r.putQueues(ctx, started),
		within(ctx, partTimeout, r.canaries),
		r.putFleet(ctx),
		r.tell(ctx),
	}
	if r.turn%sweepEvery == sweepEvery-1 {
		errs = append(errs, r.sweep(ctx))
	}
	r.metrics.observe(r, time.Since(started))
	r.forgetGroups()
	r.turn++
	return errors.Join(errs...)
}

// within bounds a part of the turn that may take long, so that it leaves time for
// what comes after it.
func within(ctx context.Context, limit time.Duration, part func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return part(ctx)
}

// read reads what the turn decides from.
func (r *Router) read(ctx context.Context, now time.Time) error {
	fleet, err := r.q.RoutingFleet(ctx)
	if err != nil {
		return fmt.Errorf("read the fleet: %w", err)
	}
	if err := r.readSettings(ctx); err != nil {
		return err
	}
	// Somebody else who led meanwhile has written what we don't know of.
	if !r.loaded || fleet.Leader.String != r.who() || r.turn%reloadEvery == 0 {
		if err := r.load(ctx, fleet); err != nil {
			r.loaded = false
			return err
		}
		r.loaded = true
	} else if err := r.readQueues(ctx, r.horizon, now); err != nil {
		return err
	}
	r.horizon = fleet.Horizon
	return r.readWorkers(ctx, now)
}

// load reads all queues, assignments and the newest topology.
func (r *Router) load(ctx context.Context, fleet dbq.RoutingFleetRow) error {
	known := r.queues
	r.queues = make(map[string]*queueState, len(known))
	if err := r.readQueues(ctx, "0", time.Time{}); err != nil {
		r.queues = known
		return err
	}
	for name, q := range r.queues {
		if old, ok := known[name]; ok {
			q.take(old)
		}
		q.assigned = &shares{rows: map[string]Share{}}
	}
	rows, err := r.q.RoutingAssignments(ctx)
	if err != nil {
		return fmt.Errorf("read assignments: %w", err)
	}
	r.orphans = nil
	for _, row := range rows {
		if q, ok := r.queues[row.Queue]; ok {
			q.assigned.rows[row.WorkerID] = Share{Weight: int(row.Weight), Reason: row.Reason}
		} else {
			r.orphans = append(r.orphans, assignmentRow{Queue: row.Queue, Worker: row.WorkerID})
		}
	}
	latest, err := r.q.TopologyLatest(ctx)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		r.topology, r.version = Topology{}, fleet.TopologyVersion
	case err != nil:
		return fmt.Errorf("read the topology: %w", err)
	default:
		r.topology, r.version = Topology{}, max(latest.Version, fleet.TopologyVersion)
		if err := json.Unmarshal([]byte(latest.Topology), &r.topology); err != nil {
			return fmt.Errorf("read the topology: %w", err)
		}
	}
	if len(known) == 0 {
		level := parseLevel(fleet.Pressure)
		r.pressure = Pressure{Pending: level, Load: level}
	}
	return nil
}

// readQueues reads queues that were made or reconfigured by transactions from since
// on. New ones count as active from now, unless that is zero.
func (r *Router) readQueues(ctx context.Context, since string, now time.Time) error {
	rows, err := r.q.RoutingQueues(ctx, since)
	if err != nil {
		return fmt.Errorf("read queues: %w", err)
	}
	for _, row := range rows {
		q := newQueueState(row)
		if old, ok := r.queues[q.name]; ok {
			q.take(old)
		} else {
			q.lastActive = now
		}
		r.queues[q.name] = q
	}
	if len(r.queues) != len(r.names) || since == "0" {
		r.names = slices.Sorted(maps.Keys(r.queues))
	}
	return nil
}

// count counts the tasks that wait in each queue, within the budget.
func (r *Router) count(ctx context.Context, now time.Time) error {
	if r.countedAt.IsZero() {
		r.countedAt = now
	}
	r.budget = min(r.budget+countBudget, countBudget)
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
			r.after = ""
			r.lap++
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

// putQueues writes the state of queues where it changed.
func (r *Router) putQueues(ctx context.Context, now time.Time) error {
	type candidate struct {
		q       *queueState
		row     queueRow
		signals PressureSignals
		active  bool
	}
	var due []candidate
	few := len(r.names) <= fewQueues
	for _, name := range r.names {
		q := r.queues[name]
		g := r.groupOf(q)
		signals := PressureSignals{Pending: q.waiting, MaxPending: cmp.Or(q.maxPending, r.settings.maxPending), Load: g.load}
		q.pressure = q.pressure.Next(signals, r.settings.thresholds)
		row := queueRow{
			Name: name, Pressure: q.pressure.Level().String(), Pending: min(q.waiting, signals.MaxPending), Load: g.load,
			Workers: len(q.assigned.rows), WeightTotal: g.weight, FreeSlots: g.freeSlots, Wake: g.wake,
			Reason: text(q.pressure.Reason(signals, r.settings.thresholds)), Unroutable: text(g.unroutable),
		}
		if row.Workers == 0 { // nobody, or too many queues
			row.WeightTotal, row.FreeSlots, row.Wake = 0, 0, nil
		}
		if active := q.active(now); q.stale(row, active || few, g) {
			due = append(due, candidate{q, row, signals, active})
		}
	}
	slices.SortStableFunc(due, func(a, b candidate) int {
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
			c.q.written = c.row
		}
	}
	return nil
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

// putFleet writes the fleet's row, which also says that somebody leads.
func (r *Router) putFleet(ctx context.Context) error {
	waiting := 0
	for _, q := range r.queues {
		waiting += q.waiting
	}
	signals := PressureSignals{Pending: min(waiting, r.settings.maxPending), MaxPending: r.settings.maxPending, Load: meanLoad(r.fleet.active())}
	before := r.pressure
	r.pressure = before.Next(signals, r.settings.thresholds)
	reason := r.pressure.Reason(signals, r.settings.thresholds)
	if before.Level() != r.pressure.Level() {
		r.decisions.Note(Decision{
			What: "pressure", Subject: "fleet", From: before.Level().String(), To: r.pressure.Level().String(), Reason: cmp.Or(reason, "below all thresholds"),
			Signals: map[string]any{"pending": signals.Pending, "max_pending": signals.MaxPending, "load": signals.Load},
		})
	}
	err := r.q.RoutingFleetPut(ctx, dbq.RoutingFleetPutParams{
		Pressure: r.pressure.Level().String(), PressureReason: pgtype.Text{String: reason, Valid: reason != ""}, Pending: int32(signals.Pending),
		Load: float32(signals.Load), Workers: int32(len(r.fleet.members)),
		Slots:   int32(r.fleet.total(func(m *Member) int { return m.Slots })),
		Running: int32(r.fleet.total(func(m *Member) int { return m.Running })), TopologyVersion: r.version,
		Leader: pgtype.Text{String: r.who(), Valid: true},
	})
	if err != nil {
		return fmt.Errorf("write the fleet: %w", err)
	}
	r.metrics.fleet(r.pressure.Level(), signals)
	return nil
}

// tell lets the sidecars know that assignments or the topology changed.
func (r *Router) tell(ctx context.Context) error {
	if !r.told {
		return nil
	}
	if err := r.q.RoutingNotify(ctx, fmt.Sprint(r.version)); err != nil {
		return fmt.Errorf("tell of assignments: %w", err)
	}
	r.told = false
	return nil
}

// sweep deletes what is older than the settings say, bounded.
func (r *Router) sweep(ctx context.Context) error {
	_, decisions := r.q.DecisionSweep(ctx, dbq.DecisionSweepParams{KeepDays: int32(r.settings.decisionKeepDays), Max: sweepMax})
	_, topology := r.q.TopologySweep(ctx, dbq.TopologySweepParams{KeepDays: int32(r.settings.topologyKeepDays), Max: sweepMax})
	_, actions := r.q.OperatorActionSweep(ctx, dbq.OperatorActionSweepParams{KeepDays: int32(r.settings.operatorActionDays), Max: sweepMax})
	if err := errors.Join(decisions, topology, actions); err != nil {
		return fmt.Errorf("delete old decisions, changes and interventions: %w", err)
	}
	return nil
}
