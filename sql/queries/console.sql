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

-- The lists below look at max_look tasks, or records, at most, in the order of an index, so
-- that a filter which few of them pass costs no more than one which all pass. The row whose
-- looked is not 0 is the last that was looked at, whatever it is, and says how many were:
-- the next page begins there, or after the last one shown.

-- name: ConsoleTasks :many
-- Tasks, the newest first, from below an id.
WITH seen AS (
    SELECT n.*, row_number() OVER () AS nth
    FROM (
        SELECT t.id, t.kind, t.queue, t.status, t.start_time, t.end_time, t.worker_id, t.attempt, t.max_attempts, t.priority, t.run_at, t.created_at, t.error
        FROM sched.task AS t
        WHERE t.id < @before::bigint
        ORDER BY t.id DESC
        LIMIT @max_look::int
    ) AS n
)

SELECT row_to_json(p)::json AS task
FROM (
    (
        SELECT l.*, 0::bigint AS looked
        FROM seen AS l
        WHERE (@kind::text = '' OR l.kind = @kind::text) AND (@queue::text = '' OR l.queue = @queue::text)
            AND (@worker::text = '' OR l.worker_id = @worker::text)
        ORDER BY l.nth
        LIMIT @max::int
    )
    UNION ALL
    (SELECT l.*, l.nth AS looked FROM seen AS l ORDER BY l.nth DESC LIMIT 1)
) AS p
ORDER BY p.looked, p.nth;

-- name: ConsoleTasksOfStatus :many
-- Tasks of a status, in the order of the index that has them, from a time and an id on:
-- those that ended, the latest end first; running ones, the latest start first; those with
-- a time, the soonest first. The two statuses with a time have one index together: both
-- are looked at.
WITH seen AS (
    SELECT n.*, row_number() OVER () AS nth
    FROM (
        (
            SELECT t.id, t.kind, t.queue, t.status, t.start_time, t.end_time, t.worker_id, t.attempt, t.max_attempts, t.priority, t.run_at, t.created_at, t.error
            FROM sched.task AS t
            WHERE t.status = sqlc.arg(status)::text::sched.river_job_state AND t.end_time IS NOT NULL
                AND sqlc.arg(status)::text IN ('completed', 'cancelled', 'discarded')
                AND t.end_time <= @from_at::timestamptz AND (t.end_time, t.id) < (@from_at::timestamptz, @from_id::bigint)
            ORDER BY t.end_time DESC, t.id DESC
            LIMIT @max_look::int
        )
        UNION ALL
        (
            SELECT t.id, t.kind, t.queue, t.status, t.start_time, t.end_time, t.worker_id, t.attempt, t.max_attempts, t.priority, t.run_at, t.created_at, t.error
            FROM sched.task AS t
            WHERE t.status = sqlc.arg(status)::text::sched.river_job_state AND sqlc.arg(status)::text = 'running'
                AND t.start_time <= @from_at::timestamptz AND (t.start_time, t.id) < (@from_at::timestamptz, @from_id::bigint)
            ORDER BY t.start_time DESC, t.id DESC
            LIMIT @max_look::int
        )
        UNION ALL
        (
            SELECT t.id, t.kind, t.queue, t.status, t.start_time, t.end_time, t.worker_id, t.attempt, t.max_attempts, t.priority, t.run_at, t.created_at, t.error
            FROM sched.task AS t
            WHERE t.status IN ('retryable', 'scheduled') AND sqlc.arg(status)::text IN ('retryable', 'scheduled')
                AND t.run_at >= @from_at::timestamptz AND (t.run_at, t.id) > (@from_at::timestamptz, @from_id::bigint)
            ORDER BY t.run_at, t.id
            LIMIT @max_look::int
        )
    ) AS n
)

SELECT row_to_json(p)::json AS task
FROM (
    (
        SELECT l.*, 0::bigint AS looked
        FROM seen AS l
        WHERE l.status::text = sqlc.arg(status)::text
            AND (@kind::text = '' OR l.kind = @kind::text) AND (@queue::text = '' OR l.queue = @queue::text)
            AND (@worker::text = '' OR l.worker_id = @worker::text)
        ORDER BY l.nth
        LIMIT @max::int
    )
    UNION ALL
    (SELECT l.*, l.nth AS looked FROM seen AS l ORDER BY l.nth DESC LIMIT 1)
) AS p
ORDER BY p.looked, p.nth;

-- name: ConsoleTasksAvailable :many
-- Available tasks, in each queue as they would start, from a place in the claim's index on.
-- The table itself is read: the view's priority is not the index's.
WITH seen AS (
    SELECT n.*, row_number() OVER () AS nth
    FROM (
        SELECT j.id, j.kind, j.queue, j.state AS status, j.attempted_at AS start_time, j.finalized_at AS end_time,
            j.attempted_by[cardinality(j.attempted_by)] AS worker_id, j.attempt, j.max_attempts, j.priority, j.scheduled_at AS run_at, j.created_at,
            j.errors[cardinality(j.errors)] ->> 'error' AS error
        FROM sched.river_job AS j
        WHERE j.state = 'available' AND (@queue::text = '' OR j.queue = @queue::text)
            AND (j.queue, j.priority, j.scheduled_at, j.id)
                > (@from_queue::text, @from_priority::smallint, @from_at::timestamptz, @from_id::bigint)
        ORDER BY j.queue, j.priority, j.scheduled_at, j.id
        LIMIT @max_look::int
    ) AS n
)

SELECT row_to_json(p)::json AS task
FROM (
    (
        SELECT l.*, 0::bigint AS looked
        FROM seen AS l
        WHERE (@kind::text = '' OR l.kind = @kind::text) AND (@worker::text = '' OR l.worker_id = @worker::text)
        ORDER BY l.nth
        LIMIT @max::int
    )
    UNION ALL
    (SELECT l.*, l.nth AS looked FROM seen AS l ORDER BY l.nth DESC LIMIT 1)
) AS p
ORDER BY p.looked, p.nth;

-- name: ConsoleTasksOfBatch :many
-- Tasks of a batch or, without one, pending ones, the newest first, from below an id. Their
-- indexes have no order: of more than max_look the first are looked at, and no others.
WITH seen AS (
    SELECT t.id, t.kind, t.queue, t.status, t.start_time, t.end_time, t.worker_id, t.attempt, t.max_attempts, t.priority, t.run_at, t.created_at, t.error
    FROM sched.task AS t
    WHERE (@batch::text = '' OR t.batch = @batch::text) AND (@batch::text <> '' OR t.status = 'pending')
    LIMIT @max_look::int
)

SELECT row_to_json(p)::json AS task
FROM (
    (
        SELECT l.*, 0::bigint AS looked
        FROM seen AS l
        WHERE l.id < @before::bigint AND (sqlc.arg(status)::text = '' OR l.status::text = sqlc.arg(status)::text)
            AND (@kind::text = '' OR l.kind = @kind::text) AND (@queue::text = '' OR l.queue = @queue::text)
            AND (@worker::text = '' OR l.worker_id = @worker::text)
        ORDER BY l.id DESC
        LIMIT @max::int
    )
    UNION ALL
    (SELECT l.*, (SELECT count(*) FROM seen) AS looked FROM seen AS l ORDER BY l.id LIMIT 1)
) AS p
ORDER BY p.looked, p.id DESC;

-- name: ConsoleDecisions :many
-- Decisions before a time and an id, the latest first; of one subject if it is named, by an
-- index. Of which kind they are is looked for among max_look of them.
WITH seen AS (
    SELECT n.*, row_number() OVER () AS nth
    FROM (
        SELECT d.id, d.at, d.what, d.subject, d.who, coalesce(d.from_value, '') AS from_value, coalesce(d.to_value, '') AS to_value, d.reason, d.signals
        FROM sched.decisions AS d
        WHERE d.at <= @before_at::timestamptz AND (d.at, d.id) < (@before_at::timestamptz, @before_id::bigint)
            AND (@subject::text = '' OR d.subject = @subject::text)
        ORDER BY d.at DESC, d.id DESC
        LIMIT @max_look::int
    ) AS n
)

SELECT p.id, p.at, p.what, p.subject, p.who, p.from_value::text AS from_value, p.to_value::text AS to_value, p.reason, p.signals::text AS signals,
    p.looked::bigint AS looked
FROM (
    (
        SELECT l.*, 0::bigint AS looked
        FROM seen AS l
        WHERE @what::text = '' OR l.what = @what::text
        ORDER BY l.nth
        LIMIT @max::int
    )
    UNION ALL
    (SELECT l.*, l.nth AS looked FROM seen AS l ORDER BY l.nth DESC LIMIT 1)
) AS p
ORDER BY p.looked, p.nth;

-- name: ConsoleActions :many
-- Interventions before a time and an id, the latest first; of one object if it is named, by
-- an index. Of which type it is is looked for among max_look of them.
WITH seen AS (
    SELECT n.*, row_number() OVER () AS nth
    FROM (
        SELECT a.id, a.at, a.action, a.object_type, a.object, coalesce(a.before, '{}') AS before, coalesce(a.after, '{}') AS after,
            a.db_user, a.application_name
        FROM sched.operator_actions AS a
        WHERE a.at <= @before_at::timestamptz AND (a.at, a.id) < (@before_at::timestamptz, @before_id::bigint)
            AND (@object::text = '' OR a.object = @object::text)
        ORDER BY a.at DESC, a.id DESC
        LIMIT @max_look::int
    ) AS n
)

SELECT p.id, p.at, p.action, p.object_type, p.object, p.before::text AS before, p.after::text AS after, p.db_user, p.application_name,
    p.looked::bigint AS looked
FROM (
    (
        SELECT l.*, 0::bigint AS looked
        FROM seen AS l
        WHERE @object_type::text = '' OR l.object_type = @object_type::text
        ORDER BY l.nth
        LIMIT @max::int
    )
    UNION ALL
    (SELECT l.*, l.nth AS looked FROM seen AS l ORDER BY l.nth DESC LIMIT 1)
) AS p
ORDER BY p.looked, p.nth;

-- name: ConsoleAssignmentCounts :many
-- How many queues each worker is assigned to, and the heaviest of them.
SELECT a.worker_id, count(*)::integer AS queues, ((array_agg(a.queue ORDER BY a.weight DESC, a.queue))[1:3])::text[] AS heaviest
FROM sched.assignment AS a
WHERE a.worker_id = any(@workers::text[])
GROUP BY a.worker_id;
