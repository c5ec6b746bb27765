-- Which tasks had their worker die?
--
-- Attempts that were taken from a worker that died, and what became of the task. The latest first.
--
-- Parameters:
--   since   time     24h    the task ended, or began its latest attempt, not before
--   until   time     now    before
--   worker  text     -      only of this worker
--   limit   integer  100    1 to 1000 rows
--
-- Bounds: the 20,000 tasks that ended last in the span of those that were claimed more than once, by the archive's index of them, and
-- as many of those that failed, and of each status that has not ended; the attempts of at most limit tasks of each.
WITH task AS MATERIALIZED (
    (
        SELECT e.*
        FROM (
            SELECT t.id, t.kind, t.status, t.lost, t.end_time, t.start_time
            FROM sched.task AS t
            WHERE t.claims > 1 AND t.status IN ('completed', 'cancelled', 'discarded')
                AND t.end_time >= @since::timestamptz AND t.end_time < @until::timestamptz
            ORDER BY t.end_time DESC LIMIT 20000
        ) AS e
        WHERE e.lost > 0
        ORDER BY e.end_time DESC LIMIT @limit::integer
    )
    UNION ALL
    (
        SELECT e.id, e.kind, e.status, e.lost, e.end_time, e.start_time
        FROM (
            SELECT t.id, t.kind, t.status, t.lost, t.claims, t.end_time, t.start_time
            FROM sched.task AS t
            WHERE t.status <> 'completed' AND t.status IN ('cancelled', 'discarded')
                AND t.end_time >= @since::timestamptz AND t.end_time < @until::timestamptz
            ORDER BY t.end_time DESC LIMIT 20000
        ) AS e
        WHERE e.lost > 0 AND e.claims = 1
        ORDER BY e.end_time DESC LIMIT @limit::integer
    )
    UNION ALL
    (
        SELECT e.*
        FROM unnest('{running,retryable,scheduled,available}'::sched.river_job_state[]) AS s (status)
        CROSS JOIN LATERAL (
            SELECT t.id, t.kind, t.status, t.lost, t.end_time, t.start_time
            FROM sched.task AS t
            WHERE t.status = s.status AND t.start_time >= @since::timestamptz AND t.start_time < @until::timestamptz
            ORDER BY t.start_time DESC LIMIT 20000
        ) AS e
        WHERE e.lost > 0
        ORDER BY e.start_time DESC LIMIT @limit::integer
    )
)
SELECT a.end_time AS taken_at, t.id AS task_id, t.kind, a.worker_id, a.host, a.start_time, a.attempt, t.lost AS workers_lost, t.status AS status_now, a.error
FROM task AS t
CROSS JOIN LATERAL (SELECT o.* FROM sched.attempt AS o WHERE o.task_id = t.id OFFSET 0) AS a -- OFFSET 0: task by task
WHERE (a.outcome = 'rescued' OR (a.outcome IN ('discarded', 'cancelled') AND (a.error LIKE 'poison pill: %' OR a.error LIKE 'worker % died while it ran this task')))
    AND (@worker::text IS NULL OR a.worker_id = @worker::text)
ORDER BY taken_at DESC, task_id DESC
LIMIT @limit::integer
