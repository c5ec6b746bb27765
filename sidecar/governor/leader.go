package governor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/riverqueue/river/rivershared/startstop"

	"github.com/sched-sidecar/sched/routing"
)

const (
	leadInterval = time.Second
	// newcomerPause is the least time between two turns, or looks at newcomers between
	// them; newcomerSpread is added for each worker of the fleet, all of which read their
	// policy after it.
	newcomerPause  = 250 * time.Millisecond
	newcomerSpread = time.Millisecond
	leadTimeout    = 2 * time.Second
	sweepEvery     = 5  // turns
	scheduleEvery  = 15 // turns, for what only metrics show
	discoverEvery  = 10 // turns without a task that waits
	forgetEvery    = 60 // turns
	forgetAfter    = 7 * 24 * time.Hour
	livenessMaxGap = 5 * time.Second // a turn whose duties all run into their limits, and the pause after it
)

// leaderService is what the elected leader does for the fleet. River starts it
// when this client gains leadership and stops it when that is lost.
type leaderService struct {
	startstop.BaseStartStop
	governor *Governor
}

// Start runs the leader's turns in the background until stopped.
func (s *leaderService) Start(ctx context.Context) error {
	ctx, shouldStart, started, stopped := s.StartInit(ctx)
	if !shouldStart {
		return nil
	}
	go func() {
		started()
		defer stopped()
		s.governor.lead(ctx)
	}()
	return nil
}

// lead takes a turn each second.
func (g *Governor) lead(ctx context.Context) {
	g.config.Logger.InfoContext(ctx, "leading the fleet")
	g.leading.Store(true)
	g.metrics.led(true)
	defer func() {
		g.leading.Store(false)
		g.metrics.led(false)
		g.router.Reset()
		g.abdicate(ctx)
		if g.config.Schedules != nil {
			g.config.Schedules.Rest()
		}
		g.config.Logger.InfoContext(context.WithoutCancel(ctx), "no longer leading the fleet")
	}()
	archived := make(chan struct{})
	go func() {
		defer close(archived)
		g.archivist.run(ctx)
	}()
	defer func() { <-archived }()
	liveness := routing.NewLiveness(g.config.EvictAfter, livenessMaxGap)
	g.observed = observed{}
	g.router.Reset() // what it knew when it last led is old
	healthy := true
	for turn := 0; ; turn++ {
		started := time.Now()
		select {
		case <-g.newcomers: // who came before the turn is seen in it
		default:
		}
		err := g.leadOnce(ctx, liveness, turn)
		if ctx.Err() != nil {
			return
		}
		if err != nil && healthy {
			g.config.Logger.WarnContext(ctx, "the leader's turn failed; trying again each second", slog.Any("error", err))
		}
		healthy = err == nil
		if !g.greetUntil(ctx, started.Add(max(leadInterval, time.Since(started)+leadInterval/10))) {
			return
		}
	}
}

// greetUntil waits for the next turn, and has newcomers assigned meanwhile. It reports
// false when ctx ended.
func (g *Governor) greetUntil(ctx context.Context, next time.Time) bool {
	turn := time.NewTimer(time.Until(next))
	defer turn.Stop()
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-ctx.Done():
			return false
		case <-turn.C:
			return true
		case <-g.newcomers:
		}
		pause := newcomerPause + time.Duration(g.policy.Load().Workers)*newcomerSpread
		if !sleep(ctx, min(time.Until(last.Add(pause)), time.Until(next))) {
			return false
		}
		if !time.Now().Before(next) {
			return true // the turn sees them
		}
		g.greet(ctx)
	}
}

// greet has newcomers assigned, in the time that a turn's duties have at most.
func (g *Governor) greet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leadTimeout)
	defer cancel()
	if err := errors.Join(g.registry.DiscoverQueues(ctx), g.router.Greet(ctx)); err != nil {
		g.config.Logger.DebugContext(ctx, "newcomers are left to the next turn", slog.Any("error", err))
	}
}

// newcomer has the leader look soon at a queue or a worker that may be new to it. It
// never blocks.
func (g *Governor) newcomer() {
	if !g.leading.Load() {
		return
	}
	signal(g.newcomers)
}

// ledSure is how long after its last sign another's leadership is taken for
// granted: less than a leadership that nobody renews lasts.
const ledSure = 7 * time.Second

// abdicateTimeout bounds telling the others, which must not hold up a shutdown.
const abdicateTimeout = time.Second

// mayElect reports whether to take part in elections: as the leader, who renews his,
// or while nobody is known to lead.
func (g *Governor) mayElect() bool {
	at := g.ledAt.Load()
	return g.leading.Load() || at == nil || time.Since(*at) >= ledSure
}

// abdicate tells the others at once that nobody leads, so that they elect.
func (g *Governor) abdicate(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abdicateTimeout)
	defer cancel()
	if err := g.q.FleetUnled(ctx, g.workerID()); err != nil {
		g.config.Logger.DebugContext(ctx, "the others will notice by themselves that nobody leads", slog.Any("error", err))
	}
}

// noteLed keeps when another was last seen to lead, as of a reading.
func (g *Governor) noteLed(led bool, asked time.Time) {
	if led {
		g.ledAt.Store(&asked)
	} else {
		g.ledAt.Store(nil)
	}
}

// leadOnce takes one turn. Its duties don't depend on each other: one that fails
// keeps none of the others from being done.
func (g *Governor) leadOnce(ctx context.Context, liveness *routing.Liveness, turn int) error {
	look, err := g.lookAround(ctx)
	if err != nil {
		liveness.Reset()
		g.promoter.expect(time.Now())
		return err
	}
	// Not done here: promoting may take long, or wait for an open transaction that
	// inserts a unique key, and nobody could be found dead meanwhile.
	g.promoter.expect(time.Now().Add(look.NextDue))
	g.countEnqueued(look.NewestID)
	evicted := g.evictDead(ctx, liveness, look)
	// After the evictions, so that nothing stays assigned to who was evicted; then the
	// schedules, which wait for the pressure of now; beside the rest, so that the next look
	// at heartbeats comes in time.
	routed := make(chan error, 1)
	go func() { routed <- errors.Join(g.router.Turn(ctx, look), g.runSchedules(ctx, turn, look)) }()
	return errors.Join(evicted, g.tidy(ctx, turn, look), <-routed)
}

func (g *Governor) lookAround(ctx context.Context) (*routing.Look, error) {
	ctx, cancel := context.WithTimeout(ctx, leadTimeout)
	defer cancel()
	return g.router.Look(ctx)
}

// tidy is what the leader does now and then beside evictions and routing.
func (g *Governor) tidy(ctx context.Context, turn int, look *routing.Look) error {
	ctx, cancel := context.WithTimeout(ctx, leadTimeout)
	defer cancel()
	var errs []error
	if look.Waiting || turn%discoverEvery == 0 {
		errs = append(errs, g.registry.DiscoverQueues(ctx))
	}
	if turn%sweepEvery == 0 {
		rescued, err := g.registry.Sweep(ctx)
		errs = append(errs, err)
		g.logRescued(ctx, rescued)
	}
	if turn%forgetEvery == forgetEvery-1 {
		errs = append(errs, g.registry.Forget(ctx, forgetAfter))
	}
	if turn%storageEvery == 0 {
		errs = append(errs, g.watchStorage(ctx))
	}
	return errors.Join(errs...)
}

// runSchedules enqueues the periodic tasks that are due.
func (g *Governor) runSchedules(ctx context.Context, turn int, look *routing.Look) error {
	if g.config.Schedules == nil || !look.SchedulesDue && turn%scheduleEvery != 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leadTimeout)
	defer cancel()
	return g.config.Schedules.Turn(ctx)
}

// evictDead evicts the workers whose heartbeat stood still for long enough. One
// that can't be evicted now keeps no other from it.
func (g *Governor) evictDead(ctx context.Context, liveness *routing.Liveness, look *routing.Look) error {
	var errs []error
	own := g.workerID()
	for _, dead := range liveness.Observe(time.Now(), look.Beats) {
		if dead.WorkerID == own {
			continue // it is alive enough to lead; it fences itself if it can't beat
		}
		if err := g.evict(ctx, dead, look); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (g *Governor) evict(ctx context.Context, dead routing.Beat, look *routing.Look) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	evicted, rescued, err := g.registry.Evict(ctx, dead, "heartbeat stood still for "+g.config.EvictAfter.String())
	if err != nil || !evicted {
		return err
	}
	look.Drop(dead.WorkerID)
	g.metrics.evictions.Inc()
	g.decisions.Note(routing.Decision{
		What: "evict", Subject: dead.WorkerID, To: "evicted", Reason: "its heartbeat stood still for " + g.config.EvictAfter.String(),
		Signals: map[string]any{"tasks": len(rescued)},
	})
	g.config.Logger.WarnContext(ctx, "worker evicted: its heartbeat stood still",
		slog.String("worker_id", dead.WorkerID), slog.Duration("for", g.config.EvictAfter), slog.Int("tasks", len(rescued)))
	g.logRescued(ctx, rescued)
	return nil
}

func (g *Governor) logRescued(ctx context.Context, rescued []routing.Rescued) {
	for _, task := range rescued {
		g.metrics.rescued.WithLabelValues(task.State).Inc()
		g.config.Logger.InfoContext(ctx, "task rescued from a dead worker", slog.Int64("task_id", task.TaskID),
			slog.String("kind", task.Kind), slog.String("worker_id", task.WorkerID), slog.String("status", task.State))
	}
}
