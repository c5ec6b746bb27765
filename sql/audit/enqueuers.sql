-- Who enqueued?
--
-- The login roles, and what their connections called themselves, with the kinds that they enqueued: of tasks that ended in a span
-- of time, and of those that have not ended.
--
-- Parameters:
--   since  time     24h    ended not before
--   until  time     now    ended before
--   user   text     -      only this login role
--   kind   text     -      only this kind
--   limit  integer  100    1 to 1000 rows
--
-- Bounds: the 100,000 tasks that ended last in the span; the 10,000 running ones that started last, 10,000 that are due later and
-- 10,000 that are pending; 10,000 of those that wait, the longest waiting of each queue and priority: of 100 of them, whose first wait longest, in
-- the 5,000 queues with the most that waits. What narrows is looked for among them.
SELECT coalesce(e.enqueued_by, '(a River client)') AS enqueued_by, e.enqueued_app, e.kind, count(*) AS tasks,
    min(e.created_at) AS first_at, max(e.created_at) AS last_at, max(e.id) AS last_task
FROM (
    (
        SELECT t.enqueued_by, t.enqueued_app, t.kind, t.created_at, t.id
        FROM sched.task AS t
        WHERE t.status IN ('completed', 'cancelled', 'discarded')
            AND t.end_time >= @since::timestamptz AND t.end_time < @until::timestamptz
        ORDER BY t.end_time DESC
        LIMIT 100000
    )
    UNION ALL
    (
        SELECT t.enqueued_by, t.enqueued_app, t.kind, t.created_at, t.id
        FROM sched.task AS t
        WHERE t.status = 'running'
        ORDER BY t.start_time DESC
        LIMIT 10000
    )
    UNION ALL
    (
        SELECT t.enqueued_by, t.enqueued_app, t.kind, t.created_at, t.id
        FROM sched.task AS t
        WHERE t.status IN ('retryable', 'scheduled')
        LIMIT 10000
    )
    UNION ALL
    (
        SELECT t.enqueued_by, t.enqueued_app, t.kind, t.created_at, t.id
        FROM sched.task AS t
        WHERE t.status = 'pending'
        LIMIT 10000
    )
    UNION ALL
    (
        SELECT a.enqueued_by, a.enqueued_app, a.kind, a.created_at, a.id
        FROM (
            SELECT n.name, n.priority, count(*) OVER () AS lanes
            FROM (
                SELECT q.name, p.priority
                FROM (SELECT s.name FROM sched.queues AS s ORDER BY s.pending DESC, s.name LIMIT 5000) AS q
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
            WHERE t.queue = l.name AND t.priority = l.priority
            ORDER BY t.run_at, t.id
            LIMIT 10000 / l.lanes
        ) AS a
    )
) AS e
WHERE (@user::text IS NULL OR e.enqueued_by = @user::text) AND (@kind::text IS NULL OR e.kind = @kind::text)
GROUP BY e.enqueued_by, e.enqueued_app, e.kind
ORDER BY tasks DESC, enqueued_by, e.kind
LIMIT @limit::integer
