-- Which scaling decisions were made in an hour, and why?
--
-- What moved the slots of workers, with the reason and the measures that it was decided from, in order.
--
-- Parameters:
--   since   time     1h     not before
--   until   time     now    before
--   worker  text     -      only of this worker
--   limit   integer  500    1 to 10000 rows
--
-- Bounds: the first 100,000 decisions of the span, or about the worker in it, by the indexes on time, and on subject and time.
SELECT d.at, d.subject AS worker_id, d.from_value AS slots_before, d.to_value AS slots_after, d.reason, d.signals
FROM (
    SELECT l.*
    FROM sched.decisions AS l
    WHERE l.at >= @since::timestamptz AND l.at < @until::timestamptz
        AND (@worker::text IS NULL OR l.subject = @worker::text)
    ORDER BY l.at
    LIMIT 100000
) AS d
WHERE d.what = 'slots'
ORDER BY d.at, d.id
LIMIT @limit::integer
