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
	// loadTimeout bounds a turn that reads everything.
	loadTimeout = 10 * time.Second
	partTimeout = time.Second
	// reloadEvery is after how many turns everything is read again, lest a row that
	// somebody else wrote or deleted go unnoticed for long.
	reloadEvery = 300
	demandEvery = 10 // turns
	oldestEvery = 5
	sweepEvery  = 60 // turns
	sweepMax    = 20_000
	// unprobedFor is for how long a look asks no more whether tasks wait, once that took too long.
	unprobedFor = 30 * time.Second
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
	loadedAt int    // turn
	horizon  string // transactions from which on queues are to be read
	version  int64  // of the topology
	settings settings
	fleet    fleetState
	// workers are as they were read when workersSign was theirs.
	workers     []dbq.RoutingWorkersRow
	workersSign int64
	classes     map[classKey]*class
	groups      map[groupKey]*group
	queues      map[string]*queueState
	names       []string // of queues, sorted
	orphans     []assignmentRow
	pressure    Pressure // of the fleet

	unprobed time.Time // since when it isn't asked whether tasks wait

	present  Topology // as it is
	topology Topology // as it was written last
	taken    time.Time
	seen     int64 // the version that is to be confirmed; 0: none

	after     string // the queue after which counting goes on
	lap       int    // of counting
	budget    int
	countedAt time.Time

	rising map[string]bool // canaries, by queue: whether they rose in the turn before
	told   bool            // sidecars are to be told that assignments or the topology changed
	turned bool            // of a queue it changed whether workers have to poll; they find out by their heartbeats
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

// Look is what a turn begins with: see [Router.Look].
type Look struct {
	Beats []Beat
	// Waiting says that tasks are available.
	Waiting bool
	// NextDue is how long until a task that is scheduled, or will be retried, is due, at most an hour.
	NextDue time.Duration
	// SchedulesDue says that a periodic task is due.
	SchedulesDue bool
	// NewestID is the newest id that a task got.
	NewestID int64

	row     dbq.RoutingLookRow
	workers []dbq.RoutingWorkersRow
}

// Drop leaves out a worker that was evicted since.
func (l *Look) Drop(workerID string) {
	l.workers = slices.DeleteFunc(l.workers, func(row dbq.RoutingWorkersRow) bool { return row.ID == workerID })
}

// Look reads who lives, and what there is to do. Where the latter takes long, there is
// taken to be something, for a while.
func (r *Router) Look(ctx context.Context) (*Look, error) {
	probe := time.Since(r.unprobed) > unprobedFor
	var row dbq.RoutingLookRow
	read := func(ctx context.Context) (err error) {
		row, err = r.q.RoutingLook(ctx, dbq.RoutingLookParams{Keys: settingKeys(), Since: cmp.Or(r.horizon, "0"), Probe: probe})
		return err
	}
	err := within(ctx, partTimeout, read)
	if err != nil && probe && ctx.Err() == nil {
		probe, r.unprobed = false, time.Now()
		err = within(ctx, partTimeout, read)
	}
	if err != nil {
		return nil, fmt.Errorf("read the fleet: %w", err)
	}
	if r.workers == nil || row.WorkersSign != r.workersSign {
		workers, err := r.q.RoutingWorkers(ctx)
		if err != nil {
			return nil, fmt.Errorf("read workers: %w", err)
		}
		r.workers, r.workersSign = workers, row.WorkersSign
	}
	look := &Look{
		Waiting: row.Waiting, NextDue: time.Duration(row.NextDueMs * float64(time.Millisecond)), SchedulesDue: row.SchedulesDue,
		NewestID: row.NewestID, row: row, workers: slices.Clone(r.workers), Beats: make([]Beat, len(r.workers)),
	}
	for i := range r.workers {
		look.Beats[i] = Beat{WorkerID: r.workers[i].ID, Seq: r.workers[i].HeartbeatSeq}
	}
	return look, nil
}

// Turn takes one turn, bounded by two seconds, from a look a moment ago. To be called
// each second. What doesn't depend on a part that failed is done all the same; the
// fleet's row, which says that somebody leads, is written only if what there is could be read.
func (r *Router) Turn(parent context.Context, look *Look) error {
	limit := turnTimeout
	if !r.loaded {
		limit = loadTimeout
	}
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	started := time.Now()
	if err := r.read(ctx, started, look); err != nil {
		return err
	}
	errs := []error{
		within(ctx, partTimeout, func(ctx context.Context) error { return r.count(ctx, started, look.Waiting) }),
		r.snapshot(ctx, started),
		within(ctx, partTimeout, func(ctx context.Context) error { return r.assign(ctx, started) }),
		r.putQueues(ctx, started),
		within(ctx, partTimeout, func(ctx context.Context) error { return r.canaries(ctx, look.row.Canaries) }),
		// Whatever the rest took: without these two nobody seems to lead.
		within(parent, partTimeout, r.putFleet),
		within(parent, partTimeout, r.tell),
	}
	if r.turn%demandEvery == 0 {
		errs = append(errs, r.demand(ctx))
	}
	if r.turn%sweepEvery == sweepEvery-1 {
		errs = append(errs, within(parent, turnTimeout, r.sweep))
	}
	r.metrics.observe(r, time.Since(started))
	if r.turn%oldestEvery == 0 {
		errs = append(errs, within(parent, partTimeout, r.oldest))
	}
	r.forgetGroups()
	r.turn++
	return errors.Join(errs...)
}

// Greet assigns new queues and workers between two turns; it has the bounds of
// [Router.Turn].
func (r *Router) Greet(parent context.Context) error {
	if !r.loaded {
		return nil // the next turn reads everything
	}
	ctx, cancel := context.WithTimeout(parent, turnTimeout)
	defer cancel()
	started := time.Now()
	look, err := r.Look(ctx)
	if err != nil {
		return err
	}
	if err := r.read(ctx, started, look); err != nil {
		return err
	}
	return errors.Join(
		r.snapshot(ctx, started),
		within(ctx, partTimeout, func(ctx context.Context) error { return r.assign(ctx, started) }),
		r.putQueues(ctx, started),
		within(ctx, partTimeout, func(ctx context.Context) error {
			_, err := r.countCanaries(ctx, look.row.Canaries)
			return err
		}),
		within(parent, partTimeout, r.putFleet),
		within(parent, partTimeout, r.tell),
	)
}

// demand shows how many workers there should be.
func (r *Router) demand(ctx context.Context) error {
	desired, err := r.q.RoutingDemand(ctx)
	if err != nil {
		return fmt.Errorf("read the fleet's demand: %w", err)
	}
	r.metrics.desiredWorkers.Set(float64(desired))
	return nil
}

// oldest shows since when the longest waiting tasks have been due.
func (r *Router) oldest(ctx context.Context) error {
	rows, err := r.q.RoutingOldest(ctx, r.metrics.shown)
	if err != nil {
		return fmt.Errorf("read since when tasks wait: %w", err)
	}
	r.metrics.observeOldest(rows)
	return nil
}

// within bounds a part of the turn that may take long, so that it leaves time for
// what comes after it.
func within(ctx context.Context, limit time.Duration, part func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return part(ctx)
}

// read reads what the turn decides from, as far as the look has not.
func (r *Router) read(ctx context.Context, now time.Time, look *Look) error {
	settings, err := parseSettings(look.row.Settings)
	if err != nil {
		return err
	}
	r.settings = settings
	switch {
	// Somebody else who led meanwhile has written what we don't know of.
	case !r.loaded || look.row.Leader.String != r.who() || r.turn-r.loadedAt >= reloadEvery:
		if err := r.load(ctx, &look.row); err != nil {
			r.loaded = false
			return err
		}
		r.loaded, r.loadedAt = true, r.turn
	case look.row.QueuesChanged:
		if err := r.readQueues(ctx, r.horizon, now); err != nil {
			return err
		}
	}
	r.horizon = look.row.Horizon
	return r.seeWorkers(ctx, now, look.workers)
}

// load reads all queues, assignments and the newest topology.
func (r *Router) load(ctx context.Context, fleet *dbq.RoutingLookRow) error {
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
		Leader: pgtype.Text{String: r.who(), Valid: true}, PoliciesChanged: r.told || r.turned, TopologySeen: r.seen,
	})
	if err != nil {
		return fmt.Errorf("write the fleet: %w", err)
	}
	r.turned, r.seen = false, 0
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
