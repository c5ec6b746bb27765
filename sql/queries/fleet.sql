-- name: FleetLock :exec
-- Keeps others from changing kinds, schedules and settings, and other applies out, to the end
-- of the transaction; enqueues go on. By sched apply, first of all.
LOCK TABLE sched.setting, sched.kind, sched.schedule IN SHARE ROW EXCLUSIVE MODE;

-- name: FleetSettings :many
-- All settings. By sched apply and export.
SELECT s.key, s.value, s.pinned, s.updated_by, s.updated_at
FROM sched.setting AS s
ORDER BY s.key;

-- name: FleetKinds :many
-- All kinds with what they set; durations in microseconds. By sched apply and export.
SELECT k.kind, k.pinned, k.updated_by, k.updated_at,
    jsonb_strip_nulls(jsonb_build_object(
        'description', k.description, 'queue', k.queue, 'selector', k.selector, 'protocol', k.protocol, 'priority', k.priority,
        'timeout', (extract(EPOCH FROM k.timeout) * 1000000)::bigint, 'max_attempts', k.max_attempts,
        'retry_base', (extract(EPOCH FROM k.retry_base) * 1000000)::bigint, 'retry_factor', k.retry_factor,
        'retry_cap', (extract(EPOCH FROM k.retry_cap) * 1000000)::bigint, 'retry_jitter', k.retry_jitter,
        'rate', k.rate, 'burst', k.burst
    )) AS values
FROM sched.kind AS k
ORDER BY k.kind;

-- name: FleetQueues :many
-- The queues that enqueue can name, with what they set. One that a River client has
-- named otherwise is not among them. What a queue always has counts as set when it is
-- not the default. By sched apply and export.
SELECT q.base, q.selector, q.protocol, q.pinned,
    jsonb_strip_nulls(jsonb_build_object(
        'description', q.description, 'strategy', nullif(q.strategy, 'least_loaded'), 'admission', nullif(q.admission, 'accept'),
        'max_pending', q.max_pending, 'max_running', q.max_running, 'rate', q.rate, 'burst', q.burst
    )) AS values
FROM sched.queue AS q
WHERE q.name = sched.queue_name(q.base, q.selector, q.protocol)
ORDER BY q.name;

-- name: FleetSettingPut :execrows
-- Sets a setting unless it is pinned.
INSERT INTO sched.setting AS s (key, value, description)
VALUES (@key::text, @value::jsonb, @description::text)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
WHERE NOT s.pinned;

-- name: FleetKindPut :execrows
-- Makes a kind, or all of its columns, what values says, unless it is pinned.
INSERT INTO sched.kind AS k (
    kind, description, queue, selector, protocol, priority, timeout, max_attempts, retry_base, retry_factor, retry_cap, retry_jitter,
    rate, burst
)
VALUES (
    @kind::text, @values::jsonb ->> 'description', @values::jsonb ->> 'queue', @values::jsonb -> 'selector', @values::jsonb ->> 'protocol',
    (@values::jsonb ->> 'priority')::smallint, (@values::jsonb ->> 'timeout')::bigint * interval '1 microsecond',
    (@values::jsonb ->> 'max_attempts')::integer, (@values::jsonb ->> 'retry_base')::bigint * interval '1 microsecond',
    (@values::jsonb ->> 'retry_factor')::real, (@values::jsonb ->> 'retry_cap')::bigint * interval '1 microsecond',
    (@values::jsonb ->> 'retry_jitter')::real, (@values::jsonb ->> 'rate')::real, (@values::jsonb ->> 'burst')::integer
)
ON CONFLICT (kind) DO UPDATE SET
    description = excluded.description,
    queue = excluded.queue,
    selector = excluded.selector,
    protocol = excluded.protocol,
    priority = excluded.priority,
    timeout = excluded.timeout,
    max_attempts = excluded.max_attempts,
    retry_base = excluded.retry_base,
    retry_factor = excluded.retry_factor,
    retry_cap = excluded.retry_cap,
    retry_jitter = excluded.retry_jitter,
    rate = excluded.rate,
    burst = excluded.burst
WHERE NOT k.pinned;

-- name: FleetKindRemove :execrows
-- Removes a kind unless it is pinned.
DELETE FROM sched.kind AS k
WHERE k.kind = @kind::text AND NOT k.pinned;

-- name: FleetQueueAdd :one
-- Makes the row of a queue. False: an open transaction is making it, too.
SELECT sched.add_queue(
    sched.queue_name(@base::text, @selector::jsonb, @protocol::text), @base::text, @selector::jsonb, @protocol::text
)::boolean AS added;

-- name: FleetQueuePut :execrows
-- Makes what is configured of a queue what values says, unless it is pinned.
UPDATE sched.queue AS q
SET
    description = @values::jsonb ->> 'description',
    strategy = coalesce(@values::jsonb ->> 'strategy', 'least_loaded'),
    admission = coalesce(@values::jsonb ->> 'admission', 'accept'),
    max_pending = (@values::jsonb ->> 'max_pending')::integer,
    max_running = (@values::jsonb ->> 'max_running')::integer,
    rate = (@values::jsonb ->> 'rate')::real,
    burst = (@values::jsonb ->> 'burst')::integer
WHERE q.name = sched.queue_name(@base::text, @selector::jsonb, @protocol::text) AND NOT q.pinned;

-- name: FleetSchedules :many
-- All schedules with what they set; durations in microseconds. What a schedule
-- always has counts as set when it is not the default. By sched apply and export.
SELECT s.name, s.pinned, s.updated_by, s.updated_at,
    (jsonb_strip_nulls(jsonb_build_object(
        'cron', s.cron, 'kind', s.kind, 'timezone', nullif(s.timezone, 'UTC'), 'description', s.description, 'queue', s.queue,
        'selector', s.selector, 'protocol', s.protocol, 'priority', s.priority,
        'timeout', (extract(EPOCH FROM s.timeout) * 1000000)::bigint, 'max_attempts', s.max_attempts,
        'overlap', nullif(s.overlap, true), 'paused', nullif(s.paused, false)
    )) || CASE WHEN s.args = '{}' THEN '{}' ELSE jsonb_build_object('args', s.args) END)::jsonb AS values
FROM sched.schedule AS s
ORDER BY s.name;

-- name: FleetSchedulePut :execrows
-- Makes a schedule, or all of its columns, what values says, unless it is pinned.
INSERT INTO sched.schedule AS s (
    name, cron, kind, timezone, description, args, queue, selector, protocol, priority, timeout, max_attempts, overlap, paused
)
VALUES (
    @name::text, @values::jsonb ->> 'cron', @values::jsonb ->> 'kind', coalesce(@values::jsonb ->> 'timezone', 'UTC'),
    @values::jsonb ->> 'description', coalesce(@values::jsonb -> 'args', '{}'), @values::jsonb ->> 'queue', @values::jsonb -> 'selector',
    @values::jsonb ->> 'protocol', (@values::jsonb ->> 'priority')::smallint,
    (@values::jsonb ->> 'timeout')::bigint * interval '1 microsecond', (@values::jsonb ->> 'max_attempts')::integer,
    coalesce((@values::jsonb ->> 'overlap')::boolean, true), coalesce((@values::jsonb ->> 'paused')::boolean, false)
)
ON CONFLICT (name) DO UPDATE SET
    cron = excluded.cron,
    kind = excluded.kind,
    timezone = excluded.timezone,
    description = excluded.description,
    args = excluded.args,
    queue = excluded.queue,
    selector = excluded.selector,
    protocol = excluded.protocol,
    priority = excluded.priority,
    timeout = excluded.timeout,
    max_attempts = excluded.max_attempts,
    overlap = excluded.overlap,
    paused = excluded.paused
WHERE NOT s.pinned;

-- name: FleetScheduleRemove :execrows
-- Removes a schedule unless it is pinned.
DELETE FROM sched.schedule AS s
WHERE s.name = @name::text AND NOT s.pinned;
