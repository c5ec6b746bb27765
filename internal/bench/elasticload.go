package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// ioStepped is what a run with steps came to.
type ioStepped struct {
	share   float64 // of the arrivals right after a step that were served within the time
	p99     float64 // wait in milliseconds, without the times after steps
	seconds float64 // slot-seconds, by those of the ceiling
	swing   float64 // of the slots in the middle stage
}

// ioStep measures how slots follow arrivals that step up and down.
func (r *Runner) ioStep(ctx context.Context) ([]Figure, error) {
	set := r.config.Elastic
	ours, err := r.stepRound(ctx, slotSpec{ceiling: set.Ceiling}, set.Duration)
	if err != nil {
		return nil, err
	}
	best := math.Inf(1)
	for _, fixed := range set.IOSweep {
		theirs, err := r.stepRound(ctx, slotSpec{fixed: fixed}, max(set.sweep(), 4*set.Excluded))
		if err != nil {
			return nil, fmt.Errorf("%d slots: %w", fixed, err)
		}
		best = min(best, theirs.p99)
		r.report.note("%d slots: p99 wait %.1f ms", fixed, theirs.p99)
	}
	// Twice the best fixed one; below 20 ms nobody minds.
	const twice, unnoticed = 2, 20
	return []Figure{
		newFigure("elastic.io_step.arrival_share", ours.share, "ratio", AtLeast(0.9), 1),
		newFigure("elastic.io_step.p99_wait_vs_best_fixed", ours.p99/max(twice*best, unnoticed), "ratio", AtMost(1), 1),
		newFigure("elastic.io_step.slot_seconds_vs_max", ours.seconds, "ratio", AtMost(0.5), 1),
		newFigure("elastic.io_step.swing", ours.swing, "ratio", AtMost(0.2), 1),
	}, nil
}

func (r *Runner) stepRound(ctx context.Context, slots slotSpec, length time.Duration) (result ioStepped, err error) {
	set := r.config.Elastic
	p, err := r.pairUp(ctx, appSpec{work: set.IOWork}, slots, "")
	if err != nil {
		return result, err
	}
	defer func() { err = closing(err, p.stop) }()
	third := length / 3
	began, err := p.db.clock(ctx)
	if err != nil {
		return result, err
	}
	begin := time.Now()
	total, err := p.db.staged(ctx, workKind, begin, stage{set.Low, third}, stage{set.High, third}, stage{set.Low, third})
	if err != nil {
		return result, err
	}
	if took := time.Since(begin); took > length*11/10 {
		return result, fmt.Errorf("this machine can't enqueue %.0f tasks a second: %d took %s, not %s", set.High, total, took, length)
	}
	if err := p.db.awaitCompleted(ctx); err != nil {
		return result, err
	}
	tasks, err := p.worked(ctx, began)
	if err != nil {
		return result, err
	}
	steps := []float64{0, third.Seconds(), 2 * third.Seconds()}
	result.p99 = percentile(steadyWaits(tasks, steps, set.Excluded.Seconds()), 0.99)
	result.share = min(servedShare(tasks, steps[1], set.Excluded.Seconds()), servedShare(tasks, steps[2], set.Excluded.Seconds()))
	if slots.fixed > 0 {
		return result, nil
	}
	moves, err := p.moves(ctx)
	if err != nil {
		return result, err
	}
	c := course{p.start, moves}
	seconds, _, _ := c.span(began, began.Add(length))
	result.seconds = seconds / (float64(set.Ceiling) * length.Seconds())
	result.swing = c.swing(began.Add(third+min(set.Excluded, third/2)), began.Add(2*third))
	r.report.note("%d tasks: p99 wait %.1f ms without %s after each step; slots %s", len(tasks), result.p99, set.Excluded, c.tell(began))
	return result, nil
}

// steadyWaits are the waits of tasks that were not due within a time after a step, all
// in seconds from the begin.
func steadyWaits(tasks []done, steps []float64, excluded float64) (waits []float64) {
	for _, t := range tasks {
		if !slices.ContainsFunc(steps, func(step float64) bool { return t.Due >= step && t.Due < step+excluded }) {
			waits = append(waits, t.WaitMillis)
		}
	}
	return waits
}

// servedShare is the part of the tasks due within a time after a step that had ended
// when it was over.
func servedShare(tasks []done, step, within float64) float64 {
	due, served := 0, 0
	for _, t := range tasks {
		if t.Due < step || t.Due >= step+within {
			continue
		}
		if due++; t.Ended <= step+within {
			served++
		}
	}
	return float64(served) / float64(due)
}

// cpuBound measures where slots settle for an app that computes, and what that costs.
func (r *Runner) cpuBound(ctx context.Context) ([]Figure, error) {
	set := r.config.Elastic
	app := appSpec{spin: roundsFor(set.CPUWork), cores: set.Cores}
	most := float64(set.Cores) / set.CPUWork.Seconds()
	ours, err := r.saturate(ctx, app, slotSpec{ceiling: set.Ceiling}, backlogFor(most, set.Duration), set.Duration)
	if err != nil {
		return nil, err
	}
	best, err := r.best(ctx, app, set.CPUSweep, most)
	if err != nil {
		return nil, err
	}
	return []Figure{
		newFigure("elastic.cpu_bound.vs_best_fixed", ours.rate/best, "ratio", AtLeast(0.95), 1),
		newFigure("elastic.cpu_bound.slots_per_core", ours.mean/float64(set.Cores), "slots", AtMost(3), 1),
	}, nil
}

// downstream measures the same for an app whose downstream works on so many tasks at
// once.
func (r *Runner) downstream(ctx context.Context) ([]Figure, error) {
	set := r.config.Elastic
	app := appSpec{work: set.DownWork, width: set.Width}
	most := float64(set.Width) / set.DownWork.Seconds()
	ours, err := r.saturate(ctx, app, slotSpec{ceiling: set.Ceiling}, backlogFor(most, set.Duration), set.Duration)
	if err != nil {
		return nil, err
	}
	best, err := r.best(ctx, app, set.DownSweep, most)
	if err != nil {
		return nil, err
	}
	return []Figure{
		newFigure("elastic.downstream.slots", ours.mean, "slots", Within(15, 40), 1),
		newFigure("elastic.downstream.vs_best_fixed", ours.rate/best, "ratio", AtLeast(0.95), 1),
	}, nil
}

// distinct sorts numbers of slots and drops what is twice or none.
func distinct(slots ...int) []int {
	slices.Sort(slots)
	return slices.DeleteFunc(slices.Compact(slots), func(n int) bool { return n < 1 })
}
