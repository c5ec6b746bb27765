package bench

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// gauge is an app in this process that takes its time for each task and sees how
// many run at once.
type gauge struct {
	work time.Duration

	mu      sync.Mutex
	running int
	allowed int // the limit in force
	over    int // most above it
	cut     int // tasks that were not left to end
	want    int // how many somebody waits for; 0: nobody
	reached chan struct{}
	at      time.Time // when it was reached
}

var _ dispatch.Dispatcher = (*gauge)(nil)

func newGauge(allowed int, work time.Duration) *gauge { return &gauge{allowed: allowed, work: work} }

// Dispatch works a task.
func (g *gauge) Dispatch(ctx context.Context, _ *dispatch.Task) jobs.Outcome {
	g.enter(time.Now())
	defer g.leave()
	if pause(ctx, g.work) != nil || g.awaitReached(ctx) != nil {
		g.interrupt()
		return jobs.Outcome{Kind: jobs.OutcomeHandBack}
	}
	return jobs.Outcome{Kind: jobs.OutcomeComplete}
}

func (g *gauge) interrupt() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut++
}

// hungUp is how many tasks were not left to end.
func (g *gauge) hungUp() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cut
}

func (g *gauge) enter(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running++
	g.over = max(g.over, g.running-g.allowed)
	if g.want > 0 && g.running >= g.want {
		g.reach(now)
	}
}

func (g *gauge) reach(now time.Time) {
	g.want, g.at = 0, now
	close(g.reached)
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
}

// allow puts a limit in force, for starts from now on.
func (g *gauge) allow(limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.allowed = limit
}

// grow has tasks stay until n run at once: a limit is reached when nothing but
// the limit stands in the way, and not only when no task happens to be between
// its end and its successor's start.
func (g *gauge) grow(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.want, g.reached = n, make(chan struct{})
	if g.running >= n {
		g.reach(time.Now())
	}
}

// awaitReached waits until nobody waits for more tasks to run at once.
func (g *gauge) awaitReached(ctx context.Context) error {
	g.mu.Lock()
	wanted, reached := g.want > 0, g.reached
	g.mu.Unlock()
	if !wanted {
		return nil
	}
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reachedAt is when the number last given to grow ran at once.
func (g *gauge) reachedAt() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at
}

func (g *gauge) limit() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.allowed
}

func (g *gauge) mostOver() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.over
}

// sampled judges a count of running tasks that was taken while the limit went
// from before to the one in force now.
func (g *gauge) sampled(running, before int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = max(g.over, running-max(before, g.allowed))
}

// watchDatabase counts the tasks that run according to the database until ctx
// ends: the governor's own account is not the only witness.
func (g *gauge) watchDatabase(ctx context.Context, db *database) error {
	err := pollUntil(ctx, samplePeriod, func(ctx context.Context) (bool, error) {
		before := g.limit()
		var running int
		if err := db.pool.QueryRow(ctx, "select count(*) from "+schedTable+" where state = 'running'").Scan(&running); err != nil {
			return false, fmt.Errorf("counting running tasks: %w", err)
		}
		g.sampled(running, before)
		return false, nil
	})
	if ctx.Err() != nil {
		err = nil // it has watched until the end
	}
	return err
}

func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }
