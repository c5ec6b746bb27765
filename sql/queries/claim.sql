-- name: TaskClaim :many
-- Claims up to max due tasks of the given queues for one worker, best priority
-- first over all of them, and within a priority the queue whose first task has
-- waited longest. Runs on every wake-up and poll of a sidecar that nothing limits.
--
-- The head of each queue is looked at, not locked. The turns, one per queue and
-- priority, are then taken in order, and each is read only when those before it
-- yielded too little: no more rows are locked than claimed, however many queues
-- there are. The ids reach the UPDATE through an array: the planner then has no
-- join to get wrong, however stale the statistics are. Where the claimed row is goes
-- along: its outcome finds it there. attempted_at must differ
-- from that of every earlier claim of the task, since it is the lease. A worker
-- that was evicted or told to drain gets nothing. A queue that has a limit by now
-- is left to claims that obey it.
--
-- With ageing above 0 only what has waited for that many seconds for each step of
-- priority below the first is claimed, and chance decides where from.
--
-- Whatever somebody has written into a row, claiming it must not fail: it would
-- fail each time, and everything behind the row would wait for ever.
WITH head AS MATERIALIZED (
    SELECT served.queue, first.priority, first.scheduled_at
    FROM unnest(@queues::text[]) AS served (queue)
    CROSS JOIN LATERAL (
        SELECT j.priority, j.scheduled_at
        FROM sched.river_job AS j
        WHERE j.state = 'available'
            AND j.queue = served.queue
            AND j.scheduled_at <= now()
        ORDER BY j.priority, j.scheduled_at, j.id
        LIMIT 1
    ) AS first
    WHERE EXISTS (
        SELECT 1 FROM sched.worker AS w
        WHERE w.id = @worker_id::text AND w.state IN ('pending', 'active')
    )
        AND (SELECT r.paused_at FROM sched.river_queue AS r WHERE r.name = served.queue) IS NULL
        AND (
            SELECT q.name FROM sched.queue AS q
            WHERE q.name = served.queue AND (q.rate IS NOT NULL OR q.max_running IS NOT NULL)
        ) IS NULL
),

picked AS MATERIALIZED (
    SELECT candidate.id
    FROM (
        SELECT head.queue, step.priority
        FROM head
        CROSS JOIN generate_series(1, 4) AS step (priority)
        WHERE step.priority >= head.priority
            AND (@ageing::float8 = 0 OR step.priority > 1)
        ORDER BY
            CASE WHEN @ageing::float8 = 0 THEN step.priority ELSE random() END,
            CASE WHEN step.priority = head.priority THEN head.scheduled_at END NULLS LAST,
            head.queue
    ) AS turn
    CROSS JOIN LATERAL (
        SELECT j.id
        FROM sched.river_job AS j
        WHERE j.state = 'available'
            AND j.queue = turn.queue
            AND j.priority = turn.priority
            AND j.scheduled_at <= now() - make_interval(secs => (turn.priority - 1) * @ageing::float8)
        ORDER BY j.scheduled_at, j.id
        LIMIT @max::int
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS candidate
    LIMIT @max::int
)

UPDATE sched.river_job AS j
SET state = 'running',
    attempt = least(j.attempt + 1, 32767),
    attempted_at = greatest(
        clock_timestamp(), CASE WHEN isfinite(j.attempted_at) THEN j.attempted_at + interval '1 microsecond' END
    ),
    attempted_by = CASE
        WHEN cardinality(j.attempted_by) >= 100 THEN j.attempted_by[2:] || @worker_id::text
        ELSE coalesce(j.attempted_by, '{}') || @worker_id::text
    END
WHERE j.id = any(ARRAY(SELECT picked.id FROM picked))
RETURNING j.ctid::tid AS tid, j.id, j.kind, j.queue, j.priority, j.attempt, j.max_attempts, j.args, j.metadata,
    (CASE WHEN isfinite(j.created_at) THEN j.created_at ELSE j.attempted_at END)::timestamptz AS created_at,
    (CASE WHEN isfinite(j.scheduled_at) THEN j.scheduled_at ELSE j.attempted_at END)::timestamptz AS scheduled_at,
    j.attempted_at::timestamptz AS attempted_at;

-- name: TaskClaimLanes :many
-- The same where limits, left-out kinds or canaries are in play. The last row is a
-- report on the lanes alone, with id 0.
SELECT c.tid::tid AS tid, c.id::bigint AS id, c.kind::text AS kind, c.queue::text AS queue, c.priority::smallint AS priority,
    c.attempt::smallint AS attempt, c.max_attempts::smallint AS max_attempts, c.args::jsonb AS args, c.metadata::jsonb AS metadata,
    c.created_at::timestamptz AS created_at, c.scheduled_at::timestamptz AS scheduled_at,
    c.attempted_at::timestamptz AS attempted_at, c.report::jsonb AS report
FROM sched.claim_lanes(
    @worker_id::text, @max::integer, @kinds::text[], @skip_kinds::text[], @ageing::float8, @window_rows::integer, @budget_ms::integer,
    @queues::text[], @priorities::integer[], @lane_kinds::text[], @from_us::bigint[], @from_ids::bigint[],
    @to_us::bigint[], @to_ids::bigint[], @lows::real[], @highs::real[]
) AS c;

-- name: QueueWaiting :many
-- Which of the queues have a task that is due, and how urgent the first one is. By a
-- sidecar that serves many, some times a second while it works.
SELECT served.queue::text AS queue, first.priority::integer AS priority
FROM unnest(@queues::text[]) AS served (queue)
CROSS JOIN LATERAL (
    SELECT j.priority
    FROM sched.river_job AS j
    WHERE j.state = 'available' AND j.queue = served.queue AND j.scheduled_at <= now()
    ORDER BY j.priority, j.scheduled_at, j.id
    LIMIT 1
) AS first
LIMIT @max::int;

-- name: QueueWaitingAfter :many
-- The next queues in alphabetical order that have waiting tasks, served or not. By a
-- sidecar that serves thousands, where a look at each would take too long: one
-- descent of the index for each queue found.
WITH RECURSIVE found AS (
    (
        SELECT j.queue, 1 AS n
        FROM sched.river_job AS j
        WHERE j.state = 'available' AND j.queue > @after::text
        ORDER BY j.queue
        LIMIT 1
    )
    UNION ALL
    SELECT following.queue, f.n + 1
    FROM found AS f
    CROSS JOIN LATERAL (
        SELECT j.queue
        FROM sched.river_job AS j
        WHERE j.state = 'available' AND j.queue > f.queue
        ORDER BY j.queue
        LIMIT 1
    ) AS following
    WHERE f.n < @max::int
)

SELECT f.queue::text AS queue
FROM found AS f;

-- name: KindPause :one
-- Leaves a kind out of all claims of the fleet for a while. When an app answers with Retry-After.
SELECT sched.pause_kind(
    @kind::text, clock_timestamp() + make_interval(secs => @seconds::float8), @reason::text, @worker_id::text
)::boolean AS news;
