-- name: WorkerRegister :exec
-- Starts a registration. Once per start of a sidecar, and after each eviction.
INSERT INTO sched.worker (
    id, client_id, hostname, pid, version, app_url, labels, queues, kinds, protocols,
    state, started_at, heartbeat_at, heartbeat_seq, running, slots, ceiling
) VALUES (
    @id, @client_id, @hostname, @pid, @version, @app_url, @labels, @queues, @kinds, @protocols,
    'pending', clock_timestamp(), clock_timestamp(), 1, 0, @slots, @ceiling
);

-- name: WorkerState :one
-- Where a registration is in its lifecycle, before a move.
SELECT w.state, w.state_version
FROM sched.worker AS w
WHERE w.id = @id;

-- name: WorkerMove :execrows
-- Moves a registration on if nobody has moved it since its state was read. Nothing
-- comes back from done or evicted: a trigger refuses that. Another tells the leader.
UPDATE sched.worker AS w
SET state = @to_state,
    state_version = w.state_version + 1,
    reason = @reason::text,
    running = CASE WHEN @to_state::text = 'done' THEN 0 ELSE w.running END,
    polling = w.polling AND @to_state::text = 'active',
    ended_at = CASE WHEN @to_state::text = 'done' THEN clock_timestamp() END
WHERE w.id = @id AND w.state = @from_state::text AND w.state_version = @state_version;

-- name: WorkerBeat :one
-- One heartbeat with the load. Returns the state, which an operator may have moved
-- to draining, and whether the policy it obeys is still the newest. No row: evicted,
-- register anew. Whether the worker polls is left to WorkerLoad: two statements under
-- way at once might write it in the wrong order.
UPDATE sched.worker AS w
SET heartbeat_at = clock_timestamp(),
    heartbeat_seq = w.heartbeat_seq + 1,
    running = @running,
    slots = @slots,
    ceiling = @ceiling,
    cpu = @cpu,
    mem = @mem,
    load_percent = @load_percent,
    load_at = clock_timestamp(),
    skipped_kinds = @skipped_kinds::text[],
    holds = @holds::text[],
    rtt_ms = @rtt_ms
FROM sched.fleet AS f
WHERE w.id = @id AND w.state IN ('pending', 'active', 'draining')
RETURNING w.state, f.policy_version,
    coalesce(f.computed_at > clock_timestamp() - interval '5 seconds', false)::boolean AS led;

-- name: WorkerLoad :execrows
-- The load between two heartbeats. When it changed, at most once a second.
UPDATE sched.worker AS w
SET running = @running,
    slots = @slots,
    ceiling = @ceiling,
    cpu = @cpu,
    mem = @mem,
    load_percent = @load_percent,
    holds = @holds::text[],
    polling = @polling,
    load_at = clock_timestamp()
WHERE w.id = @id AND w.state IN ('pending', 'active', 'draining');

-- name: WorkerEvict :execrows
-- Ends a registration whose heartbeat stood still, unless it beat meanwhile. In
-- one transaction with the rescue of its tasks. Waits for nobody: whoever holds the
-- row now must not keep the leader from its other duties.
UPDATE sched.worker AS w
SET state = 'evicted',
    state_version = w.state_version + 1,
    ended_at = clock_timestamp(),
    reason = @reason::text,
    running = 0,
    slots = 0,
    load_percent = 0,
    cpu = 0,
    mem = 0,
    polling = false
WHERE w.id = (
    SELECT l.id FROM sched.worker AS l
    WHERE l.id = @id AND l.heartbeat_seq = @heartbeat_seq AND l.state IN ('pending', 'active', 'draining')
    FOR NO KEY UPDATE SKIP LOCKED
);

-- name: WorkerGone :many
-- Ended registrations that may still own running rows, because these were locked
-- when the worker went. By the leader's sweep. It begins at what runs, each row once,
-- whatever the statistics say.
WITH owners AS MATERIALIZED (
    SELECT DISTINCT j.attempted_by[cardinality(j.attempted_by)] AS id
    FROM sched.river_job AS j
    WHERE j.state = 'running'
)

SELECT w.id
FROM owners AS o
JOIN sched.worker AS w ON w.id = o.id
WHERE w.state IN ('evicted', 'done');

-- name: WorkerForget :execrows
-- Deletes old registrations that own nothing any more. By the leader, now and then.
DELETE FROM sched.worker AS w
WHERE w.state IN ('evicted', 'done')
    AND w.ended_at < now() - make_interval(secs => @keep_seconds::float8)
    AND w.id <> ALL (ARRAY(
        SELECT DISTINCT j.attempted_by[cardinality(j.attempted_by)]
        FROM sched.river_job AS j
        WHERE j.state = 'running' AND cardinality(j.attempted_by) > 0
    ));

-- name: ListenProof :exec
-- Sends a listener its own word back. At each start of listening.
SELECT pg_notify('sched.listening', @token::text);

-- name: QueueDiscover :many
-- Makes rows for queues that tasks were put in without one, and tells the sidecars
-- if there were any: a row then. By the leader, each second while tasks wait. With rows, since pgx plans a
-- statement without arguments or rows anew each time.
SELECT pg_notify('sched.config', 'queue')::text AS told
FROM (SELECT count(*) FROM sched.discover_queues() AS d WHERE d.added) AS found (queues)
WHERE found.queues > 0;
