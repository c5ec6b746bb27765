package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// electionTime is how long a fleet may be without a leader after the last one
	// died: River's lease and its next election.
	electionTime = 30 * time.Second
	// staleBeat is well above evict_after's default: a leader would have acted.
	staleBeat = time.Minute
	// overdueAfter is well above the second that a promoter takes.
	overdueAfter = 30 * time.Second
	// shown bounds a list in a message.
	shown = 5
)

// live are the states of a registration that has not ended.
const live = `('pending', 'active', 'draining')`

func lookAtLeader(ctx context.Context, p *patient) ([]Finding, error) {
	var id *string
	var since, until *time.Time
	var expired float64
	var isLive, wasWorker bool
	var workers int
	err := p.tx.QueryRow(ctx, `SELECT l.leader_id, l.elected_at, l.expires_at,
			coalesce(extract(epoch FROM clock_timestamp() - l.expires_at), 0)::float8,
			EXISTS (SELECT FROM sched.worker AS w WHERE w.client_id = l.leader_id AND w.state IN `+live+`),
			EXISTS (SELECT FROM sched.worker AS w WHERE w.client_id = l.leader_id),
			(SELECT count(*)::int FROM sched.worker AS w WHERE w.state IN `+live+`)
		FROM (SELECT) AS one LEFT JOIN sched.river_leader AS l ON true`).
		Scan(&id, &since, &until, &expired, &isLive, &wasWorker, &workers)
	if err != nil {
		return nil, err
	}
	return []Finding{judgeLeader(leader{
		id: id, since: since, expired: time.Duration(expired * float64(time.Second)), live: isLive, wasWorker: wasWorker, workers: workers,
	}, time.Now())}, nil
}

// leader is what the database says of the election.
type leader struct {
	id        *string // nil: none
	since     *time.Time
	expired   time.Duration // since the lease ran out; negative while it runs
	live      bool          // it is a live sidecar
	wasWorker bool          // it is or was a sidecar
	workers   int           // live sidecars
}

func judgeLeader(l leader, now time.Time) Finding {
	const wait = "run sched doctor again in half a minute; if it stays so, look at the sidecars' logs for errors of the election"
	switch {
	case l.workers == 0 && (l.id == nil || l.expired > 0):
		return ok("nobody leads, and there is no worker that could")
	case l.id == nil:
		return Finding{Level: Warning, Message: "nobody leads: due tasks of other sidecars wait, dead workers aren't evicted", Advice: wait}
	case l.expired > electionTime:
		return Finding{
			Level: Failed, Message: fmt.Sprintf("nobody leads: the lease of %s ran out %s ago, and none of %d workers took over", *l.id, rounded(l.expired), l.workers),
			Advice: "look at the sidecars' logs for errors of the election",
		}
	case l.live:
		return ok("sidecar %s leads since %s", *l.id, l.since.UTC().Format(time.RFC3339))
	case l.wasWorker:
		return Finding{Level: Warning, Message: fmt.Sprintf("the leader %s is a sidecar that has ended; another is elected when its lease runs out", *l.id), Advice: wait}
	default:
		return Finding{
			Level: Failed,
			Message: fmt.Sprintf("%q leads since %s (%s), and is no sidecar but another client of River: it evicts no dead workers, discards long tasks as stuck, "+
				"promotes due tasks late and finds no new queues", *l.id, l.since.UTC().Format(time.RFC3339), rounded(now.Sub(*l.since))),
			Advice: "make that client insert-only (no Queues in river.Config) or set LeaderElectionDisabled: true, and restart it; a sidecar is elected within 15 s of its end. " +
				"By default the id of a River client begins with the name of its machine. See docs/river.md",
		}
	}
}

func lookAtWorkers(ctx context.Context, p *patient) ([]Finding, error) {
	var workers, hosts, running, slots, draining, waiting int
	err := p.tx.QueryRow(ctx, `SELECT count(*)::int, count(DISTINCT hostname)::int, coalesce(sum(running), 0)::int, coalesce(sum(slots), 0)::int,
			count(*) FILTER (WHERE state = 'draining')::int,
			(SELECT count(*)::int FROM (SELECT FROM sched.river_job WHERE state = 'available' LIMIT 1) AS j)
		FROM sched.worker WHERE state IN `+live).Scan(&workers, &hosts, &running, &slots, &draining, &waiting)
	if err != nil {
		return nil, err
	}
	if workers == 0 {
		message := "no worker is registered: nothing runs tasks"
		if waiting > 0 {
			message = "no worker is registered, and tasks wait"
		}
		return []Finding{{Level: Warning, Message: message, Advice: "start sched-sidecar beside the app, with SCHED_DATABASE_URL set to this database"}}, nil
	}
	found := []Finding{ok("workers: %d on %d machines, %d draining; tasks running: %d of %d slots", workers, hosts, draining, running, slots)}
	stale, err := list(ctx, p.tx, `SELECT format('%s on %s (pid %s), last heartbeat %s', id, hostname, pid, to_char(heartbeat_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
		FROM sched.worker WHERE state IN `+live+` AND heartbeat_at < clock_timestamp() - make_interval(secs => $1) ORDER BY heartbeat_at`, staleBeat.Seconds())
	if err != nil {
		return found, err
	}
	if len(stale) > 0 {
		found = append(found, Finding{
			Level: Failed, Message: "dead, but not evicted; their tasks hang: " + strings.Join(stale, "; "),
			Advice: "evicting is the leader's duty: see the check leader",
		})
	}
	return found, nil
}

func lookAtVersions(ctx context.Context, p *patient) ([]Finding, error) {
	versions, err := list(ctx, p.tx, `SELECT format('%s (%s)', coalesce(nullif(version, ''), 'unknown'), count(*)) FROM sched.worker
		WHERE state IN `+live+` GROUP BY version ORDER BY version`)
	switch {
	case err != nil:
		return nil, err
	case len(versions) > 1:
		return []Finding{{
			Level: Warning, Message: "workers run different versions: " + strings.Join(versions, ", "),
			Advice: "fine while an upgrade is under way; finish it",
		}}, nil
	case len(versions) == 0:
		return []Finding{ok("no worker, no version")}, nil
	}
	return []Finding{ok("workers run version %s", versions[0])}, nil
}

func lookAtEvictions(ctx context.Context, p *patient) ([]Finding, error) {
	evicted, err := list(ctx, p.tx, `SELECT format('%s on %s (pid %s) at %s: %s', id, hostname, pid, to_char(ended_at AT TIME ZONE 'UTC', 'HH24:MI:SS"Z"'), reason)
		FROM sched.worker WHERE state = 'evicted' AND ended_at > clock_timestamp() - interval '1 hour' ORDER BY ended_at DESC`)
	if err != nil {
		return nil, err
	}
	if len(evicted) == 0 {
		return []Finding{ok("no worker was evicted in the last hour")}, nil
	}
	return []Finding{{
		Level: Warning, Message: "evicted in the last hour: " + strings.Join(evicted, "; "),
		Advice: "these sidecars were killed, or starved of CPU or network for as long as evict_after: look at their machines and logs; stop sidecars with SIGTERM",
	}}, nil
}

func lookAtHolders(ctx context.Context, p *patient) ([]Finding, error) {
	const held = `SELECT format('%s: %s (oldest since %s)', holder, count(*), to_char(min(attempted_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
		FROM (SELECT j.attempted_by[cardinality(j.attempted_by)] AS holder, j.attempted_at FROM sched.river_job AS j WHERE j.state = 'running') AS r
		LEFT JOIN sched.worker AS w ON w.id = r.holder `
	foreign, err := list(ctx, p.tx, held+`WHERE w.id IS NULL GROUP BY holder ORDER BY min(attempted_at)`)
	if err != nil {
		return nil, err
	}
	orphaned, err := list(ctx, p.tx, held+`WHERE w.state IN ('done', 'evicted') AND w.ended_at < clock_timestamp() - make_interval(secs => $1)
		GROUP BY holder ORDER BY min(attempted_at)`, staleBeat.Seconds())
	if err != nil {
		return nil, err
	}
	var found []Finding
	if len(foreign) > 0 {
		found = append(found, Finding{
			Level: Warning, Message: "tasks run on clients of River that are no sidecars: " + strings.Join(foreign, "; "),
			Advice: "if such a client dies, its tasks stay running for ever: nobody here knows that it died. Let sidecars work these queues (no Queues in river.Config); " +
				"tasks of a client that is gone: UPDATE sched.river_job SET state = 'available' WHERE state = 'running' AND attempted_by[cardinality(attempted_by)] = '<id>'",
		})
	}
	if len(orphaned) > 0 {
		found = append(found, Finding{
			Level: Warning, Message: "tasks are held by workers that ended: " + strings.Join(orphaned, "; "),
			Advice: "the leader takes them back unless an app's open transaction holds their rows: see the checks leader and transactions",
		})
	}
	if len(found) == 0 {
		found = append(found, ok("every running task is held by a live worker"))
	}
	return found, nil
}

func lookAtOverdue(ctx context.Context, p *patient) ([]Finding, error) {
	var count int
	var oldest *time.Time
	err := p.tx.QueryRow(ctx, `SELECT count(*)::int, min(scheduled_at) FROM (
			SELECT j.scheduled_at FROM sched.river_job AS j
			WHERE j.state IN ('retryable', 'scheduled') AND j.scheduled_at < clock_timestamp() - make_interval(secs => $1)
			ORDER BY j.scheduled_at LIMIT 1000) AS due`, overdueAfter.Seconds()).Scan(&count, &oldest)
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return []Finding{ok("no task is overdue")}, nil
	}
	number := fmt.Sprint(count)
	if count == 1000 {
		number = "1000 or more"
	}
	return []Finding{{
		Level: Failed, Message: fmt.Sprintf("%s tasks are scheduled or retryable although their time has come, the oldest since %s", number, oldest.UTC().Format(time.RFC3339)),
		Advice: "making them available is the leader's duty: see the checks leader and workers, and the leader's log",
	}}, nil
}

func lookAtQueues(ctx context.Context, p *patient) ([]Finding, error) {
	const waiting = ` CROSS JOIN LATERAL (SELECT j.scheduled_at FROM sched.river_job AS j WHERE j.state = 'available' AND j.queue = q.name
		ORDER BY j.priority, j.scheduled_at LIMIT 1) AS first `
	paused, err := list(ctx, p.tx, `SELECT format('%s (since %s)', q.name, to_char(r.paused_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
		FROM sched.queue AS q JOIN sched.river_queue AS r ON r.name = q.name`+waiting+`WHERE r.paused_at IS NOT NULL ORDER BY r.paused_at`)
	if err != nil {
		return nil, err
	}
	unserved, err := list(ctx, p.tx, `SELECT format('%s (queue %s, selector %s, protocol %s)', q.name, q.base, q.selector, q.protocol) FROM sched.queue AS q`+waiting+`
		WHERE EXISTS (SELECT FROM sched.worker AS w WHERE w.state IN `+live+`)
			AND NOT EXISTS (
				SELECT FROM sched.worker AS w
				WHERE w.state IN ('pending', 'active') AND q.selector <@ w.labels
					AND (q.protocol = 'any' OR q.protocol = ANY (w.protocols)) AND (w.queues IS NULL OR q.base = ANY (w.queues)))
		ORDER BY q.name`)
	if err != nil {
		return nil, err
	}
	held, err := list(ctx, p.tx, `SELECT format('%s on %s beside %s (%s)', w.id, w.hostname, w.app_url, array_to_string(w.holds, ', '))
		FROM sched.worker AS w WHERE w.state IN ('pending', 'active') AND cardinality(w.holds) > 0
			AND EXISTS (SELECT FROM sched.queue AS q`+waiting+`) ORDER BY w.id`)
	if err != nil {
		return nil, err
	}
	var found []Finding
	if len(held) > 0 {
		found = append(found, Finding{
			Level: Warning, Message: "tasks wait, and these workers claim nothing: " + strings.Join(held, "; "),
			Advice: `"app down": start the app, or correct app.url of that sidecar; its /readyz says when it is ready`,
		})
	}
	if len(paused) > 0 {
		found = append(found, Finding{
			Level: Warning, Message: "tasks wait in paused queues: " + strings.Join(paused, "; "),
			Advice: "if that isn't on purpose, resume them in River UI or with: UPDATE sched.river_queue SET paused_at = NULL WHERE name = '<name>'",
		})
	}
	if len(unserved) > 0 {
		found = append(found, Finding{
			Level: Warning, Message: "tasks wait in queues that no worker serves: " + strings.Join(unserved, "; "),
			Advice: "start a sidecar whose labels hold every pair of the selector, whose app speaks the protocol, and whose queues aren't narrowed to others",
		})
	}
	if len(found) == 0 {
		found = append(found, ok("every queue with waiting tasks has a worker"))
	}
	return found, nil
}

// list reads lines for a message: the first few, and a note that there are more.
func list(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]string, error) {
	rows, err := tx.Query(ctx, sql+fmt.Sprintf(" LIMIT %d", shown+1), args...)
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if len(lines) > shown {
		lines[shown] = "and more"
	}
	return lines, err
}
