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
-- Bounds: the index on time, and on subject and time.
SELECT d.at, d.subject AS worker_id, d.from_value AS slots_before, d.to_value AS slots_after, d.reason, d.signals
FROM sched.decisions AS d
WHERE d.what = 'slots' AND d.at >= @since::timestamptz AND d.at < @until::timestamptz
    AND (@worker::text IS NULL OR d.subject = @worker::text)
ORDER BY d.at, d.id
LIMIT @limit::integer
