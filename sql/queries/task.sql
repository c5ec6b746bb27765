-- name: TaskComplete :one
-- The short way for attempts of one worker that completed, which nearly all do: writes
-- those whose lease still owns the running attempt, and answers with their numbers: one
-- row costs less than one for each. The row is looked for where the claim left it,
-- without an index. What is missing in the answer, for one because somebody changed the
-- row since, goes to TaskSettle, which says why. Runs as often as attempts end, many at
-- a time.
WITH input AS (
    SELECT
        unnest(@numbers::integer[]) AS number,
        unnest(@tids::tid[]) AS tid,
        unnest(@ids::bigint[]) AS id,
        unnest(@attempted_ats::timestamptz[]) AS attempted_at,
        unnest(@outputs::jsonb[]) AS output -- of fewer than the rest, or none: the others have none
),

held AS MATERIALIZED (
    SELECT found.tid, i.number, i.output
    FROM input AS i
    CROSS JOIN LATERAL (
        SELECT j.ctid AS tid
        FROM sched.river_job AS j
        WHERE j.ctid = i.tid
            AND j.id = i.id
            AND j.state = 'running'
            AND j.attempted_at = i.attempted_at
            AND j.attempted_by[cardinality(j.attempted_by)] = @worker_id::text
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS found
),

written AS (
    UPDATE sched.river_job AS j
    SET state = 'completed',
        finalized_at = clock_timestamp(),
        metadata = CASE WHEN h.output IS NULL THEN j.metadata ELSE j.metadata || jsonb_build_object('output', h.output) END
    FROM held AS h
    WHERE j.ctid = h.tid
    RETURNING h.number
)

SELECT coalesce(array_agg(w.number), '{}')::integer[] AS written
FROM written AS w;

-- name: TaskSettle :many
-- Writes the outcomes of a batch of attempts and says of each what became of it. For
-- outcomes other than completion, and completions that TaskComplete left.
--
-- An outcome is written only if its lease still owns the running attempt: state,
-- attempted_at and the last attempted_by are the claim's own. Verdicts:
--   settled   written now
--   locked    another transaction holds the row (an app completing its task):
--             nothing changed, ask again later
--   replayed  this attempt was settled before, by us or by the app: harmless
--   refused   the lease is lost: nothing changed
-- With settled and replayed comes the status that the attempt left the task in.
--
-- The planner takes the unnested input for a handful of rows, so it reaches the
-- task rows through their primary key whatever it knows of the table.
WITH input AS (
    SELECT
        unnest(@ids::bigint[]) AS id,
        unnest(@worker_ids::text[]) AS worker_id,
        unnest(@attempted_ats::timestamptz[]) AS attempted_at,
        unnest(@outcomes::text[]) AS outcome,
        unnest(@delays_ms::bigint[]) AS delay_ms,
        unnest(@errors::text[]) AS error,
        unnest(@outputs::jsonb[]) AS output
),

held AS MATERIALIZED (
    SELECT j.id, j.state, j.attempt, j.max_attempts, j.attempted_at, j.metadata,
        j.attempted_by[cardinality(j.attempted_by)] AS worker_id
    FROM sched.river_job AS j
    WHERE j.id = any(@ids::bigint[])
    FOR NO KEY UPDATE SKIP LOCKED
),

decided AS MATERIALIZED (
    SELECT i.*,
        h.attempt,
        clock_timestamp() AS at,
        -- A cancel that was asked for while the attempt ran wins over any
        -- outcome that would run the task again.
        CASE
            WHEN i.outcome = 'complete' THEN 'completed'
            WHEN i.outcome = 'cancel' OR (h.metadata ? 'cancel_attempted_at' AND i.outcome <> 'discard') THEN 'cancelled'
            WHEN i.outcome = 'discard' THEN 'discarded'
            WHEN i.outcome = 'retry' AND h.attempt >= h.max_attempts THEN 'discarded'
            WHEN i.outcome = 'retry' THEN 'retryable'
            WHEN i.outcome = 'snooze' AND i.delay_ms > 0 THEN 'scheduled'
            ELSE 'available'
        END::sched.river_job_state AS new_state
    FROM input AS i
    JOIN held AS h
        ON h.id = i.id
        AND h.state = 'running'
        AND h.attempted_at = i.attempted_at
        AND h.worker_id = i.worker_id
),

settled AS (
    UPDATE sched.river_job AS j
    SET state = d.new_state,
        attempt = CASE WHEN d.outcome IN ('snooze', 'handback') THEN greatest(j.attempt - 1, 0) ELSE j.attempt END,
        finalized_at = CASE WHEN d.new_state IN ('completed', 'cancelled', 'discarded') THEN d.at END,
        scheduled_at = CASE
            WHEN d.new_state IN ('retryable', 'scheduled') THEN d.at + d.delay_ms * interval '1 millisecond'
            ELSE j.scheduled_at
        END,
        errors = CASE
            WHEN d.error = '' OR d.outcome IN ('snooze', 'handback') THEN j.errors
            ELSE array_append(j.errors, jsonb_build_object('at', d.attempted_at, 'attempt', d.attempt, 'error', d.error, 'trace', ''))
        END,
        metadata = CASE
            WHEN d.output IS NOT NULL THEN j.metadata || jsonb_build_object('output', d.output)
            WHEN d.outcome = 'snooze' THEN j.metadata || jsonb_build_object(
                'snoozes',
                CASE WHEN jsonb_typeof(j.metadata -> 'snoozes') = 'number' THEN (j.metadata ->> 'snoozes')::numeric ELSE 0 END + 1
            )
            ELSE j.metadata
        END
    FROM decided AS d
    WHERE j.id = d.id
    RETURNING j.id, j.queue, j.state, d.worker_id, d.attempted_at, d.outcome, d.error, d.attempt, d.at
),

logged AS (
    INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
    SELECT s.id, s.attempt, s.worker_id, s.attempted_at, s.at, s.outcome, nullif(s.error, '')
    FROM settled AS s
    WHERE s.state IN ('available', 'retryable', 'scheduled')
    ON CONFLICT DO NOTHING
),

woken AS (
    SELECT sched.wake_queue(w.queue)::text
    FROM (SELECT DISTINCT s.queue FROM settled AS s WHERE s.state = 'available') AS w
),

judged AS (
    SELECT i.id, i.worker_id, i.attempted_at, i.outcome, i.delay_ms, s.state AS written,
        CASE WHEN h.attempted_at = i.attempted_at AND h.worker_id = i.worker_id THEN h.state END AS found,
        CASE
            WHEN s.id IS NOT NULL THEN 'settled'
            WHEN h.id IS NULL AND EXISTS (SELECT 1 FROM sched.river_job AS j WHERE j.id = i.id) THEN 'locked'
            WHEN h.attempted_at = i.attempted_at AND h.worker_id = i.worker_id AND (
                h.state = 'completed'
                OR (h.state = 'cancelled' AND i.outcome <> 'complete')
                OR (h.state = 'discarded' AND i.outcome IN ('retry', 'discard'))
            ) THEN 'replayed'
            WHEN EXISTS (
                SELECT 1 FROM sched.attempt_log AS l
                WHERE l.task_id = i.id AND l.started_at = i.attempted_at AND l.worker_id = i.worker_id AND l.outcome = i.outcome
            ) THEN 'replayed'
            ELSE 'refused'
        END AS verdict
    FROM input AS i
    LEFT JOIN settled AS s ON s.id = i.id AND s.attempted_at = i.attempted_at
    LEFT JOIN held AS h ON h.id = i.id
)

SELECT v.id::bigint AS id,
    v.worker_id::text AS worker_id,
    v.attempted_at::timestamptz AS attempted_at,
    CASE
        WHEN v.verdict = 'settled' THEN v.written::text
        WHEN v.verdict <> 'replayed' THEN ''
        WHEN v.found IN ('completed', 'cancelled', 'discarded') THEN v.found::text
        WHEN v.outcome = 'retry' THEN 'retryable'
        WHEN v.outcome = 'snooze' AND v.delay_ms > 0 THEN 'scheduled'
        ELSE 'available'
    END::text AS state,
    v.verdict::text AS verdict,
    (SELECT count(*) FROM woken)::bigint AS wakes
FROM judged AS v;

-- name: TaskWatch :many
-- Says of tasks that run for a while whether somebody asked to cancel them and
-- whether the lease still holds. Every two seconds, for what this sidecar runs.
WITH input AS (
    SELECT
        unnest(@ids::bigint[]) AS id,
        unnest(@worker_ids::text[]) AS worker_id,
        unnest(@attempted_ats::timestamptz[]) AS attempted_at
)

SELECT i.id::bigint AS id,
    coalesce(j.metadata ? 'cancel_attempted_at', false)::boolean AS cancel_requested,
    coalesce(j.state::text, 'deleted')::text AS state,
    coalesce(
        j.state = 'running' AND j.attempted_at = i.attempted_at
        AND j.attempted_by[cardinality(j.attempted_by)] = i.worker_id,
        false
    )::boolean AS held
FROM input AS i
LEFT JOIN sched.river_job AS j ON j.id = i.id;

-- name: TaskRunningOf :many
-- The tasks that a worker holds according to the database. After a claim whose
-- answer was lost, to find what was claimed without anybody knowing.
SELECT j.id, j.attempted_at::timestamptz AS attempted_at
FROM sched.river_job AS j
WHERE j.state = 'running'
    AND j.attempted_by[cardinality(j.attempted_by)] = @worker_id::text
LIMIT @max::int;

-- name: TaskRescue :many
-- Takes up to max running tasks away from workers that are gone. In the
-- transaction that evicts a worker, and again by the leader's sweep for rows that
-- were locked then. A task that lost max_lost workers is discarded as a poison
-- pill; one without attempts left is discarded as any other failure.
WITH lost AS MATERIALIZED (
    SELECT j.id, j.attempt, j.max_attempts, j.attempted_at, j.metadata,
        j.attempted_by[cardinality(j.attempted_by)] AS worker_id,
        CASE WHEN jsonb_typeof(j.metadata -> 'sched:lost') = 'number' THEN (j.metadata ->> 'sched:lost')::numeric ELSE 0 END + 1 AS lost
    FROM sched.river_job AS j
    WHERE j.state = 'running'
        AND j.attempted_by[cardinality(j.attempted_by)] = any(@worker_ids::text[])
    LIMIT @max::int
    FOR NO KEY UPDATE SKIP LOCKED
),

decided AS MATERIALIZED (
    SELECT l.*,
        CASE
            WHEN l.metadata ? 'cancel_attempted_at' THEN 'cancelled'
            WHEN l.lost >= @max_lost::int OR l.attempt >= l.max_attempts THEN 'discarded'
            ELSE 'available'
        END::sched.river_job_state AS new_state,
        CASE
            WHEN l.lost >= @max_lost::int
                THEN format('poison pill: %s workers died while they ran this task, the last one %s', l.lost, l.worker_id)
            ELSE format('worker %s died while it ran this task', l.worker_id)
        END AS error
    FROM lost AS l
),

rescued AS (
    UPDATE sched.river_job AS j
    SET state = d.new_state,
        finalized_at = CASE WHEN d.new_state <> 'available' THEN clock_timestamp() END,
        errors = array_append(j.errors, jsonb_build_object('at', d.attempted_at, 'attempt', d.attempt, 'error', d.error, 'trace', '')),
        metadata = j.metadata || jsonb_build_object('sched:lost', d.lost)
    FROM decided AS d
    WHERE j.id = d.id
    RETURNING j.id, j.kind, j.queue, j.state, d.worker_id, d.attempt, d.attempted_at, d.error
),

logged AS (
    INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
    SELECT r.id, r.attempt, r.worker_id, r.attempted_at, clock_timestamp(), 'rescued', r.error
    FROM rescued AS r
    WHERE r.state = 'available'
    ON CONFLICT DO NOTHING
),

woken AS (
    SELECT sched.wake_queue(w.queue)::text
    FROM (SELECT DISTINCT r.queue FROM rescued AS r WHERE r.state = 'available') AS w
)

SELECT r.id, r.kind, r.worker_id::text AS worker_id, r.state::text AS state, (SELECT count(*) FROM woken)::bigint AS wakes
FROM rescued AS r;

-- name: TaskPromote :one
-- Makes up to max tasks available whose time has come. At each due time that a
-- sidecar knows of, and by the leader's timer.
--
-- A River client may have chosen unique states without `retryable`: a newer job
-- with the same key may then exist, also among those that are due, and all but
-- one are discarded, as River does. Two of them would fail the statement, each time.
WITH due AS MATERIALIZED (
    SELECT j.id, j.scheduled_at, j.unique_key,
        j.unique_key IS NOT NULL AND j.unique_states IS NOT NULL
        AND NOT sched.river_job_state_in_bitmask(j.unique_states, j.state) AS unguarded
    FROM sched.river_job AS j
    WHERE j.state IN ('retryable', 'scheduled')
        AND j.scheduled_at <= now()
    ORDER BY j.scheduled_at, j.id
    LIMIT @max::int
    FOR NO KEY UPDATE SKIP LOCKED
),

decided AS MATERIALIZED (
    SELECT d.id,
        d.unguarded AND (
            row_number() OVER (PARTITION BY d.unguarded, d.unique_key ORDER BY d.scheduled_at, d.id) > 1
            OR EXISTS (
                SELECT 1 FROM sched.river_job AS o
                WHERE o.unique_key = d.unique_key AND o.id <> d.id AND o.unique_states IS NOT NULL
                    AND sched.river_job_state_in_bitmask(o.unique_states, o.state)
            )
        ) AS conflict
    FROM due AS d
),

promoted AS (
    UPDATE sched.river_job AS j
    SET state = (CASE WHEN d.conflict THEN 'discarded' ELSE 'available' END)::sched.river_job_state,
        finalized_at = CASE WHEN d.conflict THEN clock_timestamp() END,
        metadata = CASE WHEN d.conflict THEN j.metadata || '{"unique_key_conflict": "scheduler_discarded"}' ELSE j.metadata END
    FROM decided AS d
    WHERE j.id = d.id
    RETURNING j.id, j.queue, j.state
),

woken AS (
    -- A task that is alone wakes one worker, several wake all.
    SELECT sched.wake_queue(w.queue, w.task_id)::text
    FROM (
        SELECT p.queue, CASE WHEN count(*) = 1 THEN min(p.id) END AS task_id
        FROM promoted AS p WHERE p.state = 'available' GROUP BY p.queue
    ) AS w
)

SELECT
    (SELECT count(*) FROM promoted)::bigint AS promoted,
    (SELECT count(*) FROM woken)::bigint AS wakes,
    -- Milliseconds until the next task is due, at most a day.
    least(
        (
            SELECT extract(EPOCH FROM n.scheduled_at - clock_timestamp()) * 1000
            FROM sched.river_job AS n
            WHERE n.state IN ('retryable', 'scheduled') AND n.scheduled_at > now() AND n.scheduled_at < 'infinity'
            ORDER BY n.scheduled_at
            LIMIT 1
        ),
        86400000
    )::float8 AS next_due_ms;

-- name: AttemptLogSweep :execrows
-- Forgets logged attempts of tasks that no longer exist. By the leader, now and then.
DELETE FROM sched.attempt_log AS l
WHERE (l.task_id, l.started_at) IN (
    SELECT o.task_id, o.started_at
    FROM sched.attempt_log AS o
    WHERE o.ended_at < now() - make_interval(secs => @keep_seconds::float8)
        AND NOT EXISTS (SELECT 1 FROM sched.river_job AS j WHERE j.id = o.task_id)
    LIMIT @max::int
);
