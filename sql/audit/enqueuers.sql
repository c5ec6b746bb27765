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
-- Bounds: the 100,000 tasks that ended last in the span; 10,000 of those that have not ended. What narrows is looked for among them.
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
        WHERE t.status IN ('available', 'scheduled', 'pending', 'running', 'retryable')
        LIMIT 10000
    )
) AS e
WHERE (@user::text IS NULL OR e.enqueued_by = @user::text) AND (@kind::text IS NULL OR e.kind = @kind::text)
GROUP BY e.enqueued_by, e.enqueued_app, e.kind
ORDER BY tasks DESC, enqueued_by, e.kind
LIMIT @limit::integer
