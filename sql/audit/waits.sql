-- Which tasks waited longest?
--
-- How long tasks waited from the time they might run until their latest attempt began, the longest first: those that ended in a
-- span of time, and those that wait now.
--
-- Parameters:
--   since  time     24h    ended not before
--   until  time     now    ended before
--   queue  text     -      only of this queue
--   kind   text     -      only of this kind
--   limit  integer  50     1 to 1000 rows
--
-- Bounds: the 100,000 tasks that ended last in the span; 10,000 of those that wait, in that queue if it is given. What narrows is
-- looked for among them.
SELECT w.waited, w.task_id, w.kind, w.queue, w.priority, w.status, w.due_at, w.start_time, w.worker_id
FROM (
    SELECT f.start_time - f.due_at AS waited, f.*
    FROM (
        SELECT t.id AS task_id, t.kind, t.queue, t.priority, t.status, greatest(t.run_at, t.created_at) AS due_at, t.start_time, t.worker_id
        FROM sched.task AS t
        WHERE t.status IN ('completed', 'cancelled', 'discarded')
            AND t.end_time >= @since::timestamptz AND t.end_time < @until::timestamptz
        ORDER BY t.end_time DESC
        LIMIT 100000
    ) AS f
    UNION ALL
    SELECT now() - a.due_at, a.*
    FROM (
        SELECT t.id, t.kind, t.queue, t.priority, t.status, t.run_at AS due_at, NULL::timestamptz, NULL::text
        FROM sched.task AS t
        WHERE t.status = 'available' AND t.run_at <= now()
            AND (@queue::text IS NULL OR t.queue = @queue::text)
        LIMIT 10000
    ) AS a
) AS w
WHERE w.waited IS NOT NULL AND (@queue::text IS NULL OR w.queue = @queue::text) AND (@kind::text IS NULL OR w.kind = @kind::text)
ORDER BY w.waited DESC, w.task_id
LIMIT @limit::integer
