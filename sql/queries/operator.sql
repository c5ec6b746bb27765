-- name: TaskList :many
-- Tasks, the newest first, page by page. An argument that is NULL does not
-- filter; bases stand for queues where the reader may not see which are derived
-- from them. By an operator; the other lists below as well.
--
-- These statements are planned for the arguments at hand: in a generic plan
-- every "IS NULL OR" would stay. The statuses are the text of an array, cast as
-- a whole: cast element by element they'd have no statistics, and the planner
-- would walk the primary key for the rarest of them. For frequent ones that is
-- the best there is.
SELECT row_to_json(page)::json AS task
FROM (
    SELECT t.*
    FROM sched.task AS t
    WHERE (sqlc.narg(statuses)::text IS NULL OR t.status = any(sqlc.narg(statuses)::text::sched.river_job_state[]))
        AND (sqlc.narg(kinds)::text[] IS NULL OR t.kind = any(sqlc.narg(kinds)::text[]))
        AND (sqlc.narg(queues)::text[] IS NULL OR t.queue = any(sqlc.narg(queues)::text[]))
        AND (sqlc.narg(bases)::text[] IS NULL OR split_part(t.queue, '|', 1) = any(sqlc.narg(bases)::text[]))
        AND (sqlc.narg(after_id)::bigint IS NULL OR t.id < sqlc.narg(after_id)::bigint)
    ORDER BY t.id DESC
    LIMIT @max::int
) AS page
ORDER BY page.id DESC;

-- name: TaskListByStart :many
-- Tasks that began between two times, the latest start first. Each status is
-- read from its own end of the index on status and start, a page of it at most:
-- the cost does not depend on how many there are.
SELECT row_to_json(page)::json AS task
FROM (
    SELECT began.*
    FROM unnest(sqlc.arg(statuses)::text::sched.river_job_state[]) AS s (status)
    CROSS JOIN LATERAL (
        SELECT t.*
        FROM sched.task AS t
        WHERE t.status = s.status
            AND t.start_time >= coalesce(sqlc.narg(since)::timestamptz, '-infinity')
            AND t.start_time < coalesce(sqlc.narg(until)::timestamptz, 'infinity')
            AND (
                sqlc.narg(after_id)::bigint IS NULL
                OR (t.start_time, t.id) < (sqlc.narg(after_start)::timestamptz, sqlc.narg(after_id)::bigint)
            )
            AND t.start_time <= coalesce(sqlc.narg(after_start)::timestamptz, 'infinity')
            AND (sqlc.narg(kinds)::text[] IS NULL OR t.kind = any(sqlc.narg(kinds)::text[]))
            AND (sqlc.narg(queues)::text[] IS NULL OR t.queue = any(sqlc.narg(queues)::text[]))
            AND (sqlc.narg(bases)::text[] IS NULL OR split_part(t.queue, '|', 1) = any(sqlc.narg(bases)::text[]))
            AND (sqlc.narg(batch)::text IS NULL OR t.batch = sqlc.narg(batch)::text)
            AND (sqlc.narg(worker_id)::text IS NULL OR t.worker_id = sqlc.narg(worker_id)::text)
        ORDER BY t.start_time DESC, t.id DESC
        LIMIT @max::int
    ) AS began
    ORDER BY began.start_time DESC, began.id DESC
    LIMIT @max::int
) AS page
ORDER BY page.start_time DESC, page.id DESC;

-- name: TaskListOfBatch :many
-- Tasks of a batch, the newest first. The order is by an expression so that no
-- plan walks the primary key in search of the batch: the cost is the batch's size.
SELECT row_to_json(page)::json AS task
FROM (
    SELECT t.*
    FROM sched.task AS t
    WHERE t.batch = @batch::text
        AND (sqlc.narg(statuses)::text IS NULL OR t.status = any(sqlc.narg(statuses)::text::sched.river_job_state[]))
        AND (sqlc.narg(kinds)::text[] IS NULL OR t.kind = any(sqlc.narg(kinds)::text[]))
        AND (sqlc.narg(queues)::text[] IS NULL OR t.queue = any(sqlc.narg(queues)::text[]))
        AND (sqlc.narg(bases)::text[] IS NULL OR split_part(t.queue, '|', 1) = any(sqlc.narg(bases)::text[]))
        AND (sqlc.narg(after_id)::bigint IS NULL OR t.id < sqlc.narg(after_id)::bigint)
    ORDER BY t.id + 0 DESC
    LIMIT @max::int
) AS page
ORDER BY page.id DESC;

-- name: TaskMatch :many
-- What a change of many tasks is about to touch, the oldest first. Decided once:
-- a task that comes to match later, because it failed again, is not met twice.
SELECT t.id, t.kind, t.status::text AS status
FROM sched.task AS t
WHERE t.status = any(sqlc.arg(statuses)::text::sched.river_job_state[])
    AND (sqlc.narg(kinds)::text[] IS NULL OR t.kind = any(sqlc.narg(kinds)::text[]))
    AND (sqlc.narg(queues)::text[] IS NULL OR t.queue = any(sqlc.narg(queues)::text[]))
    AND (sqlc.narg(batch)::text IS NULL OR t.batch = sqlc.narg(batch)::text)
    AND (sqlc.narg(since)::timestamptz IS NULL OR t.start_time >= sqlc.narg(since)::timestamptz)
    AND (sqlc.narg(until)::timestamptz IS NULL OR t.start_time < sqlc.narg(until)::timestamptz)
    AND (sqlc.narg(worker_id)::text IS NULL OR t.worker_id = sqlc.narg(worker_id)::text)
ORDER BY t.id + 0
LIMIT @max::int;

-- name: TaskWhole :one
-- One task with all that is known of it, and its latest attempts in order.
SELECT row_to_json(whole)::json AS task
FROM (
    SELECT t.*,
        (
            SELECT coalesce(json_agg(row_to_json(a) ORDER BY a.start_time), '[]')
            FROM (SELECT l.* FROM sched.attempt AS l WHERE l.task_id = t.id ORDER BY l.start_time DESC LIMIT @max_attempts::int) AS a
        ) AS attempts
    FROM sched.task AS t
    WHERE t.id = @id
) AS whole;

-- name: TaskExplain :many
-- Why a task waits, or what became of it, a statement a line.
SELECT sched.explain(@id::bigint)::text AS line;

-- name: TaskRetryMatched :many
-- Retries those of a few tasks that still have one of the statuses. Rows that
-- somebody else holds are left out, so that an app which is completing several
-- tasks in one transaction never waits in a circle with an operator. Archived
-- ones are brought back.
WITH held AS MATERIALIZED (
    SELECT j.id
    FROM sched.river_job AS j
    WHERE j.id = any(@ids::bigint[])
        AND j.state = any(sqlc.arg(statuses)::text::sched.river_job_state[])
    ORDER BY j.id
    FOR NO KEY UPDATE SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT h.id FROM held AS h
    UNION ALL
    SELECT a.id
    FROM sched.task_archive AS a
    WHERE a.id = any(@ids::bigint[])
        AND a.status = any(sqlc.arg(statuses)::text::sched.river_job_state[])
)

SELECT c.id, sched.retry(c.id)::text AS status
FROM chosen AS c;

-- name: TaskCancelMatched :many
-- Cancels those of a few tasks that still have one of the statuses. As TaskRetryMatched.
WITH held AS MATERIALIZED (
    SELECT j.id
    FROM sched.river_job AS j
    WHERE j.id = any(@ids::bigint[])
        AND j.state = any(sqlc.arg(statuses)::text::sched.river_job_state[])
    ORDER BY j.id
    FOR NO KEY UPDATE SKIP LOCKED
)

SELECT h.id, sched.cancel(h.id)::text AS status
FROM held AS h;

-- name: TaskEnqueueMany :one
-- Adds tasks, all or none, and says how many ids came back.
SELECT count(*)::bigint AS tasks FROM sched.enqueue_many(@tasks::jsonb) AS e;

-- name: TaskPressure :many
-- Queues at red that tasks would come to. Before each chunk of an intake.
SELECT p.queue::text AS queue, coalesce(p.reason, '')::text AS reason
FROM sched.pressure_of_tasks(@tasks::jsonb) AS p
WHERE p.level = 'red';

-- name: JSONCheck :one
-- Whether Postgres can hold a JSON text: it refuses some that JSON allows. To
-- find the line at fault.
SELECT (sqlc.arg(value)::text::jsonb IS NOT NULL)::boolean AS ok;

-- name: TimeZone :exec
-- Sets the zone in which the rest of the transaction writes times.
SELECT set_config('timezone', @zone::text, true);

-- name: Clock :one
-- The time by the clock that all others go by.
SELECT clock_timestamp()::timestamptz AS now;

-- name: WorkerList :many
-- Workers, the living first, then those that ended last; one of them if it is named.
-- Alive is who has not ended and has a heartbeat as recent as a living one has.
SELECT row_to_json(page)::json AS worker
FROM (
    SELECT w.*, w.ended_at IS NULL AND w.heartbeat_at > now() - interval '20 seconds' AS alive
    FROM sched.worker AS w
    WHERE (@ended::boolean OR w.ended_at IS NULL) AND (sqlc.narg(id)::text IS NULL OR w.id = sqlc.narg(id)::text)
    ORDER BY w.ended_at DESC NULLS FIRST, w.started_at DESC, w.id
    LIMIT @max::int
) AS page
ORDER BY page.ended_at DESC NULLS FIRST, page.started_at DESC, page.id;

-- name: WorkerBegan :one
-- When a worker registered: no task of it began before.
SELECT w.started_at FROM sched.worker AS w WHERE w.id = @id;

-- name: WorkerDrain :one
-- Asks a worker to take nothing more; its state after that.
SELECT sched.drain_worker(@id::text)::text AS state;

-- name: WorkerRunning :one
-- How many tasks a worker runs, as it last said.
SELECT w.running FROM sched.worker AS w WHERE w.id = @id;

-- name: QueueNames :many
-- The queues that a name stands for: the queue itself and those derived from it.
SELECT q.name
FROM sched.queue AS q
WHERE q.name = any(@names::text[]) OR q.base = any(@names::text[])
ORDER BY q.name;

-- name: QueueKnown :many
-- Which of the names are those of queues, or, unless exact, of queues that others are derived from.
SELECT wanted.name::text AS name
FROM unnest(@names::text[]) AS wanted (name)
WHERE EXISTS (SELECT 1 FROM sched.queue AS q WHERE q.name = wanted.name OR (NOT @exact::boolean AND q.base = wanted.name))
    OR EXISTS (
        SELECT 1 FROM sched.river_queue AS r
        WHERE r.name = wanted.name OR (NOT @exact::boolean AND split_part(r.name, '|', 1) = wanted.name)
    );

-- name: QueueList :many
-- Queues with what waits and runs in them. The cost is bounded: at most max_count
-- entries of the claim's index for each queue, and as many running tasks and as
-- many of those with a time; a count that reached its bound says so. By name; of the
-- worst first those that nobody serves, then as TopQueues, and after them paused ones.
WITH listed AS MATERIALIZED (
    SELECT coalesce(q.name, r.name) AS name,
        coalesce(q.base, split_part(r.name, '|', 1)) AS base,
        coalesce(q.selector, '{}') AS selector,
        coalesce(q.protocol, 'any') AS protocol,
        r.paused_at,
        q.strategy, q.admission, q.max_pending, q.max_running, q.rate, q.burst, q.pinned, q.unroutable, q.workers AS assigned,
        CASE WHEN f.led THEN q.pressure ELSE 'green' END AS pressure,
        CASE WHEN f.led THEN q.pressure_reason END AS pressure_reason
    FROM (SELECT coalesce(l.computed_at > clock_timestamp() - interval '5 seconds', false) AS led FROM sched.fleet AS l) AS f
    CROSS JOIN sched.queue AS q
    FULL JOIN sched.river_queue AS r ON r.name = q.name
    WHERE (
        sqlc.narg(names)::text[] IS NULL
        OR coalesce(q.name, r.name) = any(sqlc.narg(names)::text[])
        OR coalesce(q.base, split_part(r.name, '|', 1)) = any(sqlc.narg(names)::text[])
    )
        AND (sqlc.narg(after_name)::text IS NULL OR coalesce(q.name, r.name) > sqlc.narg(after_name)::text)
    ORDER BY
        CASE WHEN @worst_first::boolean THEN
            CASE
                WHEN q.unroutable IS NOT NULL THEN 0
                WHEN f.led AND q.pressure = 'red' THEN 1
                WHEN f.led AND q.pressure = 'yellow' THEN 2
                ELSE 3
            END
        END,
        CASE WHEN @worst_first::boolean THEN coalesce(q.pending, 0) END DESC,
        CASE WHEN @worst_first::boolean THEN r.paused_at END,
        coalesce(q.name, r.name)
    LIMIT @max::int
),

active AS MATERIALIZED (
    SELECT j.queue FROM sched.river_job AS j WHERE j.state = 'running' LIMIT @max_count::int
),

timed AS MATERIALIZED (
    SELECT j.queue, j.state
    FROM sched.river_job AS j
    WHERE j.state IN ('scheduled', 'retryable')
    ORDER BY j.scheduled_at, j.id
    LIMIT @max_count::int
),

grouped AS MATERIALIZED (
    SELECT g.queue, g.state, count(*) AS tasks
    FROM (SELECT a.queue, 'running' AS state FROM active AS a UNION ALL SELECT t.queue, t.state::text FROM timed AS t) AS g
    GROUP BY g.queue, g.state
),

living AS MATERIALIZED (
    SELECT w.labels, w.protocols, w.queues
    FROM sched.worker AS w
    WHERE w.state IN ('pending', 'active') AND w.heartbeat_at > now() - interval '20 seconds'
),

-- Materialized, since a column that is used twice would else be counted twice.
counted AS MATERIALIZED (
    SELECT l.name, l.base, l.selector, l.protocol, l.paused_at, l.strategy, l.admission, l.max_pending, l.max_running, l.rate, l.burst, l.pinned,
        l.assigned, l.pressure, l.pressure_reason, l.unroutable AS found_unroutable,
        (
            SELECT count(*)
            FROM (SELECT 1 FROM sched.river_job AS j WHERE j.state = 'available' AND j.queue = l.name LIMIT @max_count::int) AS a
        ) AS available,
        coalesce((SELECT g.tasks FROM grouped AS g WHERE g.queue = l.name AND g.state = 'running'), 0) AS running,
        coalesce((SELECT g.tasks FROM grouped AS g WHERE g.queue = l.name AND g.state = 'scheduled'), 0) AS scheduled,
        coalesce((SELECT g.tasks FROM grouped AS g WHERE g.queue = l.name AND g.state = 'retryable'), 0) AS retryable,
        -- The first of each priority: the index has them in the order they start.
        (
            SELECT min(f.scheduled_at)
            FROM generate_series(1, 4) AS p (priority)
            CROSS JOIN LATERAL (
                SELECT j.scheduled_at
                FROM sched.river_job AS j
                WHERE j.state = 'available' AND j.queue = l.name AND j.priority = p.priority
                ORDER BY j.scheduled_at, j.id
                LIMIT 1
            ) AS f
        ) AS oldest_available,
        (
            SELECT count(*)
            FROM living AS w
            WHERE w.labels @> l.selector
                AND (l.protocol = 'any' OR l.protocol = any(w.protocols))
                AND (w.queues IS NULL OR l.base = any(w.queues))
        ) AS workers
    FROM listed AS l
)

SELECT row_to_json(page)::json AS queue
FROM (
    SELECT c.name, c.base, c.selector, c.protocol, c.paused_at, c.strategy, c.admission, c.max_pending, c.max_running, c.rate, c.burst, c.pinned,
        c.assigned, c.pressure, c.pressure_reason, c.available, c.running, c.scheduled, c.retryable, c.oldest_available, c.workers,
        -- What the leader found; without one, what no living worker offers by itself.
        CASE WHEN c.workers = 0 THEN coalesce(c.found_unroutable, (
            SELECT string_agg(d.demand, ', ')
            FROM (
                SELECT e.key || '=' || e.value AS demand, jsonb_build_object(e.key, e.value) AS pair, 'any' AS protocol
                FROM jsonb_each_text(c.selector) AS e
                UNION ALL
                SELECT 'protocol ' || c.protocol, '{}', c.protocol WHERE c.protocol <> 'any'
            ) AS d
            WHERE EXISTS (SELECT 1 FROM living) AND NOT EXISTS (
                SELECT 1 FROM living AS w WHERE w.labels @> d.pair AND (d.protocol = 'any' OR d.protocol = any(w.protocols))
            )
        )) END AS unroutable,
        c.available >= @max_count::int AS available_is_more,
        (SELECT count(*) FROM active) >= @max_count::int AS running_is_more,
        (SELECT count(*) FROM timed) >= @max_count::int AS timed_is_more,
        CASE WHEN c.oldest_available IS NOT NULL THEN greatest(extract(EPOCH FROM now() - c.oldest_available), 0)::float8 END AS oldest_available_seconds
    FROM counted AS c
) AS page
ORDER BY page.name;

-- name: QueuePause :many
-- Pauses queues by name, with those derived from them unless exact, and tells
-- River's clients and the sidecars. A pause that is on stays as old as it is.
-- Lock order: river_queue by name.
WITH named AS MATERIALIZED (
    SELECT coalesce(q.name, r.name) AS name
    FROM sched.queue AS q
    FULL JOIN sched.river_queue AS r ON r.name = q.name
    WHERE @everything::boolean OR coalesce(q.name, r.name) = any(@names::text[])
        OR (NOT @exact::boolean AND coalesce(q.base, split_part(r.name, '|', 1)) = any(@names::text[]))
),

paused AS (
    INSERT INTO sched.river_queue AS r (name, paused_at, updated_at)
    SELECT n.name, now(), now() FROM named AS n ORDER BY n.name
    ON CONFLICT (name) DO UPDATE
    SET paused_at = coalesce(r.paused_at, excluded.paused_at),
        updated_at = CASE WHEN r.paused_at IS NULL THEN excluded.updated_at ELSE r.updated_at END
    RETURNING r.name, r.paused_at
)

SELECT p.name::text AS name,
    p.paused_at::timestamptz AS paused_at,
    (p.paused_at = now())::boolean AS changed,
    pg_notify('sched.river_control', json_build_object('action', 'pause', 'queue', p.name)::text)::text AS told
FROM paused AS p
ORDER BY p.name;

-- name: QueueResume :many
-- Ends the pause of queues. As QueuePause.
WITH named AS MATERIALIZED (
    SELECT r.name, r.paused_at
    FROM sched.river_queue AS r
    LEFT JOIN sched.queue AS q ON q.name = r.name
    WHERE @everything::boolean OR r.name = any(@names::text[])
        OR (NOT @exact::boolean AND coalesce(q.base, split_part(r.name, '|', 1)) = any(@names::text[]))
    ORDER BY r.name
    FOR NO KEY UPDATE OF r
),

resumed AS (
    UPDATE sched.river_queue AS r
    SET paused_at = NULL, updated_at = now()
    FROM named AS n
    WHERE r.name = n.name AND n.paused_at IS NOT NULL
    RETURNING r.name
)

SELECT n.name::text AS name,
    EXISTS (SELECT 1 FROM resumed AS d WHERE d.name = n.name)::boolean AS changed,
    pg_notify('sched.river_control', json_build_object('action', 'resume', 'queue', n.name)::text)::text AS told
FROM named AS n
ORDER BY n.name;

-- name: BatchList :many
-- Batches by name, a page of them: names one by one from the index, then each
-- counted. The cost is the number of tasks in the page's batches.
WITH RECURSIVE named AS (
    (
        SELECT t.batch FROM sched.task AS t
        WHERE t.batch IS NOT NULL AND t.batch > @after_name::text
        ORDER BY t.batch LIMIT 1
    )
    UNION ALL
    SELECT (SELECT t.batch FROM sched.task AS t WHERE t.batch IS NOT NULL AND t.batch > n.batch ORDER BY t.batch LIMIT 1)
    FROM named AS n
    WHERE n.batch IS NOT NULL
)

SELECT row_to_json(counted)::json AS batch
FROM (SELECT n.batch FROM named AS n WHERE n.batch IS NOT NULL LIMIT @max::int) AS page
-- The inner limit keeps each count on the index: joined, all batches would be counted.
CROSS JOIN LATERAL (SELECT b.* FROM sched.batch AS b WHERE b.batch = page.batch LIMIT 1) AS counted
ORDER BY page.batch;

-- name: BatchOne :one
-- The progress of one batch.
SELECT row_to_json(b)::json AS batch
FROM (SELECT c.* FROM sched.batch AS c WHERE c.batch = @name::text) AS b;

-- name: TopWorkers :many
-- What living workers last said of their load and their slots, those first that run
-- the most; and the latest decision about the slots of each. For people who watch:
-- up to max of them.
SELECT row_to_json(page)::json AS worker
FROM (
    SELECT w.id, w.hostname, w.app_url, w.state, w.health, w.holds, w.running, w.slots, w.ceiling, w.cpu, w.mem, w.load_percent,
        w.arrivals, w.forecast, w.demand, w.score, w.score_cpu, w.score_mem, w.score_pending, w.scale_out, w.elastic_reason,
        w.heartbeat_at, w.heartbeat_at > now() - interval '20 seconds' AS alive,
        d.reason AS slots_reason, d.at AS slots_at, d.from_value AS slots_from, d.to_value AS slots_to
    FROM sched.worker AS w
    LEFT JOIN LATERAL (
        SELECT l.reason, l.at, l.from_value, l.to_value
        FROM sched.decision AS l
        WHERE l.subject = w.id AND l.what IN ('slots', 'slots observed')
        ORDER BY l.at DESC
        LIMIT 1
    ) AS d ON true
    WHERE w.ended_at IS NULL
    ORDER BY w.running DESC, w.started_at, w.id
    LIMIT @max::int
) AS page
ORDER BY page.running DESC, page.id;

-- name: TopQueues :many
-- Queues as the leader found them last, those first that are under pressure, then
-- those in which most waits: up to max of them.
SELECT row_to_json(page)::json AS queue
FROM (
    SELECT q.name, q.pressure, q.pressure_reason, q.pending, q.load, q.workers, q.free_slots, q.paused_at, q.unroutable,
        coalesce(q.max_pending, (SELECT s.value::text::bigint FROM sched.setting AS s WHERE s.key = 'max_pending'), 1000) AS full_at
    FROM sched.queues AS q
    ORDER BY array_position(ARRAY['red', 'yellow'], q.pressure), q.pending DESC, q.name
    LIMIT @max::int
) AS page;

-- name: TopFleet :one
-- The fleet in one row: how many workers there are and should be, what runs, and
-- whether somebody leads.
SELECT row_to_json(f)::json AS fleet
FROM (
    SELECT now() AS at, d.desired_workers, d.reason, d.workers, d.draining, d.scale_out, d.demand, d.arrivals, d.forecast, d.running, d.slots,
        d.ceiling, coalesce(l.computed_at > clock_timestamp() - interval '5 seconds', false) AS led,
        CASE WHEN l.computed_at > clock_timestamp() - interval '5 seconds' THEN l.pressure ELSE 'green' END AS pressure
    FROM sched.fleet_demand AS d
    CROSS JOIN sched.fleet AS l
) AS f;
