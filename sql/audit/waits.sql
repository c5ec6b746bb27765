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
-- Bounds: the 100,000 tasks that ended last in the span; of those that wait, in that queue if it is given, the longest waiting of each
-- queue and priority, 10,000 together or the limit of each: of 100 of them, whose first wait longest, in the 5,000 queues with the
-- most that waits. What narrows is looked for among them.
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
    SELECT now() - a.run_at, a.id, a.kind, a.queue, a.priority::integer, 'available', a.run_at, NULL::timestamptz, NULL::text
    FROM (
        SELECT n.name, n.priority, count(*) OVER () AS lanes
        FROM (
            SELECT q.name, p.priority
            FROM (SELECT s.name FROM sched.queues AS s WHERE @queue::text IS NULL OR s.name = @queue::text ORDER BY s.pending DESC, s.name LIMIT 5000) AS q
            CROSS JOIN (VALUES (1::smallint), (2::smallint), (3::smallint), (4::smallint)) AS p (priority)
            CROSS JOIN LATERAL (
                SELECT h.run_at FROM sched.waiting AS h
                WHERE h.queue = q.name AND h.priority = p.priority
                ORDER BY h.run_at, h.id LIMIT 1
            ) AS first
            ORDER BY first.run_at, q.name, p.priority
            LIMIT 100
        ) AS n
    ) AS l
    CROSS JOIN LATERAL (
        SELECT t.*
        FROM sched.waiting AS t
        WHERE t.queue = l.name AND t.priority = l.priority AND t.run_at <= now()
        ORDER BY t.run_at, t.id
        LIMIT greatest(@limit::integer, 10000 / l.lanes)
    ) AS a
) AS w
WHERE w.waited IS NOT NULL AND (@queue::text IS NULL OR w.queue = @queue::text) AND (@kind::text IS NULL OR w.kind = @kind::text)
ORDER BY w.waited DESC, w.task_id
LIMIT @limit::integer
