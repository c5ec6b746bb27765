-- Which tasks ran more than once, and why?
--
-- Tasks that were claimed more than once and ended in a span of time, and those that began their latest attempt in it and have not
-- ended, with how their earlier attempts ended: retry (failed), rescued (the worker died), snooze (put off by the app), handback
-- (given back unspent), or the status that it had when somebody ran it again. The latest first.
--
-- Parameters:
--   since  time     24h    not before
--   until  time     now    before
--   kind   text     -      only of this kind
--   limit  integer  100    1 to 1000 tasks
--
-- Bounds: of the tasks that were claimed more than once, by the archive's index of them, limit; a kind is looked for among the 20,000
-- that ended last in the span. 20,000 of each status that have not ended. The attempts of at most limit tasks.
WITH task AS MATERIALIZED (
    (
        SELECT e.id, e.kind, e.queue, e.status, e.claims, e.start_time, e.end_time
        FROM (
            SELECT t.id, t.kind, t.queue, t.status, t.claims, t.start_time, t.end_time
            FROM sched.task AS t
            WHERE t.claims > 1 AND t.status IN ('completed', 'cancelled', 'discarded')
                AND t.end_time >= @since::timestamptz AND t.end_time < @until::timestamptz
            ORDER BY t.end_time DESC
            LIMIT CASE WHEN @kind::text IS NULL THEN @limit::integer ELSE 20000 END
        ) AS e
        WHERE @kind::text IS NULL OR e.kind = @kind::text
        ORDER BY e.end_time DESC
        LIMIT @limit::integer
    )
    UNION ALL
    (
        SELECT e.id, e.kind, e.queue, s.status, e.claims, e.start_time, e.end_time
        FROM unnest('{running,retryable,scheduled,available}'::sched.river_job_state[]) AS s (status)
        CROSS JOIN LATERAL (
            SELECT t.id, t.kind, t.queue, t.claims, t.start_time, t.end_time
            FROM sched.task AS t
            WHERE t.status = s.status AND t.start_time >= @since::timestamptz AND t.start_time < @until::timestamptz
            ORDER BY t.start_time DESC
            LIMIT 20000
        ) AS e
        WHERE e.claims > 1 AND (@kind::text IS NULL OR e.kind = @kind::text)
        ORDER BY e.start_time DESC
        LIMIT @limit::integer
    )
)
SELECT t.id AS task_id, t.kind, t.queue, t.status, t.claims, why.why, why.workers, why.last_error, coalesce(t.end_time, t.start_time) AS at
FROM (SELECT k.* FROM task AS k ORDER BY coalesce(k.end_time, k.start_time) DESC LIMIT @limit::integer) AS t
CROSS JOIN LATERAL (
    SELECT
        string_agg(o.outcome || ' ' || o.times, ', ' ORDER BY o.times DESC, o.outcome) AS why,
        max(o.workers) AS workers,
        (array_agg(o.last_error ORDER BY o.last_at DESC) FILTER (WHERE o.last_error IS NOT NULL))[1] AS last_error
    FROM (
        SELECT a.outcome, count(*) + sum(a.skipped) AS times, string_agg(DISTINCT a.worker_id, ', ') AS workers,
            (array_agg(a.error ORDER BY a.start_time DESC) FILTER (WHERE a.error IS NOT NULL))[1] AS last_error, max(a.start_time) AS last_at
        FROM sched.attempt AS a
        WHERE a.task_id = t.id AND a.start_time < t.start_time
        GROUP BY a.outcome
    ) AS o
) AS why
ORDER BY at DESC, task_id DESC
