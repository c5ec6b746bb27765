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
-- Bounds: of each status the latest limit tasks of the span, in the archive those of the worker, are read by the indexes on start; a
-- kind, and a worker of tasks that are not archived yet, is looked for among the latest 20,000. Of the 20,000 tasks that were claimed
-- more than once and ended last in the span or a day later all attempts of 500, and so of the 20,000 of each status that have not ended.
WITH task AS MATERIALIZED (
    SELECT t.*
    FROM unnest('{completed,cancelled,discarded,running,retryable,scheduled,available,pending}'::sched.river_job_state[]) AS s (status)
    CROSS JOIN LATERAL (
        SELECT l.id, l.kind, l.start_time
        FROM (
            (
                SELECT h.id, h.kind, h.worker_id, h.start_time
                FROM sched.task AS h
                WHERE NOT h.archived AND h.status = s.status AND h.start_time >= @since::timestamptz AND h.start_time < @until::timestamptz
                ORDER BY h.start_time DESC
                LIMIT CASE WHEN @kind::text IS NULL AND @worker::text IS NULL THEN @limit::integer ELSE 20000 END
            )
            UNION ALL
            (
                SELECT h.id, h.kind, h.worker_id, h.start_time
                FROM sched.task AS h
                WHERE h.archived AND h.status = s.status AND h.start_time >= @since::timestamptz AND h.start_time < @until::timestamptz
                    AND (@worker::text IS NULL OR h.worker_id = @worker::text)
                ORDER BY h.start_time DESC
                LIMIT CASE WHEN @kind::text IS NULL THEN @limit::integer ELSE 20000 END
            )
        ) AS l
        WHERE @worker::text IS NULL OR l.worker_id = @worker::text
    ) AS t
    WHERE (@status::text IS NULL OR s.status = @status::text::sched.river_job_state) AND (@kind::text IS NULL OR t.kind = @kind::text)
    ORDER BY t.start_time DESC
    LIMIT @limit::integer
), again AS MATERIALIZED (
    (
        SELECT e.id, e.kind, e.queue
        FROM (
            SELECT l.id, l.kind, l.queue, l.status, l.end_time
            FROM sched.task AS l
            WHERE l.claims > 1 AND l.status IN ('completed', 'cancelled', 'discarded')
                AND l.end_time >= @since::timestamptz AND l.end_time < @until::timestamptz + interval '1 day'
            ORDER BY l.end_time DESC
            LIMIT CASE WHEN @kind::text IS NULL AND @status::text IS NULL THEN 500 ELSE 20000 END
        ) AS e
        WHERE (@kind::text IS NULL OR e.kind = @kind::text) AND (@status::text IS NULL OR e.status = @status::text::sched.river_job_state)
        ORDER BY e.end_time DESC
        LIMIT 500
    )
    UNION ALL
    (
        SELECT e.id, e.kind, e.queue
        FROM unnest('{running,retryable,scheduled,available}'::sched.river_job_state[]) AS s (status)
        CROSS JOIN LATERAL (
            SELECT l.id, l.kind, l.queue, l.claims, l.start_time
            FROM sched.task AS l
            WHERE l.status = s.status AND l.start_time >= @since::timestamptz
            ORDER BY l.start_time DESC
            LIMIT 20000
        ) AS e
        WHERE e.claims > 1 AND (@kind::text IS NULL OR e.kind = @kind::text) AND (@status::text IS NULL OR s.status = @status::text::sched.river_job_state)
        ORDER BY e.start_time DESC
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
