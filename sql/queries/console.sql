-- name: ConsoleSample :one
-- What the console's charts and figures show, in one row. Each second while
-- somebody looks. The ids given out so far tell what was enqueued, rolled back or
-- not; what ended is counted over the time since the sample before, a second late so
-- that commits are not missed, and up to max_count; waits are those of the latest
-- max_starts attempts of each status, in the last ten seconds. -1: nobody measured it.
WITH living AS (
    SELECT w.running, w.slots, w.ceiling, w.demand, w.arrivals, w.forecast, w.load_percent
    FROM sched.worker AS w
    WHERE w.ended_at IS NULL AND w.heartbeat_at > statement_timestamp() - interval '20 seconds'
),

total AS (
    SELECT count(*)::integer AS workers,
        coalesce(sum(l.running), 0)::integer AS running,
        coalesce(sum(l.slots), 0)::integer AS slots,
        coalesce(sum(l.ceiling), 0)::integer AS ceiling,
        sum(l.demand)::float8 AS demand,
        sum(l.arrivals)::float8 AS arrivals,
        sum(l.forecast)::float8 AS forecast
    FROM living AS l
),

started AS (
    SELECT extract(EPOCH FROM r.attempted_at - r.scheduled_at)::float8 AS wait
    FROM unnest('{running,completed,discarded}'::sched.river_job_state[]) AS s (state)
    CROSS JOIN LATERAL (
        SELECT j.attempted_at, j.scheduled_at, j.attempt
        FROM sched.river_job AS j
        WHERE j.state = s.state AND j.attempted_at > statement_timestamp() - interval '10 seconds'
        ORDER BY j.attempted_at DESC
        LIMIT @max_starts::int
    ) AS r
    WHERE r.attempted_at >= r.scheduled_at
),

waits AS (
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY s.wait) AS p50, percentile_cont(0.95) WITHIN GROUP (ORDER BY s.wait) AS p95 FROM started AS s
)

SELECT statement_timestamp()::timestamptz AS at,
    coalesce(pg_sequence_last_value('sched.river_job_id_seq'), 0)::bigint AS last_id,
    (
        SELECT count(*)
        FROM unnest('{completed,cancelled,discarded}'::sched.river_job_state[]) AS s (state)
        CROSS JOIN LATERAL (
            SELECT 1
            FROM sched.river_job AS j
            WHERE j.state = s.state
                AND j.finalized_at > sqlc.arg(since)::timestamptz - interval '1 second'
                AND j.finalized_at <= statement_timestamp() - interval '1 second'
            LIMIT @max_count::int
        ) AS e
    )::bigint AS ended,
    l.workers, l.running, l.slots, l.ceiling, coalesce(l.demand, -1)::float8 AS demand,
    coalesce(l.arrivals, -1)::float8 AS arrivals,
    coalesce(l.forecast, -1)::float8 AS forecast,
    coalesce(waits.p50, -1)::float8 AS wait_p50,
    coalesce(waits.p95, -1)::float8 AS wait_p95,
    d.pending,
    coalesce(d.computed_at > statement_timestamp() - interval '5 seconds', false)::boolean AS led,
    coalesce(d.leader, '')::text AS leader,
    d.pressure,
    coalesce(d.pressure_reason, '')::text AS pressure_reason,
    d.load::float8 AS load,
    (SELECT s.value::text::integer FROM sched.setting AS s WHERE s.key = 'max_pending') AS max_pending
FROM total AS l
CROSS JOIN waits
CROSS JOIN sched.fleet AS d;

-- name: ConsoleTasks :many
-- Tasks, the newest first, from below an id. Only max_look tasks are looked at, so
-- that a kind which few tasks have costs no more than one which all have. The row
-- whose looked is not 0 is the last that was looked at, whatever it is, and says how
-- many were.
WITH seen AS (
    SELECT t.id, t.kind, t.queue, t.status, t.start_time, t.end_time, t.worker_id, t.attempt, t.max_attempts, t.priority, t.run_at, t.created_at, t.error
    FROM sched.task AS t
    WHERE t.id < @before::bigint
    ORDER BY t.id DESC
    LIMIT @max_look::int
)

SELECT row_to_json(p)::json AS task
FROM (
    (
        SELECT l.*, 0::bigint AS looked
        FROM seen AS l
        WHERE (@kind::text = '' OR l.kind = @kind::text) AND (@queue::text = '' OR l.queue = @queue::text)
            AND (@worker::text = '' OR l.worker_id = @worker::text)
        ORDER BY l.id DESC
        LIMIT @max::int
    )
    UNION ALL
    (SELECT l.*, (SELECT count(*) FROM seen) AS looked FROM seen AS l ORDER BY l.id LIMIT 1)
) AS p
ORDER BY p.id DESC, p.looked;

-- name: ConsoleTasksOfStatus :many
-- Tasks of a status, in the order of the index that has them: those that ended, the
-- latest end first; running ones, the latest start first; those with a time, the
-- soonest first; available ones as they would start, in a queue, or else in each of
-- the queues that are known. At most max_look of them are looked at.
WITH looked AS (
    (
        SELECT t.*
        FROM sched.task AS t
        WHERE t.status = sqlc.arg(status)::text::sched.river_job_state AND t.end_time IS NOT NULL
            AND sqlc.arg(status)::text IN ('completed', 'cancelled', 'discarded')
        ORDER BY t.end_time DESC
        LIMIT @max_look::int
    )
    UNION ALL
    (
        SELECT t.*
        FROM sched.task AS t
        WHERE t.status = sqlc.arg(status)::text::sched.river_job_state AND sqlc.arg(status)::text IN ('running', 'pending')
        ORDER BY t.start_time DESC
        LIMIT @max_look::int
    )
    UNION ALL
    (
        SELECT t.*
        FROM sched.task AS t
        WHERE t.status IN ('retryable', 'scheduled') AND t.status = sqlc.arg(status)::text::sched.river_job_state
            AND sqlc.arg(status)::text IN ('retryable', 'scheduled')
        ORDER BY t.run_at, t.id
        LIMIT @max_look::int
    )
    UNION ALL
    (
        SELECT a.*
        FROM sched.queue AS q
        CROSS JOIN generate_series(1, 4) AS p (priority)
        CROSS JOIN LATERAL (
            SELECT t.*
            FROM sched.task AS t
            WHERE t.status = 'available' AND t.queue = q.name AND t.priority = p.priority
            ORDER BY t.run_at, t.id
            LIMIT @max::int
        ) AS a
        WHERE sqlc.arg(status)::text = 'available' AND (@queue::text = '' OR q.name = @queue::text)
        LIMIT @max_look::int
    )
)

SELECT row_to_json(p)::json AS task
FROM (
    SELECT l.id, l.kind, l.queue, l.status, l.start_time, l.end_time, l.worker_id, l.attempt, l.max_attempts, l.priority, l.run_at, l.created_at, l.error
    FROM looked AS l
    WHERE (@kind::text = '' OR l.kind = @kind::text) AND (@queue::text = '' OR l.queue = @queue::text)
        AND (@worker::text = '' OR l.worker_id = @worker::text)
    LIMIT @max::int
) AS p;

-- name: ConsoleTasksOfBatch :many
-- Tasks of a batch, the newest first of the first max_look that its index has.
WITH looked AS (
    SELECT t.*
    FROM sched.task AS t
    WHERE t.batch = @batch::text
    LIMIT @max_look::int
)

SELECT row_to_json(p)::json AS task
FROM (
    SELECT l.id, l.kind, l.queue, l.status, l.start_time, l.end_time, l.worker_id, l.attempt, l.max_attempts, l.priority, l.run_at, l.created_at, l.error
    FROM looked AS l
    WHERE (sqlc.arg(status)::text = '' OR l.status::text = sqlc.arg(status)::text)
        AND (@kind::text = '' OR l.kind = @kind::text) AND (@queue::text = '' OR l.queue = @queue::text)
        AND (@worker::text = '' OR l.worker_id = @worker::text)
    ORDER BY l.id DESC
    LIMIT @max::int
) AS p;

-- name: ConsoleDecisions :many
-- Decisions below an id, the latest first; of one subject if it is named.
SELECT d.id, d.at, d.what, d.subject, d.who, coalesce(d.from_value, '')::text AS from_value, coalesce(d.to_value, '')::text AS to_value,
    d.reason, d.signals::text AS signals
FROM sched.decisions AS d
WHERE (@before::bigint = 0 OR d.id < @before::bigint) AND (@subject::text = '' OR d.subject = @subject::text) AND (@what::text = '' OR d.what = @what::text)
ORDER BY d.at DESC, d.id DESC
LIMIT @max::int;

-- name: ConsoleActions :many
-- Interventions below an id, the latest first; of one object if it is named.
SELECT a.id, a.at, a.action, a.object_type, a.object, coalesce(a.before, '{}')::text AS before, coalesce(a.after, '{}')::text AS after,
    a.db_user, a.application_name
FROM sched.operator_actions AS a
WHERE (@before_id::bigint = 0 OR a.id < @before_id::bigint)
    AND (@object::text = '' OR a.object = @object::text) AND (@object_type::text = '' OR a.object_type = @object_type::text)
ORDER BY a.at DESC, a.id DESC
LIMIT @max::int;

-- name: ConsoleAssignmentCounts :many
-- How many queues each worker is assigned to, and the heaviest of them.
SELECT a.worker_id, count(*)::integer AS queues, ((array_agg(a.queue ORDER BY a.weight DESC, a.queue))[1:3])::text[] AS heaviest
FROM sched.assignment AS a
WHERE a.worker_id = any(@workers::text[])
GROUP BY a.worker_id;

-- name: ConsoleWorker :many
-- One worker, if it is there. As WorkerList.
SELECT row_to_json(page)::json AS worker
FROM (
    SELECT w.*, w.ended_at IS NULL AND w.heartbeat_at > now() - interval '20 seconds' AS alive
    FROM sched.worker AS w
    WHERE w.id = @id
) AS page;
