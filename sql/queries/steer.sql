-- name: QueueSet :many
-- Configures queues: what values has is set, null clears it (or gives back the default), the rest stays.
UPDATE sched.queue AS q
SET
    description = CASE WHEN @values::jsonb ? 'description' THEN @values::jsonb ->> 'description' ELSE q.description END,
    strategy = CASE WHEN @values::jsonb ? 'strategy' THEN coalesce(@values::jsonb ->> 'strategy', 'least_loaded') ELSE q.strategy END,
    admission = CASE WHEN @values::jsonb ? 'admission' THEN coalesce(@values::jsonb ->> 'admission', 'accept') ELSE q.admission END,
    max_pending = CASE WHEN @values::jsonb ? 'max_pending' THEN (@values::jsonb ->> 'max_pending')::integer ELSE q.max_pending END,
    max_running = CASE WHEN @values::jsonb ? 'max_running' THEN (@values::jsonb ->> 'max_running')::integer ELSE q.max_running END,
    rate = CASE WHEN @values::jsonb ? 'rate' THEN (@values::jsonb ->> 'rate')::real ELSE q.rate END,
    burst = CASE WHEN @values::jsonb ? 'burst' THEN (@values::jsonb ->> 'burst')::integer ELSE q.burst END,
    pinned = CASE WHEN @values::jsonb ? 'pinned' THEN (@values::jsonb ->> 'pinned')::boolean ELSE q.pinned END
WHERE q.name = any(@names::text[])
RETURNING row_to_json(q)::json AS queue;

-- name: PressureList :many
-- Pressure of the fleet and of queues: of those named and derived from them, of all, or of
-- those that are not green. Green while nobody leads.
SELECT row_to_json(p)::json AS pressure
FROM (
    SELECT 'fleet' AS scope, NULL::text AS name, CASE WHEN f.led THEN f.pressure ELSE 'green' END AS level,
        CASE WHEN f.led THEN f.pressure_reason END AS reason, f.pending, f.default_max AS max_pending, f.load, f.workers, f.led, f.leader, f.computed_at
    FROM (
        SELECT l.*, coalesce(l.computed_at > clock_timestamp() - interval '5 seconds', false) AS led,
            coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_pending'), 1000) AS default_max
        FROM sched.fleet AS l
    ) AS f
    WHERE sqlc.narg(names)::text[] IS NULL
    UNION ALL
    (
        SELECT 'queue', q.name, q.pressure, q.pressure_reason, q.pending,
            coalesce(q.max_pending, (SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_pending'), 1000),
            q.load, q.workers, coalesce(f.computed_at > clock_timestamp() - interval '5 seconds', false), f.leader, f.computed_at
        FROM sched.queues AS q CROSS JOIN sched.fleet AS f
        WHERE CASE
            WHEN sqlc.narg(names)::text[] IS NOT NULL THEN q.name = any(sqlc.narg(names)::text[]) OR q.base = any(sqlc.narg(names)::text[])
            ELSE @everything::boolean OR q.pressure <> 'green'
        END
        ORDER BY q.name
        LIMIT @max::int
    )
) AS p
ORDER BY p.scope, p.name;

-- name: AssignmentList :many
-- Who serves which queue.
SELECT row_to_json(p)::json AS assignment
FROM (
    SELECT a.*
    FROM sched.assignments AS a
    WHERE (
        sqlc.narg(queues)::text[] IS NULL
        OR a.queue = any(sqlc.narg(queues)::text[])
        OR split_part(a.queue, '|', 1) = any(sqlc.narg(queues)::text[])
    )
        AND (sqlc.narg(worker_id)::text IS NULL OR a.worker_id = sqlc.narg(worker_id)::text)
    ORDER BY a.queue, a.weight DESC, a.worker_id
    LIMIT @max::int
) AS p;

-- name: TopologyNearest :one
-- The whole topology that is nearest to a version: the last one up to it, or else the first behind it.
SELECT t.version, t.topology::text AS topology
FROM sched.topology_snapshot AS t
ORDER BY t.version > @version::bigint, abs(t.version - @version::bigint)
LIMIT 1;

-- name: TopologyNewest :one
-- The newest version, 0 before the first.
SELECT coalesce(max(t.version), 0)::bigint AS version FROM sched.topology_snapshot AS t;

-- name: TopologyLastChange :one
-- The version that the last change up to a time led to. No row: no such change is kept.
SELECT c.version
FROM sched.topology_change AS c
WHERE c.at <= @moment::timestamptz
ORDER BY c.at DESC, c.version DESC
LIMIT 1;

-- name: TopologyVersionBefore :one
-- The version before the first change that is kept, and whether it held at a time before
-- that: a change since then would have been kept, or there was none before.
SELECT coalesce(min(c.version) - 1, (SELECT max(t.version) FROM sched.topology_snapshot AS t), 0)::bigint AS version,
    (
        coalesce(min(c.version), 1) = 1
        OR @moment::timestamptz >= now() - make_interval(days => coalesce(
            (SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'topology_keep_days'), 7
        ))
    )::boolean AS held
FROM sched.topology_change AS c;

-- name: TopologyLog :many
-- What changed behind one version and up to another.
SELECT c.version, c.worker_id, c.at, c.what, coalesce(c.before::text, '')::text AS before, coalesce(c.after::text, '')::text AS after
FROM sched.topology_change AS c
WHERE c.version > @after_version::bigint AND c.version <= @version::bigint
ORDER BY c.version, c.worker_id;

-- name: TopologyHead :one
-- When and how a version came about, as far as it is still known; the epoch: it is not.
SELECT
    coalesce((SELECT min(c.at) FROM sched.topology_change AS c WHERE c.version = @version::bigint), 'epoch')::timestamptz AS since,
    coalesce((SELECT t.sha256 FROM sched.topology_snapshot AS t WHERE t.version = @version::bigint), '')::text AS sha256,
    coalesce((SELECT t.reason FROM sched.topology_snapshot AS t WHERE t.version = @version::bigint), '')::text AS reason;

-- name: CanaryList :many
-- All canaries.
SELECT row_to_json(p)::json AS canary
FROM (
    SELECT c.queue, c.percent, c.state, c.steps, extract(EPOCH FROM c.hold)::float8 AS hold_seconds, c.max_p95_ms, c.max_error_points,
        c.max_cpu_points, c.abort_error_percent, c.step_at, c.reason, c.workers
    FROM sched.canary AS c
    WHERE sqlc.narg(queue)::text IS NULL OR c.queue = sqlc.narg(queue)::text
    ORDER BY c.queue
) AS p;

-- name: CanaryPut :exec
-- Gives the canary of a queue a share, or a state, or rules: what values has. Made if need be.
INSERT INTO sched.canary AS c (queue, percent, state, steps, hold, max_p95_ms, max_error_points, max_cpu_points, abort_error_percent, reason)
SELECT @queue::text, coalesce((v.v ->> 'percent')::real, 0), coalesce(v.v ->> 'state', 'off'),
    coalesce(ARRAY(SELECT e::real FROM jsonb_array_elements_text(v.v -> 'steps') WITH ORDINALITY AS s (e, ord) ORDER BY ord), '{}')
    || CASE WHEN v.v ? 'steps' THEN '{}' ELSE '{5,15,30,50,75,100}'::real[] END,
    make_interval(secs => coalesce((v.v ->> 'hold_seconds')::float8, 180)),
    coalesce((v.v ->> 'max_p95_ms')::real, 15), coalesce((v.v ->> 'max_error_points')::real, 0.1),
    coalesce((v.v ->> 'max_cpu_points')::real, 10), coalesce((v.v ->> 'abort_error_percent')::real, 0.5), 'by ' || session_user
FROM (SELECT @values::jsonb AS v) AS v
ON CONFLICT (queue) DO UPDATE SET
    percent = CASE
        WHEN @values::jsonb ? 'percent' THEN excluded.percent
        WHEN excluded.state = 'rising' AND c.state = 'full' THEN 0
        ELSE c.percent
    END,
    state = excluded.state,
    steps = CASE WHEN @values::jsonb ? 'steps' THEN excluded.steps ELSE c.steps END,
    hold = CASE WHEN @values::jsonb ? 'hold_seconds' THEN excluded.hold ELSE c.hold END,
    max_p95_ms = CASE WHEN @values::jsonb ? 'max_p95_ms' THEN excluded.max_p95_ms ELSE c.max_p95_ms END,
    max_error_points = CASE WHEN @values::jsonb ? 'max_error_points' THEN excluded.max_error_points ELSE c.max_error_points END,
    max_cpu_points = CASE WHEN @values::jsonb ? 'max_cpu_points' THEN excluded.max_cpu_points ELSE c.max_cpu_points END,
    abort_error_percent = CASE WHEN @values::jsonb ? 'abort_error_percent' THEN excluded.abort_error_percent ELSE c.abort_error_percent END,
    step_at = clock_timestamp(),
    reason = excluded.reason;

-- name: DecisionList :many
-- Decisions, the latest first.
SELECT row_to_json(p)::json AS decision
FROM (
    SELECT d.*
    FROM sched.decisions AS d
    WHERE d.at >= coalesce(sqlc.narg(since)::timestamptz, '-infinity')
        AND d.at < coalesce(sqlc.narg(until)::timestamptz, 'infinity')
        AND (sqlc.narg(subject)::text IS NULL OR d.subject = sqlc.narg(subject)::text)
        AND (sqlc.narg(what)::text IS NULL OR d.what = sqlc.narg(what)::text)
    ORDER BY d.at DESC, d.id DESC
    LIMIT @max::int
) AS p;

-- name: ActionList :many
-- Interventions, the latest first.
SELECT row_to_json(p)::json AS action
FROM (
    SELECT a.*
    FROM sched.operator_actions AS a
    WHERE a.at >= coalesce(sqlc.narg(since)::timestamptz, '-infinity')
        AND a.at < coalesce(sqlc.narg(until)::timestamptz, 'infinity')
        AND (sqlc.narg(action)::text IS NULL OR a.action = sqlc.narg(action)::text)
        AND (sqlc.narg(object_type)::text IS NULL OR a.object_type = sqlc.narg(object_type)::text)
        AND (sqlc.narg(db_user)::text IS NULL OR a.db_user = sqlc.narg(db_user)::text)
        AND (sqlc.narg(object)::text IS NULL OR a.object = sqlc.narg(object)::text)
    ORDER BY a.at DESC, a.id DESC
    LIMIT @max::int
) AS p;
