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
-- Bounds: the archive's index of tasks that were claimed more than once; the attempts of at most limit tasks.
WITH task AS MATERIALIZED (
    (
        SELECT t.id, t.kind, t.queue, t.status, t.claims, t.start_time, t.end_time
        FROM sched.task AS t
        WHERE t.claims > 1 AND t.status IN ('completed', 'cancelled', 'discarded')
            AND t.end_time >= @since::timestamptz AND t.end_time < @until::timestamptz
            AND (@kind::text IS NULL OR t.kind = @kind::text)
        ORDER BY t.end_time DESC
        LIMIT @limit::integer
    )
    UNION ALL
    (
        SELECT t.id, t.kind, t.queue, t.status, t.claims, t.start_time, t.end_time
        FROM sched.task AS t
        WHERE t.claims > 1 AND t.status IN ('running', 'retryable', 'scheduled', 'available')
            AND t.start_time >= @since::timestamptz AND t.start_time < @until::timestamptz
            AND (@kind::text IS NULL OR t.kind = @kind::text)
        ORDER BY t.start_time DESC
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
