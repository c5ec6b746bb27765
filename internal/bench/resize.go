package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/governor"
)

// GovernorConfig is how a limit is moved under load.
type GovernorConfig struct {
	Steps []int         // limits, in turn
	Work  time.Duration // what a task takes
	Dwell time.Duration // how long a limit is in force once it is reached
	Tasks int           // in the backlog, more than can be worked
}

func defaultGovernor() GovernorConfig {
	return GovernorConfig{Steps: []int{5, 50, 200, 10}, Work: 50 * time.Millisecond, Dwell: time.Second, Tasks: 30000}
}

const (
	stepTimeout  = 30 * time.Second
	resizePoll   = time.Millisecond
	samplePeriod = 10 * time.Millisecond
)

func (c GovernorConfig) validate() error {
	if len(c.Steps) < 2 || slices.Min(c.Steps) < 1 || slices.Max(c.Steps) > slotsMax {
		return fmt.Errorf("limits %v: it takes two or more from 1..%d", c.Steps, slotsMax)
	}
	return nil
}

// resized is one round's measurement.
type resized struct {
	over        int       // most above the limit, seen by starts or by the database
	growMillis  []float64 // from SetSlots to as many running
	shrinkMills []float64 // from SetSlots to no more running
	interrupted int       // tasks that were not left to end
}

func (r *Runner) governor(ctx context.Context) error {
	set := r.config.Governor
	err := r.report.limits("governor", []limit{
		{"limits", fmt.Sprint(set.Steps)},
		{"task", set.Work.String()},
		{"each limit for", set.Dwell.String()},
		{"backlog", strconv.Itoa(set.Tasks)},
		{"pool", strconv.Itoa(poolMax)},
	})
	if err != nil {
		return err
	}
	var over int
	var grow, shrink []float64
	for i := range r.config.Rounds {
		round, err := r.resizeRoundOf(ctx, set)
		if err != nil {
			return err
		}
		over = max(over, round.over)
		grow, shrink = append(grow, round.growMillis...), append(shrink, round.shrinkMills...)
		r.report.note("governor round %d of %d: %d over the limit; growing took %.1f ms, shrinking %.1f ms",
			i+1, r.config.Rounds, round.over, round.growMillis, round.shrinkMills)
	}
	figures := []Figure{newFigure("governor.resize.max_over_limit", float64(over), "tasks", AtMost(0), r.config.Rounds)}
	if len(grow) > 0 {
		figures = append(figures, newFigure("governor.resize.latency_ms", median(grow), "ms", Bound{}, r.config.Rounds))
	}
	if len(shrink) > 0 {
		figures = append(figures, newFigure("governor.resize.shrink_ms", median(shrink), "ms", Bound{}, r.config.Rounds))
	}
	return r.report.add(figures...)
}

// resizeRoundOf walks a governor through limits under load.
func (r *Runner) resizeRoundOf(ctx context.Context, set GovernorConfig) (result resized, err error) {
	db, err := r.server.createDatabase(ctx, "governor")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, db.drop) }()
	if err := migrateSched(ctx, db); err != nil {
		return result, err
	}
	if err := fillSched(ctx, db, set.Tasks); err != nil {
		return result, err
	}
	if err := db.settle(ctx, schedTable); err != nil {
		return result, err
	}
	poolConfig, err := pgxpool.ParseConfig(db.dsn)
	if err != nil {
		return result, err
	}
	poolConfig.MaxConns = poolMax
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return result, err
	}
	defer pool.Close()
	gauge := newGauge(set.Steps[0], set.Work)
	g, err := newGovernor(pool, gauge, set.Steps[0], slices.Max(set.Steps))
	if err != nil {
		return result, err
	}
	if err := g.Start(ctx); err != nil {
		return result, err
	}
	defer func() {
		err = closing(err, func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
			defer cancel()
			return g.Stop(ctx, time.Second)
		})
	}()
	watchCtx, stopWatch := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- gauge.watchDatabase(watchCtx, db) }()
	err = walk(ctx, g, gauge, set, &result)
	stopWatch()
	if watchErr := <-watched; err == nil {
		err = watchErr
	}
	if err != nil {
		return result, err
	}
	result.over, result.interrupted = gauge.mostOver(), gauge.hungUp()
	return result, stillBusy(ctx, db)
}

// newGovernor is a sidecar without its app, in this process.
func newGovernor(pool *pgxpool.Pool, dispatcher dispatch.Dispatcher, slots, ceiling int) (*governor.Governor, error) {
	shipped := config.DefaultSidecar()
	return governor.New(governor.Config{
		Pool: pool, Dispatcher: dispatcher, Logger: discardLogger(), Registerer: prometheus.NewRegistry(),
		ClientID: "sched-bench-" + strconv.FormatInt(time.Now().UnixNano(), 36), Protocols: []string{"http"},
		Slots: slots, Ceiling: ceiling,
		PollInterval: shipped.PollInterval, HeartbeatInterval: shipped.HeartbeatInterval,
		FenceAfter: shipped.FenceAfter, EvictAfter: shipped.EvictAfter, DefaultTimeout: shipped.DefaultTimeout,
		Retry: jobs.DefaultRetryPolicy(),
	})
}

// walk moves the limit through all steps.
func walk(ctx context.Context, g *governor.Governor, gauge *gauge, set GovernorConfig, result *resized) error {
	before := 0
	for _, limit := range set.Steps {
		stepCtx, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("the limit moved from %d to %d and wasn't met in time", before, limit))
		took, err := step(stepCtx, g, gauge, before, limit)
		cancel()
		if err != nil {
			return err
		}
		switch {
		case before == 0: // a start, not a resize
		case limit > before:
			result.growMillis = append(result.growMillis, took)
		default:
			result.shrinkMills = append(result.shrinkMills, took)
		}
		before = limit
		if err := pause(ctx, set.Dwell); err != nil {
			return err
		}
	}
	return nil
}

// step moves the limit and returns how many milliseconds it took until it was met.
//
// A lower limit interrupts nothing: what the governor claimed before may still
// start. So the old limit judges starts until the governor holds no more than the
// new one; from then on, the new one does.
func step(ctx context.Context, g *governor.Governor, gauge *gauge, from, to int) (float64, error) {
	begin := time.Now()
	if to >= from {
		gauge.allow(to)
		gauge.grow(to)
		begin = time.Now()
		if err := g.SetSlots(to); err != nil {
			return 0, err
		}
		if err := gauge.awaitReached(ctx); err != nil {
			return 0, err
		}
		return millis(gauge.reachedAt().Sub(begin)), nil
	}
	if err := g.SetSlots(to); err != nil {
		return 0, err
	}
	err := pollUntil(ctx, resizePoll, func(context.Context) (bool, error) { return g.Status().Taken <= to, nil })
	took := millis(time.Since(begin))
	gauge.allow(to)
	return took, err
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// stillBusy refuses a round whose backlog ran out, since an idle governor keeps
// any limit.
func stillBusy(ctx context.Context, db *database) error {
	var busy bool
	if err := db.pool.QueryRow(ctx, "select exists (select from "+schedTable+" where state = 'available')").Scan(&busy); err != nil {
		return fmt.Errorf("reading the backlog: %w", err)
	}
	if !busy {
		return fmt.Errorf("the backlog ran out before the end: the round says nothing")
	}
	return nil
}
