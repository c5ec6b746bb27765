package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// staleFleet is well above the second in which a leader writes, and above the 5 s
// after which sidecars and enqueues do without it.
const staleFleet = 10 * time.Second

func lookAtRouting(ctx context.Context, p *patient) ([]Finding, error) {
	var age *float64
	var workers int
	err := p.tx.QueryRow(ctx, `SELECT extract(epoch FROM clock_timestamp() - f.computed_at)::float8,
			(SELECT count(*)::int FROM sched.worker AS w WHERE w.state IN `+live+`)
		FROM sched.fleet AS f`).Scan(&age, &workers)
	if err != nil {
		return nil, err
	}
	const advice = "routing is the leader's duty: see the check leader, and its log; a sidecar of a release before this one that leads doesn't do it"
	var found []Finding
	switch {
	case workers == 0:
		found = append(found, ok("there is no worker to route to"))
	case age == nil:
		found = append(found, Finding{Level: Warning, Message: "no leader has routed yet: workers serve what their labels allow, and pressure counts as green", Advice: advice})
	case *age > staleFleet.Seconds():
		stale := time.Duration(*age * float64(time.Second))
		found = append(found, Finding{
			Level: Warning, Message: fmt.Sprintf("no leader has routed for %s: workers serve what their labels allow, and pressure counts as green", rounded(stale)), Advice: advice,
		})
	default:
		found = append(found, ok("assignments and pressure are up to date"))
	}
	unroutable, err := list(ctx, p.tx, `SELECT format('%s (%s)', q.name, q.unroutable) FROM sched.queue AS q WHERE q.unroutable IS NOT NULL ORDER BY q.name`)
	if err != nil {
		return found, err
	}
	if len(unroutable) > 0 {
		found = append(found, Finding{
			Level: Warning, Message: "queues that demand what no live worker offers: " + strings.Join(unroutable, "; "),
			Advice: "start a sidecar with those labels, or cancel the tasks; sched queues names what is missing",
		})
	}
	return found, nil
}

func lookAtPressure(ctx context.Context, p *patient) ([]Finding, error) {
	red, err := list(ctx, p.tx, `SELECT r.text FROM (
			SELECT 0 AS ord, '' AS name, 'the fleet' || coalesce(': ' || f.pressure_reason, '') AS text FROM sched.fleet AS f
			WHERE f.pressure = 'red' AND f.computed_at > clock_timestamp() - interval '5 seconds'
			UNION ALL
			SELECT 1, q.name, 'queue ' || q.name || coalesce(': ' || q.pressure_reason, '') FROM sched.queues AS q WHERE q.pressure = 'red'
		) AS r ORDER BY r.ord, r.name`)
	if err != nil {
		return nil, err
	}
	if len(red) == 0 {
		return []Finding{ok("pressure is red nowhere")}, nil
	}
	return []Finding{{
		Level: Warning, Message: "pressure is red: " + strings.Join(red, "; "),
		Advice: "start more sidecars, or wait until it is drained; new tasks are delayed or refused by queues with such an admission: see docs/backpressure.md",
	}}, nil
}

func lookAtCanaries(ctx context.Context, p *patient) ([]Finding, error) {
	idle, err := list(ctx, p.tx, `SELECT format('%s (%s %%)', c.queue, c.percent) FROM sched.canary AS c
		WHERE c.workers = 0 AND (c.percent > 0 OR c.state = 'rising') ORDER BY c.queue`)
	if err != nil {
		return nil, err
	}
	failed, err := list(ctx, p.tx, `SELECT c.queue || coalesce(': ' || c.reason, '') FROM sched.canary AS c WHERE c.state = 'rolled_back' ORDER BY c.queue`)
	if err != nil {
		return nil, err
	}
	var found []Finding
	if len(idle) > 0 {
		found = append(found, Finding{
			Level: Warning, Message: "canaries without a canary worker, so that all goes to the others: " + strings.Join(idle, "; "),
			Advice: "start a sidecar with the label track=canary that serves the queue, or end it with sched canary stop",
		})
	}
	if len(failed) > 0 {
		found = append(found, Finding{
			Level: Warning, Message: "canaries that were rolled back: " + strings.Join(failed, "; "),
			Advice: "see sched decisions --what canary; sched canary start begins again, sched canary stop ends it",
		})
	}
	if len(found) == 0 {
		found = append(found, ok("no canary is stuck"))
	}
	return found, nil
}
