-- name: PolicyRead :one
-- What one sidecar has to obey, in one row of parallel arrays: the queues it serves,
-- the kinds with a limit or a pause, and the settings. By each sidecar when it is told
-- that something changed, or finds that out by its heartbeat; else once a minute.
--
-- A queue is served by whoever is assigned; by everybody whose labels match while
-- nobody is, or while there is no leader to say so.
WITH fleet AS (
    SELECT f.policy_version, f.workers, coalesce(f.computed_at > clock_timestamp() - interval '5 seconds', false) AS led
    FROM sched.fleet AS f
),

served AS (
    SELECT q.name, q.base, q.strategy, q.weight_total, q.free_slots, q.workers,
        coalesce(a.weight, 0) AS weight,
        r.paused_at IS NOT NULL AS paused,
        q.rate IS NOT NULL OR q.max_running IS NOT NULL AS limited,
        -- While nobody leads nobody knows whether a canary lives: all take everything.
        CASE WHEN f.led AND c.workers > 0 THEN c.percent ELSE 0 END AS canary_percent,
        CASE WHEN f.led THEN coalesce(c.workers, -1) ELSE -1 END AS canary_workers,
        -- Without a free slot among all of them the list is empty for that reason.
        f.led AND coalesce(q.wake = '{}', false) AND q.free_slots > 0 AS polled
    FROM fleet AS f
    CROSS JOIN sched.queue AS q
    LEFT JOIN sched.assignment AS a ON a.queue = q.name AND a.worker_id = @worker_id::text
    LEFT JOIN sched.river_queue AS r ON r.name = q.name
    LEFT JOIN sched.canary AS c ON c.queue = q.name
    -- The labels of its row, which an operator may have changed since it registered.
    WHERE q.selector <@ coalesce((SELECT w.labels FROM sched.worker AS w WHERE w.id = @worker_id::text), @labels::jsonb)
        AND (q.protocol = 'any' OR q.protocol = any(@protocols::text[]))
        AND (@bases::text[] IS NULL OR q.base = any(@bases::text[]))
        AND (
            a.queue IS NOT NULL OR NOT f.led
            OR NOT EXISTS (SELECT 1 FROM sched.assignment AS o WHERE o.queue = q.name)
        )
),

queues AS (
    SELECT
        coalesce(array_agg(s.name), '{}')::text[] AS names,
        coalesce(array_agg(s.base), '{}')::text[] AS bases,
        coalesce(array_agg(s.strategy), '{}')::text[] AS strategies,
        coalesce(array_agg(s.weight), '{}')::integer[] AS weights,
        coalesce(array_agg(s.weight_total), '{}')::bigint[] AS weight_totals,
        coalesce(array_agg(s.free_slots), '{}')::integer[] AS free_slots,
        coalesce(array_agg(s.workers), '{}')::integer[] AS workers,
        coalesce(array_agg(s.paused), '{}')::boolean[] AS paused,
        coalesce(array_agg(s.limited), '{}')::boolean[] AS limited,
        coalesce(array_agg(s.canary_percent), '{}')::real[] AS canary_percents,
        coalesce(array_agg(s.canary_workers), '{}')::integer[] AS canary_workers,
        coalesce(array_agg(s.polled), '{}')::boolean[] AS polled
    FROM served AS s
),

bound AS (
    SELECT k.kind, true AS limited, 0::float8 AS paused_seconds
    FROM sched.kind AS k
    WHERE k.rate IS NOT NULL
    UNION ALL
    -- A pause without an end, or with one far off, is one of a year: each reading renews it.
    SELECT p.name, false,
        CASE WHEN isfinite(p.paused_until) THEN least(extract(EPOCH FROM p.paused_until - clock_timestamp()), 31536000) ELSE 31536000 END::float8
    FROM sched.flow AS p
    WHERE p.scope = 'kind' AND p.paused_until > clock_timestamp()
),

kinds AS (
    SELECT
        coalesce(array_agg(b.kind), '{}')::text[] AS names,
        coalesce(array_agg(b.limited), '{}')::boolean[] AS limited,
        -- Not the time itself: clocks of machines differ.
        coalesce(array_agg(b.paused_seconds), '{}')::float8[] AS paused_seconds
    FROM (
        SELECT u.kind, bool_or(u.limited) AS limited, max(u.paused_seconds) AS paused_seconds
        FROM bound AS u
        GROUP BY u.kind
    ) AS b
)

SELECT f.policy_version, f.workers AS fleet_workers, f.led::boolean AS led,
    coalesce((SELECT (s.value #>> '{}')::float8 FROM sched.setting AS s WHERE s.key = 'priority_ageing_seconds'), 60)::float8 AS ageing_seconds,
    coalesce((SELECT (s.value #>> '{}')::float8 FROM sched.setting AS s WHERE s.key = 'busy_polls_per_second'), 500)::float8 AS busy_polls,
    q.names, q.bases, q.strategies, q.weights, q.weight_totals, q.free_slots, q.workers, q.paused, q.limited, q.canary_percents, q.canary_workers,
    q.polled,
    k.names AS kinds, k.limited AS kinds_limited, k.paused_seconds AS kinds_paused_seconds
FROM fleet AS f
CROSS JOIN queues AS q
CROSS JOIN kinds AS k;

-- name: PolicyShares :many
-- How many share the work of some queues, and whether nobody is woken for it. Each
-- second by a sidecar that works on them.
SELECT q.name, q.free_slots, q.workers,
    (coalesce(q.wake = '{}', false) AND q.free_slots > 0 AND coalesce(f.computed_at > clock_timestamp() - interval '5 seconds', false))::boolean AS polled
FROM sched.queue AS q
CROSS JOIN sched.fleet AS f
WHERE q.name = any(@names::text[]);
