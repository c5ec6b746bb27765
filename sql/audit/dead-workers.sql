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
-- Bounds: the archive's indexes of tasks that were claimed more than once, and of those that failed; the attempts of at most limit
-- tasks of each.
WITH task AS MATERIALIZED (
    (
        SELECT t.id, t.kind, t.status, t.lost, t.end_time, t.start_time
        FROM sched.task AS t
        WHERE t.lost > 0 AND t.claims > 1 AND t.status IN ('completed', 'cancelled', 'discarded')
            AND t.end_time >= @since::timestamptz AND t.end_time < @until::timestamptz
        ORDER BY t.end_time DESC LIMIT @limit::integer
    )
    UNION ALL
    (
        SELECT t.id, t.kind, t.status, t.lost, t.end_time, t.start_time
        FROM sched.task AS t
        WHERE t.lost > 0 AND t.claims = 1 AND t.status <> 'completed' AND t.status IN ('cancelled', 'discarded')
            AND t.end_time >= @since::timestamptz AND t.end_time < @until::timestamptz
        ORDER BY t.end_time DESC LIMIT @limit::integer
    )
    UNION ALL
    (
        SELECT t.id, t.kind, t.status, t.lost, t.end_time, t.start_time
        FROM sched.task AS t
        WHERE t.lost > 0 AND t.status IN ('running', 'retryable', 'scheduled', 'available')
            AND t.start_time >= @since::timestamptz AND t.start_time < @until::timestamptz
        ORDER BY t.start_time DESC LIMIT @limit::integer
    )
)
SELECT a.end_time AS taken_at, t.id AS task_id, t.kind, a.worker_id, a.host, a.start_time, a.attempt, t.lost AS workers_lost, t.status AS status_now, a.error
FROM task AS t
CROSS JOIN LATERAL (SELECT o.* FROM sched.attempt AS o WHERE o.task_id = t.id OFFSET 0) AS a -- OFFSET 0: task by task
WHERE (a.outcome = 'rescued' OR (a.outcome IN ('discarded', 'cancelled') AND (a.error LIKE 'poison pill: %' OR a.error LIKE 'worker % died while it ran this task')))
    AND (@worker::text IS NULL OR a.worker_id = @worker::text)
ORDER BY taken_at DESC, task_id DESC
LIMIT @limit::integer
