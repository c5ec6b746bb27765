-- Which scaling decisions were made in an hour, and why?
--
-- What moved the slots of workers, or would have where they are only observed, with the reason and the measures that it was decided
-- from: the latest of the span, in order.
--
-- Parameters:
--   since   time     1h     not before
--   until   time     now    before
--   worker  text     -      only of this worker
--   limit   integer  500    1 to 10000 rows
--
-- Bounds: the limit, by the index on the time of such decisions; with a worker, the decisions about it in the span.
SELECT d.at, d.subject AS worker_id, d.from_value AS slots_before, d.to_value AS slots_after, d.reason, d.signals,
    d.what = 'slots observed' AS observed
FROM (
    SELECT l.*
    FROM sched.decisions AS l
    WHERE l.what IN ('slots', 'slots observed')
        AND l.at >= @since::timestamptz AND l.at < @until::timestamptz
        AND (@worker::text IS NULL OR l.subject = @worker::text)
    ORDER BY l.at DESC
    LIMIT @limit::integer
) AS d
ORDER BY d.at, d.id
