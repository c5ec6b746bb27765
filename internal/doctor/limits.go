package doctor

import (
	"context"
	"strings"
)

// lookAtLimits tells the limits in force, and where they alone keep tasks waiting.
func lookAtLimits(ctx context.Context, p *patient) ([]Finding, error) {
	limits, err := list(ctx, p.tx, `SELECT l.text FROM (
			SELECT 0 AS ord, q.name, format('queue %s: %s', q.name, concat_ws(', ', q.rate || ' a second', 'at most ' || q.max_running || ' running',
				'full at ' || q.max_pending)) AS text
			FROM sched.queue AS q WHERE num_nonnulls(q.rate, q.max_running, q.max_pending) > 0
			UNION ALL
			SELECT 1, k.kind, format('kind %s: %s a second', k.kind, k.rate) FROM sched.kind AS k WHERE k.rate IS NOT NULL
		) AS l ORDER BY l.ord, l.name`)
	if err != nil {
		return nil, err
	}
	full, err := list(ctx, p.tx, `SELECT format('queue %s (%s running of at most %s)', q.name, r.running, q.max_running)
		FROM sched.queue AS q
		CROSS JOIN LATERAL (SELECT count(*) AS running FROM sched.river_job AS j WHERE j.state = 'running' AND j.queue = q.name) AS r
		WHERE q.max_running IS NOT NULL AND r.running >= q.max_running
			AND EXISTS (SELECT FROM sched.river_job AS j WHERE j.state = 'available' AND j.queue = q.name AND j.scheduled_at <= now())
		ORDER BY q.name`)
	if err != nil {
		return nil, err
	}
	paused, err := list(ctx, p.tx, `SELECT format('%s %s until %s%s', f.scope, f.name, to_char(f.paused_until AT TIME ZONE 'UTC', 'HH24:MI:SS"Z"'),
			coalesce(' (' || nullif(left(f.pause_reason, 200), '') || ')', ''))
		FROM sched.flow AS f WHERE f.paused_until > clock_timestamp() ORDER BY f.scope, f.name`)
	if err != nil {
		return nil, err
	}
	var found []Finding
	if len(limits) == 0 {
		found = append(found, ok("no queue or kind has a limit of its own"))
	} else {
		found = append(found, ok("limits in force: %s", strings.Join(limits, "; ")))
	}
	if len(full) > 0 {
		found = append(found, Finding{
			Level: Warning, Message: "tasks wait for nothing but a limit: " + strings.Join(full, "; "),
			Advice: "if that isn't on purpose: sched queues set QUEUE --max-running N; sched explain ID says so of a task",
		})
	}
	if len(paused) > 0 {
		found = append(found, Finding{
			Level: Warning, Message: "the app asked for a pause (429 or 503 with Retry-After): " + strings.Join(paused, "; "),
			Advice: "see why the app is busy; claims go on by themselves at that time",
		})
	}
	return found, nil
}
