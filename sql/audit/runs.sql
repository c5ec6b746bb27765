-- What ran when, on which worker?
--
-- Each attempt that began in a span of time, the latest first.
--
-- Parameters:
--   since   time     1h     not before
--   until   time     now    before
--   worker  text     -      only on this worker
--   kind    text     -      only of this kind
--   status  text     -      only of tasks that are completed, cancelled, discarded, running, retryable …
--   limit   integer  100    1 to 10000 rows
--
-- Bounds: of each status the latest limit tasks of the span are read, by the index on status and start; all attempts of the latest 500
-- tasks that were claimed more than once and ended in the span or a day later, and of 500 such that have not ended.
WITH task AS MATERIALIZED (
    SELECT t.*
    FROM unnest('{completed,cancelled,discarded,running,retryable,scheduled,available,pending}'::sched.river_job_state[]) AS s (status)
    CROSS JOIN LATERAL (
        SELECT l.id, l.start_time
        FROM sched.task AS l
        WHERE l.status = s.status AND l.start_time >= @since::timestamptz AND l.start_time < @until::timestamptz
            AND (@worker::text IS NULL OR l.worker_id = @worker::text)
            AND (@kind::text IS NULL OR l.kind = @kind::text)
            AND (@status::text IS NULL OR l.status = @status::text::sched.river_job_state)
        ORDER BY l.start_time DESC
        LIMIT @limit::integer
    ) AS t
    ORDER BY t.start_time DESC
    LIMIT @limit::integer
), again AS MATERIALIZED (
    (
        SELECT l.id, l.kind, l.queue
        FROM sched.task AS l
        WHERE l.claims > 1 AND l.status IN ('completed', 'cancelled', 'discarded')
            AND l.end_time >= @since::timestamptz AND l.end_time < @until::timestamptz + interval '1 day'
            AND (@kind::text IS NULL OR l.kind = @kind::text)
            AND (@status::text IS NULL OR l.status = @status::text::sched.river_job_state)
        ORDER BY l.end_time DESC
        LIMIT 500
    )
    UNION ALL
    (
        SELECT l.id, l.kind, l.queue
        FROM sched.task AS l
        WHERE l.claims > 1 AND l.status IN ('running', 'retryable', 'scheduled', 'available') AND l.start_time >= @since::timestamptz
            AND (@kind::text IS NULL OR l.kind = @kind::text)
            AND (@status::text IS NULL OR l.status = @status::text::sched.river_job_state)
        ORDER BY l.start_time DESC
        LIMIT 500
    )
)
SELECT a.start_time, a.end_time, a.id AS task_id, a.kind, a.queue, a.attempt, a.worker_id, a.host, coalesce(a.outcome, 'running') AS outcome, a.error
FROM (
    SELECT l.id, l.kind, l.queue, l.start_time, l.end_time, l.attempt, l.worker_id, l.host, l.status::text AS outcome, l.error
    FROM sched.task AS l
    WHERE l.id = ANY (ARRAY(SELECT t.id FROM task AS t WHERE t.id NOT IN (SELECT g.id FROM again AS g)))
    UNION ALL
    SELECT g.id, g.kind, g.queue, l.start_time, l.end_time, l.attempt, l.worker_id, l.host, l.outcome, l.error
    FROM again AS g CROSS JOIN LATERAL (SELECT o.* FROM sched.attempt AS o WHERE o.task_id = g.id OFFSET 0) AS l -- OFFSET 0: task by task
    WHERE l.start_time >= @since::timestamptz AND l.start_time < @until::timestamptz AND (@worker::text IS NULL OR l.worker_id = @worker::text)
) AS a
ORDER BY a.start_time DESC, a.id DESC
LIMIT @limit::integer
