-- What failed, by kind?
--
-- Of each kind what ended in a span of time, how much of it failed for good or was cancelled, and the error that it failed with
-- last. The kinds that fail most first.
--
-- Parameters:
--   since  time     24h    ended not before
--   until  time     now    ended before
--   kind   text     -      only this kind
--   limit  integer  50     1 to 1000 kinds
--
-- Bounds: the 100,000 tasks that ended last in the span: a kind is looked for among them.
SELECT e.kind, count(*) AS ended,
    count(*) FILTER (WHERE e.status = 'discarded') AS discarded,
    count(*) FILTER (WHERE e.status = 'cancelled') AS cancelled,
    round(100.0 * count(*) FILTER (WHERE e.status = 'discarded') / count(*), 2) AS discarded_percent,
    max(e.end_time) FILTER (WHERE e.status <> 'completed') AS last_at,
    (array_agg(e.id ORDER BY e.end_time DESC) FILTER (WHERE e.status <> 'completed'))[1] AS last_task,
    (array_agg(left(e.error, 200) ORDER BY e.end_time DESC) FILTER (WHERE e.error IS NOT NULL))[1] AS last_error
FROM (
    SELECT t.id, t.kind, t.status, t.end_time, t.error
    FROM sched.task AS t
    WHERE t.status IN ('completed', 'cancelled', 'discarded')
        AND t.end_time >= @since::timestamptz AND t.end_time < @until::timestamptz
    ORDER BY t.end_time DESC
    LIMIT 100000
) AS e
WHERE @kind::text IS NULL OR e.kind = @kind::text
GROUP BY e.kind
HAVING count(*) FILTER (WHERE e.status <> 'completed') > 0
ORDER BY discarded DESC, cancelled DESC, e.kind
LIMIT @limit::integer
