package governor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"golang.org/x/sync/errgroup"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/spans"
	"github.com/sched-sidecar/sched/sql/dbq"
)

// SlotsMax is the largest ceiling of one sidecar (half of what River allows one
// producer, so that River's own accounting never stands in the way).
const SlotsMax = 5000

// Config is what a governor needs. All fields without a note are required.
type Config struct {
	Pool *pgxpool.Pool
	// Listen is how to connect for notifications. Nil: as the pool does. It must
	// lead to Postgres itself when the pool goes through a transaction pooler.
	Listen     *pgx.ConnConfig
	Dispatcher dispatch.Dispatcher
	Logger     *slog.Logger
	// Registerer takes the metrics. Nil: there are none, and nothing is measured of each task.
	Registerer prometheus.Registerer

	// Spans traces the attempts. Nil: nothing is traced.
	Spans *spans.Tracer

	// Load tells what the app uses. Optional.
	Load func() Usage

	// Schedules enqueue periodic tasks while this sidecar leads. Optional.
	Schedules Schedules

	// OnAppDown is told when the app took no connection for a task, and why. It
	// should put a hold on before it returns. Optional.
	OnAppDown func(reason string)

	ClientID  string // unique to this process, at most 100 characters
	Hostname  string // optional
	PID       int    // optional
	Version   string // optional
	AppURL    string // optional
	Labels    map[string]string
	Protocols []string // what the dispatcher speaks
	Queues    []string // base names to serve; nil: all
	Kinds     []string // kinds to claim; nil: all

	Slots   int // tasks at once at the start; 0..Ceiling
	Ceiling int // hard maximum of slots; 1..SlotsMax

	TokenRate  float64 // tasks claimed a second at most; 0: as many as there are
	TokenBurst int     // of them at once after a pause; at least 1 unless TokenRate is 0

	PollInterval      time.Duration // the longest a lost wake-up delays a task
	HeartbeatInterval time.Duration
	FenceAfter        time.Duration // without a heartbeat: claim nothing, end calls; < EvictAfter
	EvictAfter        time.Duration // a worker's heartbeat stood still: it is dead
	DefaultTimeout    time.Duration // of a task that names none; 0: none
	Retry             jobs.RetryPolicy
}

// Usage is what an app uses of what it may use.
type Usage struct {
	CPU, Mem float64         // 0 to 1, for people: of the nearest scope that can be measured
	App      routing.AppLoad // what is the app's own, and acted on
}

// Schedules are the periodic tasks of a fleet.
type Schedules interface {
	Turn(ctx context.Context) error // enqueues what is due
	Rest()                          // somebody else leads now
}

// Governor claims tasks, has them dispatched, and settles them, within limits
// that may change at any time. Its methods are safe for concurrent use.
type Governor struct {
	config    Config
	q         dbq.Querier
	registry  *routing.Registry
	settler   *jobs.Settler
	promoter  *promoter
	archivist *archivist
	tally     tally
	// decisions is where every part that decides by itself says so.
	decisions *routing.DecisionLog
	router    *routing.Router // of the leader
	metrics   *metrics
	observed  observed
	heard     atomic.Int64 // notifications of new tasks
	pilot     *pilot
	client    *river.Client[pgx.Tx]

	slots   slots
	holds   holds
	skips   skips
	running executions
	worker  atomic.Pointer[string]
	life    atomic.Pointer[routing.Lifecycle] // of that registration
	poller  *poller
	row     loadRow
	flows   flows
	tokens  tokens
	alarm   alarm
	hints   hints
	// laneCount is how many lanes are remembered, for the metric.
	laneCount atomic.Int64
	// lastBeat is when the last heartbeat that succeeded was sent.
	lastBeat atomic.Pointer[time.Time]
	// distance is how long the quickest of the last heartbeats took, in nanoseconds.
	distance    atomic.Int64
	ledAt       atomic.Pointer[time.Time] // when somebody was last seen to lead; nil: nobody was
	policy      atomic.Pointer[routing.Policy]
	news        chan struct{}                               // capacity 1: the policy is out of date
	newcomers   chan struct{}                               // capacity 1: the leader is to look at a new queue or worker
	policyEvery time.Duration                               // without news of it, while news are heard
	retries     atomic.Pointer[map[string]jobs.RetryPolicy] // of kinds that have their own
	foreign     foreign                                     // queue names found not to be ours
	leading     atomic.Bool
	more        atomic.Bool // the last claim may have left something behind
	backlog     atomic.Bool // the last claim that was answered left something behind
	pace        pace
	// listening: notifications arrive; otherwise polls cover everything.
	listening atomic.Bool

	claimMu      sync.Mutex
	claimInDoubt bool          // guarded by claimMu: a claim's answer was lost
	claimRetry   time.Duration // guarded by claimMu: the pause after a claim that failed; 0 after one that didn't
	claimRetryAt time.Time     // guarded by claimMu: when that is over
	intake       *intake       // guarded by claimMu
	candidates   candidates    // guarded by claimMu
	lanes        lanes         // guarded by claimMu
	ageing       ageing        // guarded by claimMu
	drag         drag          // guarded by claimMu

	workCtx     context.Context //nolint:containedctx // parent of all attempts
	cancelWork  context.CancelCauseFunc
	settleCtx   context.Context //nolint:containedctx // ends when outcomes are given up
	giveUp      context.CancelFunc
	loops       *errgroup.Group
	telling     sync.WaitGroup // of pauses, to the fleet
	stopLoops   context.CancelFunc
	idle        chan struct{} // capacity 1: the last slot became free
	stopOnce    sync.Once
	stopResult  error
	startedOnce atomic.Bool
}

func (c Config) validate() error {
	if c.Ceiling < 1 || c.Ceiling > SlotsMax {
		return fmt.Errorf("ceiling %d is out of range 1..%d", c.Ceiling, SlotsMax)
	}
	if c.FenceAfter >= c.EvictAfter {
		return fmt.Errorf("fence after %s must be shorter than evict after %s: a worker must have ended its calls before others get its tasks",
			c.FenceAfter, c.EvictAfter)
	}
	if c.TokenRate < 0 || c.TokenRate > 0 && c.TokenBurst < 1 {
		return fmt.Errorf("%g tokens a second with a burst of %d let nothing through", c.TokenRate, c.TokenBurst)
	}
	return nil
}

// New returns a governor that does nothing until [Governor.Start].
func New(config Config) (*Governor, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	if config.Listen == nil {
		config.Listen = config.Pool.Config().ConnConfig
	}
	g := &Governor{
		config:      config,
		q:           dbq.New(config.Pool),
		registry:    routing.NewRegistry(config.Pool),
		idle:        make(chan struct{}, 1),
		news:        make(chan struct{}, 1),
		newcomers:   make(chan struct{}, 1),
		policyEvery: policyInterval,
	}
	g.settler = jobs.NewSettler(g.q, config.Logger)
	registerer := config.Registerer
	if registerer == nil {
		registerer = prometheus.NewRegistry() // nobody reads it
	}
	g.decisions = routing.NewDecisionLog(config.Pool, g.workerID, config.Logger, registerer)
	g.router = routing.NewRouter(config.Pool, g.workerID, g.decisions, registerer)
	g.promoter = newPromoter(g.q, config.Logger)
	g.archivist = newArchivist(g.q, config.Logger, registerer)
	g.metrics = newMetrics(registerer, g)
	g.metrics.perTask = config.Registerer != nil
	g.settler.Observe = g.metrics.observeSettle
	g.pilot = &pilot{governor: g}
	g.tokens = newTokens(config.TokenRate, config.TokenBurst)
	g.alarm.ring = g.pilot.wake
	g.policy.Store(&routing.Policy{})
	g.poller = newPoller()
	g.holds.put(holdStarting)
	if err := g.SetSlots(config.Slots); err != nil {
		return nil, err
	}

	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{governor: g})
	client, err := river.NewClient(newDriver(config.Pool, g.pilot), &river.Config{
		ID:                  config.ClientID,
		Schema:              "sched",
		Queues:              map[string]river.QueueConfig{producerQueue: {MaxWorkers: 2 * SlotsMax}},
		Workers:             workers,
		FetchCooldown:       time.Millisecond,
		FetchPollInterval:   max(time.Duration(pollEarly*float64(config.PollInterval)), time.Millisecond),
		JobTimeout:          -1,
		ReindexerIndexNames: []string{}, // rebuilding an index takes its owner's rights
		Logger:              slog.New(quietHandler{config.Logger.Handler()}),
		// Its one effect: River's maintenance starts without up to six sleeps of
		// up to a second each, one after the other, before the leader's own duties.
		TestOnly: true,
	})
	if err != nil {
		return nil, fmt.Errorf("river client: %w", err)
	}
	g.client = client
	return g, nil
}

// Start registers the worker and begins to claim, unless a hold is on. The
// governor runs until [Governor.Stop]; ctx bounds the start alone.
func (g *Governor) Start(ctx context.Context) error {
	if !g.startedOnce.CompareAndSwap(false, true) {
		return errors.New("the governor was started before")
	}
	background := context.WithoutCancel(ctx)
	g.workCtx, g.cancelWork = context.WithCancelCause(background)
	g.settleCtx, g.giveUp = context.WithCancel(background)
	loopCtx, stopLoops := context.WithCancel(background)
	g.stopLoops = stopLoops
	g.loops, loopCtx = errgroup.WithContext(loopCtx)

	if err := errors.Join(g.register(ctx), g.registry.DiscoverQueues(ctx)); err != nil {
		g.giveUp()
		stopLoops()
		return err
	}
	g.loops.Go(func() error { return g.settler.Run(g.settleCtx) })
	if err := g.client.Start(background); err != nil {
		g.giveUp()
		stopLoops()
		return errors.Join(fmt.Errorf("start river client: %w", err), g.loops.Wait())
	}
	g.loops.Go(func() error { return g.beat(loopCtx) })
	g.loops.Go(func() error { return g.watchPolicy(loopCtx) })
	g.loops.Go(func() error { return g.publish(loopCtx) })
	g.loops.Go(func() error { return g.poll(loopCtx) })
	g.loops.Go(func() error { return g.listen(loopCtx) })
	g.loops.Go(func() error { return g.watch(loopCtx) })
	g.loops.Go(func() error { return g.watchLeader(loopCtx) })
	g.loops.Go(func() error { return g.promoter.run(loopCtx) })
	g.loops.Go(func() error { g.decisions.Run(loopCtx); return nil })
	g.Release(holdStarting)
	return nil
}

// Drain stops claiming, now and for good, and tells the fleet so.
func (g *Governor) Drain(ctx context.Context) {
	if !g.holds.put(holdDraining) {
		return
	}
	if !g.startedOnce.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := g.move(ctx, routing.StateDraining, "draining"); err != nil {
		g.config.Logger.WarnContext(ctx, "the fleet doesn't know that this worker drains", slog.Any("error", err))
	}
}

// Stop drains: it lets what runs end until ctx is done, then ends the calls and
// hands their tasks back, writes all outcomes, and ends the registration, all
// within margin after that. Calling it again returns the same.
func (g *Governor) Stop(ctx context.Context, margin time.Duration) error {
	g.stopOnce.Do(func() { g.stopResult = g.stop(ctx, margin) })
	return g.stopResult
}

// drainTimeout bounds telling the fleet, which must not hold up a shutdown.
const drainTimeout = 2 * time.Second

func (g *Governor) stop(ctx context.Context, margin time.Duration) error {
	if !g.startedOnce.Load() {
		return nil
	}
	g.Drain(ctx)
	g.waitIdle(ctx)
	if left := g.running.count(); left > 0 {
		g.config.Logger.WarnContext(ctx, "shutdown grace is over: handing running tasks back", slog.Int("tasks", left))
	}
	g.cancelWork(dispatch.ErrShutdown) // also of what a claim under way still gets
	for _, x := range g.running.all(func(*execution) bool { return true }) {
		x.end(dispatch.ErrShutdown)
	}
	marginCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), margin)
	defer cancel()
	g.waitIdle(marginCtx)
	var errs []error
	if left := g.running.count(); left > 0 {
		errs = append(errs, fmt.Errorf("%d outcomes could not be written; their tasks run again after this worker's eviction", left))
	} else if !g.idleNow() {
		errs = append(errs, errors.New("a claim got no answer; what it took runs again after this worker's eviction"))
	} else if err := g.move(marginCtx, routing.StateDone, "stopped"); err != nil {
		errs = append(errs, fmt.Errorf("the fleet doesn't know that this worker stopped, and will evict it: %w", err))
	}
	g.giveUp()
	g.stopLoops()
	if err := g.client.StopAndCancel(marginCtx); err != nil {
		errs = append(errs, fmt.Errorf("the River client did not stop in time: %w", err))
	}
	g.telling.Wait()
	return errors.Join(append(errs, g.loops.Wait())...)
}

// waitIdle waits until no slot is taken or ctx is done: nothing runs, and no claim
// is under way that would still get something.
func (g *Governor) waitIdle(ctx context.Context) {
	for !g.idleNow() {
		select {
		case <-ctx.Done():
			return
		case <-g.idle:
		}
	}
}

// idleNow reports whether no slot is taken.
func (g *Governor) idleNow() bool {
	taken, _ := g.slots.counts()
	return taken == 0
}

// free gives back n slots and tells who waits for that.
func (g *Governor) free(n int) {
	g.slots.free(n)
	if g.idleNow() {
		select {
		case g.idle <- struct{}{}:
		default:
		}
	}
}

// SetSlots moves the limit of tasks that run at once to n, at once. Growing
// claims more right away; shrinking interrupts nothing. It fails when n is not in
// 0..Ceiling.
func (g *Governor) SetSlots(n int) error {
	if n < 0 || n > g.config.Ceiling {
		return fmt.Errorf("%d slots are out of range 0..%d (the ceiling)", n, g.config.Ceiling)
	}
	if g.slots.setLimit(n) && g.startedOnce.Load() {
		g.pilot.wake()
	}
	signal(g.poller.stirred)
	return nil
}

// SetAppCapacity says how many tasks the app can hold at once, where it says so:
// no more run, whatever the slots are. It interrupts nothing.
func (g *Governor) SetAppCapacity(n int) {
	if g.slots.setRoom(n) && g.startedOnce.Load() {
		g.pilot.wake()
	}
}

// ceiling is how many tasks run at once at most: as configured, or as many as the app
// can hold or has memory for, where that is fewer.
func (g *Governor) ceiling() int { return g.slots.most(g.config.Ceiling) }

// Note says that something was decided about this worker: see [routing.DecisionLog].
func (g *Governor) Note(d routing.Decision) { g.decisions.Note(d) }

// Hold stops claims for a named reason until it is released. Running tasks go on.
func (g *Governor) Hold(reason string) {
	g.holds.put(reason)
	signal(g.poller.stirred)
}

// Release lifts a hold. Claims go on at once when it was the last one.
func (g *Governor) Release(reason string) {
	defer signal(g.poller.stirred)
	if g.holds.lift(reason) && g.startedOnce.Load() {
		g.pilot.wake()
	}
}

// Status is a snapshot for readiness, logs and people.
type Status struct {
	WorkerID     string   `json:"worker_id"`
	Running      int      `json:"running"` // being dispatched or settled
	Taken        int      `json:"taken"`   // running, or reserved by a claim under way
	Slots        int      `json:"slots"`
	Ceiling      int      `json:"ceiling"` // of slots: as configured, or what the app holds at once
	Holds        []string `json:"holds"`
	SkippedKinds []string `json:"skipped_kinds"`
	// Limits says in words what bounds the claims besides slots and holds.
	Limits    []string `json:"limits"`
	Queues    []string `json:"queues"`
	Leading   bool     `json:"leading"`
	Listening bool     `json:"listening"`
}

// Status returns the current state.
func (g *Governor) Status() Status {
	taken, limit := g.slots.counts()
	status := Status{
		Running: g.running.count(), Taken: taken, Slots: limit, Ceiling: g.ceiling(), Holds: g.holds.names(),
		SkippedKinds: g.skips.list(), Limits: g.limitTexts(time.Now()), Queues: g.policy.Load().Names(), Leading: g.leading.Load(), Listening: g.listening.Load(),
	}
	if id := g.worker.Load(); id != nil {
		status.WorkerID = *id
	}
	return status
}
