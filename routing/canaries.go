package routing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// measureMax bounds how many ended attempts of each outcome a canary is measured by.
const measureMax = 20_000

// countCanaries keeps the count of canary workers right. Of the canaries, those whose
// queue isn't known have no group. Some: there are any.
func (r *Router) countCanaries(ctx context.Context, some bool) ([]canaryRow, error) {
	if !some {
		return nil, nil
	}
	rows, err := r.q.CanaryRows(ctx)
	if err != nil {
		return nil, fmt.Errorf("read canaries: %w", err)
	}
	var errs []error
	var counted []canaryRow
	for _, row := range rows {
		workers := 0
		var g *group
		if q, ok := r.queues[row.Queue]; ok {
			g = r.groupOf(q)
			workers = g.canaries
		}
		if int(row.Workers) != workers {
			if _, err := r.q.CanaryWorkers(ctx, dbq.CanaryWorkersParams{Queue: row.Queue, Workers: int32(workers)}); err != nil {
				errs = append(errs, fmt.Errorf("canary of queue %s: %w", row.Queue, err))
				continue
			}
			r.told = true // the others claim its share from now on, or no more
		}
		counted = append(counted, canaryRow{row, g})
	}
	return counted, errors.Join(errs...)
}

type canaryRow struct {
	dbq.CanaryRowsRow
	group *group
}

// canaries keeps the count of canary workers right and lets canaries that rise take
// their next step. One that fails keeps no other from it.
func (r *Router) canaries(ctx context.Context, some bool) error {
	rows, err := r.countCanaries(ctx, some)
	errs := []error{err}
	rising := map[string]bool{}
	for _, c := range rows {
		row, g := c.CanaryRowsRow, c.group
		rising[row.Queue] = row.State == CanaryRising
		if row.State != CanaryRising || g == nil {
			continue
		}
		if was, known := r.rising[row.Queue]; known && !was && row.Percent > 0 {
			errs = append(errs, r.restart(ctx, row)) // an operator lets it rise on from here
			continue
		}
		errs = append(errs, r.step(ctx, row, g))
	}
	r.rising = rising
	return errors.Join(errs...)
}

// restart lets the hold of a canary begin anew, whatever step_at says.
func (r *Router) restart(ctx context.Context, row dbq.CanaryRowsRow) error {
	_, err := r.q.CanaryStep(ctx, dbq.CanaryStepParams{
		Queue: row.Queue, FromPercent: row.Percent, Percent: row.Percent, State: row.State, Reason: "rising again from here", Again: true,
	})
	if err != nil {
		return fmt.Errorf("canary of queue %s: %w", row.Queue, err)
	}
	return nil
}

func (r *Router) step(ctx context.Context, row dbq.CanaryRowsRow, g *group) error {
	measured, err := r.q.CanaryMeasures(ctx, dbq.CanaryMeasuresParams{Queue: row.Queue, Since: row.StepAt, Max: measureMax})
	if err != nil {
		return fmt.Errorf("measure the canary of queue %s: %w", row.Queue, err)
	}
	var canary, others Track
	for _, m := range measured {
		track := Track{Attempts: int(m.Attempts), Errors: int(m.Errors), P95: time.Duration(m.P95Ms * float64(time.Millisecond))}
		if m.Canary {
			canary = track
		} else {
			others = track
		}
	}
	canary.CPU, others.CPU = r.meanCPU(g)
	rules := CanaryRules{
		Hold: time.Duration(row.HoldSeconds * float64(time.Second)), MaxP95: time.Duration(float64(row.MaxP95Ms) * float64(time.Millisecond)),
		MaxErrorPoints: float64(row.MaxErrorPoints), MaxCPUPoints: float64(row.MaxCpuPoints), AbortErrorPercent: float64(row.AbortErrorPercent),
	}
	for _, step := range row.Steps {
		rules.Steps = append(rules.Steps, float64(step))
	}
	state := CanaryState{
		Percent: float64(row.Percent), State: row.State, Since: time.Duration(row.SinceSeconds * float64(time.Second)), Workers: g.canaries,
	}
	next := NextCanary(rules, state, canary, others)
	moved := next.Percent != state.Percent || next.State != state.State
	// Without canary workers the hold begins anew when one comes; nothing is written each turn until then.
	if !moved && next.Reason == row.Reason.String && (!next.Again || g.canaries == 0) {
		return nil
	}
	n, err := r.q.CanaryStep(ctx, dbq.CanaryStepParams{
		Queue: row.Queue, FromPercent: row.Percent, Percent: float32(next.Percent), State: next.State, Reason: next.Reason, Again: next.Again,
	})
	if err != nil {
		return fmt.Errorf("canary of queue %s: %w", row.Queue, err)
	}
	if n == 0 || !moved {
		return nil
	}
	r.told = true
	r.decisions.Note(Decision{
		What: "canary", Subject: row.Queue, From: fmt.Sprintf("%s %g %%", state.State, state.Percent), To: fmt.Sprintf("%s %g %%", next.State, next.Percent),
		Reason: next.Reason, Signals: map[string]any{"canary": signalsOf(canary), "others": signalsOf(others), "held_seconds": state.Since.Seconds()},
	})
	return nil
}

// meanCPU returns the mean cpu of the group's canary workers, and of its others.
func (r *Router) meanCPU(g *group) (canary, others float64) {
	var canaries, rest int
	for id := range g.shares.rows {
		m, ok := r.fleet.byID[id]
		switch {
		case !ok:
		case m.isCanary():
			canary, canaries = canary+m.CPU, canaries+1
		default:
			others, rest = others+m.CPU, rest+1
		}
	}
	return canary / float64(max(canaries, 1)), others / float64(max(rest, 1))
}

func signalsOf(t Track) map[string]any {
	return map[string]any{"attempts": t.Attempts, "errors": t.Errors, "p95_ms": t.P95.Seconds() * 1000, "cpu": t.CPU}
}
