-- Which tasks can nobody run?
--
-- The tasks that wait in queues which ask for a label or protocol that no live worker offers, in the order in which they would start.
--
-- Parameters:
--   queue  text     -      only of this queue
--   limit  integer  100    1 to 1000 tasks of each queue
--
-- Bounds: 100 queues, those with the most that waits; the limit of each, by the index of the claim.
SELECT q.name AS queue, q.unroutable AS nobody_offers, t.id AS task_id, t.kind, t.priority, t.run_at AS waits_since, now() - t.run_at AS waits, t.enqueued_by
FROM (
    SELECT s.name, s.unroutable FROM sched.queues AS s
    WHERE s.unroutable IS NOT NULL AND (@queue::text IS NULL OR s.name = @queue::text OR s.base = @queue::text)
    ORDER BY s.pending DESC, s.name LIMIT 100
) AS q
CROSS JOIN LATERAL (
    SELECT w.id, w.kind, w.priority, w.run_at, w.enqueued_by
    FROM sched.waiting AS w
    WHERE w.queue = q.name AND w.run_at <= now()
    ORDER BY w.priority, w.run_at, w.id
    LIMIT @limit::integer
) AS t
ORDER BY q.name, t.priority, t.run_at, t.id
