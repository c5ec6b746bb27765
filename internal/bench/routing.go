package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RoutingConfig is how the routing layer is put to work.
type RoutingConfig struct {
	Parts []string // which of [RoutingParts] to measure

	Slots    []int         // of the sidecars over which work spreads
	Work     time.Duration // what a task takes there
	Duration time.Duration // how long tasks are paced, once all is settled
	Settle   time.Duration // how long they are before that

	Idle     int           // idle sidecars, of which a task wakes one
	Enqueues int           // tasks that come one by one
	Busy     time.Duration // how long wake-ups of busy workers are counted

	Fleet         int // idle sidecars
	FleetDuration time.Duration

	Backlog int // tasks that wait where the leader's look is timed

	Paused int     // tasks of a paused kind at the head of a queue
	Before Release // nil: built from the repository
}

// RoutingParts are what the routing scenario is made of.
func RoutingParts() []string {
	return []string{partSpread, partWake, partBusy, partLost, partFleet, partSampling, partLimits, partPaused, partBefore}
}

const (
	partSpread   = "spread"
	partWake     = "wake"
	partBusy     = "busy"
	partLost     = "lost"
	partFleet    = "fleet"
	partSampling = "sampling"
	partLimits   = "limits"
	partPaused   = "paused"
	partBefore   = "before"
)

func defaultRouting() RoutingConfig {
	return RoutingConfig{
		Parts: RoutingParts(),
		Slots: []int{10, 20, 40}, Work: 200 * time.Millisecond, Duration: time.Minute, Settle: 5 * time.Second,
		Idle: 20, Enqueues: 100, Busy: 10 * time.Second,
		Fleet: 200, FleetDuration: 30 * time.Second,
		Backlog: 5_000_000, Paused: 1_000_000,
	}
}

const (
	workShare  = 0.6 // of the capacity that the paced tasks take
	lightShare = 0.2
	fleetMax   = 1000
)

func (c RoutingConfig) validate() error {
	for _, part := range c.Parts {
		if !slices.Contains(RoutingParts(), part) {
			return fmt.Errorf("--parts %s: the parts are %s", part, strings.Join(RoutingParts(), ", "))
		}
	}
	if len(c.Slots) < 2 || slices.Min(c.Slots) < 1 || slices.Max(c.Slots) > slotsMax {
		return fmt.Errorf("slots %v: it takes two or more sidecars with 1..%d each", c.Slots, slotsMax)
	}
	if c.Duration < time.Second || c.Duration > durationMax {
		return fmt.Errorf("--duration %s is out of range 1s..%s", c.Duration, durationMax)
	}
	if c.Idle < 1 || c.Idle > fleetMax || c.Fleet < 1 || c.Fleet > fleetMax {
		return fmt.Errorf("%d idle sidecars and a fleet of %d are out of range 1..%d", c.Idle, c.Fleet, fleetMax)
	}
	if c.Enqueues < 1 || c.Enqueues > tasksMax || c.Paused < 0 || c.Paused > tasksMax {
		return fmt.Errorf("%d enqueues and %d paused tasks are out of range 1..%d", c.Enqueues, c.Paused, tasksMax)
	}
	if c.Backlog < 1 || c.Backlog > tasksMax {
		return fmt.Errorf("--backlog %d is out of range 1..%d", c.Backlog, tasksMax)
	}
	return nil
}

func (r *Runner) routing(ctx context.Context) error {
	set := r.config.Routing
	err := r.report.limits("routing", []limit{
		{"parts", strings.Join(set.Parts, "+")},
		{"spread", fmt.Sprintf("sidecars with %v slots, tasks of %s, paced for %s after %s", set.Slots, set.Work, set.Duration, set.Settle)},
		{"wake", fmt.Sprintf("%d idle sidecars, %d tasks one by one", set.Idle, set.Enqueues)},
		{"fleet", fmt.Sprintf("%d idle sidecars in a process, for %s", set.Fleet, set.FleetDuration)},
		{"drains", strconv.Itoa(r.config.Drain.Tasks) + " tasks, " + strconv.Itoa(r.config.Drain.Slots) + " slots"},
		{"sampling", strconv.Itoa(set.Backlog) + " tasks that wait"},
		{"paused tasks", strconv.Itoa(set.Paused)},
	})
	if err != nil {
		return err
	}
	steps := map[string]func(context.Context) ([]Figure, error){
		partSpread: r.spread, partWake: r.wakeClaims, partBusy: r.busyNotifies, partLost: r.lostWakes,
		partFleet: r.fleet, partSampling: r.sampling, partLimits: r.limits, partPaused: r.heads, partBefore: r.before,
	}
	for _, part := range RoutingParts() {
		if !slices.Contains(set.Parts, part) {
			continue
		}
		figures, err := steps[part](ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		if err := r.report.add(figures...); err != nil {
			return err
		}
	}
	return nil
}
