-- How long did tasks wait and run, by the hour?
--
-- For each hour in which tasks ended: how many, and how long in milliseconds 50, 95 and 99 of 100 of them took from the time they might run
-- to their start, from there to their end, and from one to the other.
--
-- Parameters:
--   since  time     24h    ended not before
--   until  time     now    ended before
--   queue  text     -      only of this queue
--   kind   text     -      only of this kind
--
-- Bounds: the 100,000 tasks that ended last in the span, among which those of a queue or kind are looked for: of an hour that is not whole, tasks
-- says how many.
SELECT h.hour, h.tasks,
    round(h.wait[1]::numeric, 1) AS wait_p50_ms, round(h.wait[2]::numeric, 1) AS wait_p95_ms, round(h.wait[3]::numeric, 1) AS wait_p99_ms,
    round(h.run[1]::numeric, 1) AS run_p50_ms, round(h.run[2]::numeric, 1) AS run_p95_ms, round(h.run[3]::numeric, 1) AS run_p99_ms,
    round(h.total[1]::numeric, 1) AS total_p50_ms, round(h.total[2]::numeric, 1) AS total_p95_ms, round(h.total[3]::numeric, 1) AS total_p99_ms
FROM (
    SELECT m.hour, count(*) AS tasks,
        percentile_cont('{0.5,0.95,0.99}'::float8[]) WITHIN GROUP (ORDER BY m.wait) AS wait,
        percentile_cont('{0.5,0.95,0.99}'::float8[]) WITHIN GROUP (ORDER BY m.run) AS run,
        percentile_cont('{0.5,0.95,0.99}'::float8[]) WITHIN GROUP (ORDER BY m.wait + m.run) AS total
    FROM (
        SELECT date_trunc('hour', e.end_time) AS hour,
            extract(EPOCH FROM e.start_time - e.due_at)::float8 * 1000 AS wait, extract(EPOCH FROM e.end_time - e.start_time)::float8 * 1000 AS run
        FROM (
            SELECT t.kind, t.queue, t.end_time, t.start_time, greatest(t.run_at, t.created_at) AS due_at
            FROM sched.task AS t
            WHERE t.status IN ('completed', 'cancelled', 'discarded')
                AND t.end_time >= @since::timestamptz AND t.end_time < @until::timestamptz
            ORDER BY t.end_time DESC
            LIMIT 100000
        ) AS e
        WHERE e.start_time IS NOT NULL AND (@queue::text IS NULL OR e.queue = @queue::text) AND (@kind::text IS NULL OR e.kind = @kind::text)
    ) AS m
    GROUP BY m.hour
) AS h
ORDER BY h.hour DESC
