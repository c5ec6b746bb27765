-- name: RoutingLook :one
-- What the leader's turn begins with, each second: the fleet as it was written last; the
-- oldest transaction that may still commit something: what is read from there on next time
-- misses nothing; the settings that routing goes by; and whether there is something to do
-- that takes statements of its own, so that an idle fleet costs few of them.
SELECT f.leader, f.topology_version, f.pressure, pg_snapshot_xmin(pg_current_snapshot())::text AS horizon,
    (SELECT coalesce(jsonb_object_agg(s.key, s.value), '{}') FROM sched.setting AS s WHERE s.key = any(@keys::text[]))::jsonb AS settings,
    EXISTS (
        SELECT FROM sched.queue AS q
        WHERE q.config_xid >= (@since::text)::xid8 AND q.config_xid < pg_snapshot_xmax(pg_current_snapshot())
    )::boolean AS queues_changed,
    -- Another one: some worker's row was written, came or went, or is too old for what it says of polling.
    (
        SELECT coalesce(bit_xor(hashtextextended(concat_ws(' ', w.id, w.xmin, w.load_at > clock_timestamp() - interval '10 seconds'), 0)), 0)
        FROM sched.worker AS w
        WHERE w.state IN ('pending', 'active', 'draining')
    )::bigint AS workers_sign,
    EXISTS (SELECT FROM sched.canary)::boolean AS canaries,
    EXISTS (
        SELECT FROM sched.schedule AS c WHERE NOT c.paused AND c.error IS NULL AND (c.next_run_at IS NULL OR c.next_run_at <= now())
    )::boolean AS schedules_due,
    -- Not asked, where dead rows that somebody's snapshot keeps make it slow: there is something.
    t.waiting::boolean AS waiting, t.next_due_ms::float8 AS next_due_ms,
    coalesce(pg_sequence_last_value(pg_get_serial_sequence('sched.river_job', 'id')::regclass), 0)::bigint AS newest_id
FROM sched.fleet AS f
CROSS JOIN sched.look_at_tasks(@probe::boolean) AS t;

-- name: RoutingWorkers :many
-- All live registrations with their load and heartbeat. By the leader, each second in which one changed.
SELECT w.id, w.hostname, w.labels::text AS labels, w.queues, w.protocols, w.state, w.heartbeat_seq, w.running, w.slots, w.ceiling,
    w.cpu, w.load_percent, w.rtt_ms, w.health, cardinality(w.holds) > 0 AS held,
    (w.kinds IS NOT NULL OR cardinality(w.skipped_kinds) > 0)::boolean AS partial,
    (w.polling AND coalesce(w.load_at > clock_timestamp() - interval '10 seconds', false))::boolean AS polling
FROM sched.worker AS w
WHERE w.state IN ('pending', 'active', 'draining')
ORDER BY w.id;

-- name: RoutingQueues :many
-- Queues with configuration and the state written last: all of them, or those made or
-- reconfigured from a transaction on. By the leader: all at its start and each five minutes, new ones when there are any.
SELECT q.name, q.base, q.selector::text AS selector, q.protocol, q.strategy, q.max_pending,
    q.pressure, q.pressure_reason, q.pending, q.load, q.workers, q.weight_total, q.free_slots, q.wake, q.unroutable
FROM sched.queue AS q
WHERE q.config_xid >= (@since::text)::xid8
    AND (q.config_xid < pg_snapshot_xmax(pg_current_snapshot()) OR @since::text = '0');

-- name: RoutingAssignments :many
-- All assignments. By the leader, at its start and each five minutes.
SELECT a.queue, a.worker_id, a.weight, a.reason
FROM sched.assignment AS a;

-- name: RoutingWaiting :many
-- Tasks available and due per queue, bounded. By the leader, each second.
SELECT coalesce(c.queue, '')::text AS queue, coalesce(c.waiting, -1)::integer AS waiting
FROM sched.count_waiting(@after::text, @default_max::integer, @budget::integer, @largest::integer) AS c;

-- name: RoutingAssign :exec
-- Writes assignments that are new or changed.
INSERT INTO sched.assignment AS a (queue, worker_id, weight, reason, version)
SELECT r ->> 'queue', r ->> 'worker', (r ->> 'weight')::integer, r ->> 'reason', @version::bigint
FROM jsonb_array_elements(@entries::jsonb) AS r
ORDER BY 1, 2
ON CONFLICT (queue, worker_id) DO UPDATE
SET weight = excluded.weight, reason = excluded.reason, version = excluded.version, updated_at = clock_timestamp();

-- name: RoutingUnassign :exec
-- Takes assignments away.
DELETE FROM sched.assignment AS a
USING jsonb_array_elements(@entries::jsonb) AS r
WHERE a.queue = r ->> 'queue' AND a.worker_id = r ->> 'worker';

-- name: RoutingUnassignWorkers :execrows
-- Takes all assignments of workers that are gone.
DELETE FROM sched.assignment AS a
WHERE a.worker_id = any(@workers::text[]);

-- name: RoutingQueueState :many
-- Writes what the leader found of queues, and returns whose row was written: one that
-- somebody else has locked is passed over, and comes again in the next turn. The limit
-- is their number, which tells the planner how few they are.
WITH found AS (
    SELECT r ->> 'name' AS name, r ->> 'pressure' AS pressure, r ->> 'reason' AS reason, (r ->> 'pending')::integer AS pending,
        (r ->> 'load')::real AS load, (r ->> 'workers')::integer AS workers, (r ->> 'weight_total')::bigint AS weight_total,
        (r ->> 'free_slots')::integer AS free_slots, r ->> 'unroutable' AS unroutable,
        CASE WHEN jsonb_typeof(r -> 'wake') = 'array'
            THEN ARRAY(SELECT e FROM jsonb_array_elements_text(r -> 'wake') WITH ORDINALITY AS w (e, ord) ORDER BY ord) END AS wake
    FROM jsonb_array_elements(@entries::jsonb) AS r
    LIMIT @n::integer
), held AS (
    SELECT f.*
    FROM found AS f JOIN sched.queue AS l ON l.name = f.name
    ORDER BY l.name
    FOR NO KEY UPDATE OF l SKIP LOCKED
)
UPDATE sched.queue AS q
SET pressure = h.pressure, pressure_reason = h.reason, pending = h.pending, load = h.load, workers = h.workers,
    weight_total = h.weight_total, free_slots = h.free_slots, wake = h.wake, unroutable = h.unroutable, state_at = clock_timestamp()
FROM held AS h
WHERE q.name = h.name
RETURNING q.name;

-- name: RoutingHealth :exec
-- Writes the health of workers whose health changed, if they still live; a row that
-- somebody else has locked is passed over, and comes again in the next turn.
WITH found AS (
    SELECT r ->> 'id' AS id, r ->> 'health' AS health
    FROM jsonb_array_elements(@entries::jsonb) AS r
), held AS (
    SELECT f.id, f.health
    FROM found AS f JOIN sched.worker AS l ON l.id = f.id
    WHERE l.state IN ('pending', 'active', 'draining')
    ORDER BY l.id
    FOR NO KEY UPDATE OF l SKIP LOCKED
)
UPDATE sched.worker AS w
SET health = h.health
FROM held AS h
WHERE w.id = h.id;

-- name: RoutingFleetPut :exec
-- Writes the fleet as the leader sees it, and that the newest topology still holds (0: not
-- now). Each second.
WITH clock AS (SELECT clock_timestamp() AS at),
seen AS (
    UPDATE sched.topology_snapshot AS t
    SET taken_at = c.at, taken_at_ns = (extract(EPOCH FROM c.at) * 1000000)::bigint * 1000
    FROM clock AS c
    WHERE t.version = @topology_seen::bigint
)
UPDATE sched.fleet AS f
SET pressure = @pressure, pressure_reason = sqlc.narg(pressure_reason), pending = @pending, load = @load, workers = @workers,
    slots = @slots, running = @running, topology_version = greatest(f.topology_version, @topology_version::bigint),
    policy_version = f.policy_version + CASE WHEN @policies_changed::boolean THEN 1 ELSE 0 END,
    leader = @leader, computed_at = c.at
FROM clock AS c;

-- name: RoutingNotify :exec
-- Tells the sidecars that assignments or the topology changed.
SELECT pg_notify('sched.topology', @version::text);

-- name: TopologyLatest :one
-- The newest topology. By a leader at its start.
SELECT t.version, t.topology::text AS topology
FROM sched.topology_snapshot AS t
ORDER BY t.version DESC
LIMIT 1;

-- name: TopologyPut :one
-- Writes a new version of the topology with what changed, as a whole, and keeps the
-- last three. No row: another leader has written this version.
WITH clock AS (SELECT clock_timestamp() AS at),
made AS (
    INSERT INTO sched.topology_snapshot AS t (version, taken_at, taken_at_ns, sha256, reason, topology)
    SELECT @version::bigint, c.at, (extract(EPOCH FROM c.at) * 1000000)::bigint * 1000,
        encode(sha256(convert_to((@topology::jsonb)::text, 'UTF8')), 'hex'), @reason::text, @topology::jsonb
    FROM clock AS c
    ON CONFLICT (version) DO NOTHING
    RETURNING t.version, t.taken_at
), changed AS (
    INSERT INTO sched.topology_change (version, worker_id, at, what, before, after)
    SELECT m.version, r ->> 'worker', m.taken_at, r ->> 'what', nullif(r -> 'before', 'null'), nullif(r -> 'after', 'null')
    FROM made AS m, jsonb_array_elements(@changes::jsonb) AS r
), old AS (
    DELETE FROM sched.topology_snapshot AS t
    USING made AS m
    WHERE t.version <= m.version - 3
)
SELECT m.version
FROM made AS m;

-- name: DecisionInsert :exec
-- Writes decisions, in the order they were made. Each second, if there are any.
INSERT INTO sched.decision (at, what, subject, who, from_value, to_value, reason, signals)
SELECT clock_timestamp() - make_interval(secs => (r ->> 'age')::float8), r ->> 'what', r ->> 'subject', @who::text,
    r ->> 'from', r ->> 'to', r ->> 'reason', coalesce(r -> 'signals', '{}')
FROM jsonb_array_elements(@entries::jsonb) WITH ORDINALITY AS d (r, ord)
ORDER BY ord;

-- name: DecisionSweep :execrows
-- Deletes old decisions, bounded. By the leader, now and then.
DELETE FROM sched.decision AS d
WHERE d.id IN (
    SELECT o.id FROM sched.decision AS o
    WHERE o.at < now() - make_interval(days => @keep_days::integer)
    ORDER BY o.at LIMIT @max::integer
);

-- name: TopologySweep :execrows
-- Deletes old changes of the topology, bounded. By the leader, now and then.
DELETE FROM sched.topology_change AS c
USING (
    SELECT o.version, o.worker_id FROM sched.topology_change AS o
    WHERE o.at < now() - make_interval(days => @keep_days::integer)
    ORDER BY o.at LIMIT @max::integer
) AS old
WHERE c.version = old.version AND c.worker_id = old.worker_id;

-- name: OperatorActionSweep :execrows
-- Deletes old interventions, bounded. By the leader, now and then.
DELETE FROM sched.operator_action AS a
WHERE a.id IN (
    SELECT o.id FROM sched.operator_action AS o
    WHERE o.at < now() - make_interval(days => @keep_days::integer)
    ORDER BY o.at LIMIT @max::integer
);

-- name: CanaryRows :many
-- All canaries. By the leader, each second if there are any.
SELECT c.queue, c.percent, c.state, c.steps, extract(EPOCH FROM c.hold)::float8 AS hold_seconds, c.max_p95_ms, c.max_error_points,
    c.max_cpu_points, c.abort_error_percent, extract(EPOCH FROM clock_timestamp() - c.step_at)::float8 AS since_seconds, c.step_at, c.workers, c.reason
FROM sched.canary AS c
ORDER BY c.queue;

-- name: CanaryWorkers :execrows
-- Says how many canary workers a queue has. Not while somebody else has the row locked.
UPDATE sched.canary AS c
SET workers = @workers::integer
WHERE c.queue = (
    SELECT l.queue FROM sched.canary AS l
    WHERE l.queue = @queue
    FOR NO KEY UPDATE SKIP LOCKED
);

-- name: CanaryStep :execrows
-- Moves a canary, unless somebody moved it meanwhile or has the row locked. again: the hold
-- begins anew, too.
UPDATE sched.canary AS c
SET percent = @percent::real, state = @state, reason = @reason::text,
    step_at = CASE WHEN @again::boolean OR c.percent <> @percent::real OR c.state <> @state THEN clock_timestamp() ELSE c.step_at END
WHERE c.queue = (
    SELECT l.queue FROM sched.canary AS l
    WHERE l.queue = @queue AND l.state = 'rising' AND l.percent = @from_percent::real
    FOR NO KEY UPDATE SKIP LOCKED
);

-- name: CanaryMeasures :many
-- What ended on either track of a queue since its step began: attempts, those that failed,
-- and the 95th percentile of run time in milliseconds. Failed: retried, taken from a dead worker, discarded, or
-- cancelled by what the app answered. Bounded: the newest max rows of each outcome, whatever their queue; what has
-- gone to the archive since the step began counts as well.
WITH completed AS (
    SELECT b.end_time, b.queue, b.worker_id, (extract(EPOCH FROM b.end_time - b.start_time) * 1000)::float8 AS milliseconds
    FROM (
        (
            SELECT j.finalized_at AS end_time, j.queue, j.attempted_by[cardinality(j.attempted_by)]::text AS worker_id, j.attempted_at AS start_time
            FROM sched.river_job AS j
            WHERE j.state = 'completed' AND j.finalized_at >= @since::timestamptz
            ORDER BY j.finalized_at DESC LIMIT @max::integer
        )
        UNION ALL
        (
            SELECT a.end_time, a.queue, a.worker_id, a.start_time
            FROM sched.task_archive AS a
            WHERE a.status = 'completed' AND a.end_time >= @since::timestamptz
            ORDER BY a.end_time DESC LIMIT @max::integer
        )
    ) AS b
    ORDER BY b.end_time DESC LIMIT @max::integer
), span AS (
    -- Failures are rarer and would reach back further: one span of time for all.
    SELECT CASE WHEN count(*) = @max::integer THEN min(c.end_time) ELSE @since::timestamptz END AS since FROM completed AS c
), discarded AS (
    SELECT j.queue, j.attempted_by[cardinality(j.attempted_by)]::text AS worker_id
    FROM sched.river_job AS j
    WHERE j.state = 'discarded' AND j.finalized_at >= (SELECT s.since FROM span AS s)
    ORDER BY j.finalized_at DESC LIMIT @max::integer
), cancelled AS (
    SELECT j.queue, j.attempted_by[cardinality(j.attempted_by)]::text AS worker_id,
        (j.errors[cardinality(j.errors)] ->> 'attempt') = j.attempt::text AS failed
    FROM sched.river_job AS j
    WHERE j.state = 'cancelled' AND j.finalized_at >= (SELECT s.since FROM span AS s)
    ORDER BY j.finalized_at DESC LIMIT @max::integer
), retried AS (
    SELECT a.task_id, a.worker_id
    FROM sched.attempt_log AS a
    WHERE a.outcome IN ('retry', 'rescued') AND a.ended_at >= (SELECT s.since FROM span AS s)
    ORDER BY a.ended_at DESC LIMIT @max::integer
), archived_failed AS (
    SELECT a.queue, a.worker_id
    FROM sched.task_archive AS a
    WHERE a.status <> 'completed' AND a.end_time >= (SELECT s.since FROM span AS s)
        AND (a.status = 'discarded' OR (a.errors[cardinality(a.errors)] ->> 'attempt') = a.attempt::text)
    ORDER BY a.end_time DESC LIMIT @max::integer
), archived_again AS (
    SELECT a.queue, a.attempts
    FROM sched.task_archive AS a
    WHERE coalesce(cardinality(a.attempted_by), 0) > 1 AND a.end_time >= (SELECT s.since FROM span AS s)
    ORDER BY a.end_time DESC LIMIT @max::integer
), ended AS (
    SELECT c.worker_id, c.milliseconds, false AS failed FROM completed AS c WHERE c.queue = @queue::text
    UNION ALL
    SELECT d.worker_id, NULL, true FROM discarded AS d WHERE d.queue = @queue::text
    UNION ALL
    SELECT c.worker_id, NULL, true FROM cancelled AS c WHERE c.queue = @queue::text AND c.failed
    UNION ALL
    SELECT r.worker_id, NULL, true FROM retried AS r JOIN sched.river_job AS j ON j.id = r.task_id WHERE j.queue = @queue::text
    UNION ALL
    SELECT f.worker_id, NULL, true FROM archived_failed AS f WHERE f.queue = @queue::text
    UNION ALL
    SELECT e.value ->> 'worker_id', NULL, true
    FROM archived_again AS g CROSS JOIN LATERAL jsonb_array_elements(g.attempts) AS e (value)
    WHERE g.queue = @queue::text AND e.value ->> 'outcome' IN ('retry', 'rescued')
        AND (e.value ->> 'ended_at')::timestamptz >= (SELECT s.since FROM span AS s)
)
SELECT coalesce(w.labels ->> 'track' = 'canary', false)::boolean AS canary, count(*)::integer AS attempts,
    (count(*) FILTER (WHERE e.failed))::integer AS errors,
    coalesce(percentile_cont(0.95) WITHIN GROUP (ORDER BY e.milliseconds), 0)::float8 AS p95_ms
FROM ended AS e
LEFT JOIN sched.worker AS w ON w.id = e.worker_id
GROUP BY 1;

-- name: RoutingDemand :one
-- How many workers the fleet needs, for the metric. By the leader, each few seconds.
SELECT coalesce(d.desired_workers, 0)::integer AS desired FROM sched.fleet_demand AS d;

-- name: FleetUnled :exec
-- Says that nobody leads, unless another does by now. By a leader that stops to be one.
WITH unled AS (
    UPDATE sched.fleet AS f SET computed_at = NULL WHERE f.leader = @worker_id::text RETURNING f.topology_version
)

SELECT pg_notify('sched.topology', u.topology_version::text)::text AS told FROM unled AS u;
