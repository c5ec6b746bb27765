-- Locking: creates views only; nothing that is in use gets locked.
--
-- Everything in metadata may also come from a River client, so nothing in it is trusted to have the right type: one odd task
-- must not make a view fail for all. The views call no function of this schema, since a reader would need the right to it.

-- +goose Up

CREATE VIEW sched.task AS
SELECT
    j.id,
    j.kind,
    j.queue,
    j.state AS status,
    j.attempted_at AS start_time,
    j.finalized_at AS end_time,
    j.attempted_by[cardinality(j.attempted_by)] AS worker_id,
    j.attempt::integer AS attempt,
    j.max_attempts::integer AS max_attempts,
    j.priority::integer AS priority,
    j.scheduled_at AS run_at,
    j.created_at,
    j.args,
    j.metadata -> 'output' AS output,
    CASE WHEN j.state <> 'completed' THEN j.errors[cardinality(j.errors)] ->> 'error' END AS error,
    CASE WHEN jsonb_typeof(j.metadata -> 'sched:selector') = 'object' THEN j.metadata -> 'sched:selector' ELSE '{}' END AS selector,
    coalesce(j.metadata ->> 'sched:protocol', 'any') AS protocol,
    j.metadata ->> 'sched:batch' AS batch,
    j.metadata ->> 'sched:key' AS unique_key,
    CASE WHEN jsonb_typeof(j.metadata -> 'sched:headers') = 'object' THEN j.metadata -> 'sched:headers' ELSE '{}' END AS headers,
    CASE WHEN j.metadata ->> 'sched:lost' ~ '^[0-9]{1,9}$' THEN (j.metadata ->> 'sched:lost')::integer ELSE 0 END AS lost,
    CASE WHEN j.metadata ->> 'snoozes' ~ '^[0-9]{1,9}$' THEN (j.metadata ->> 'snoozes')::integer ELSE 0 END AS snoozes,
    j.metadata #>> '{sched:by,user}' AS enqueued_by,
    nullif(j.metadata #>> '{sched:by,app}', '') AS enqueued_app,
    CASE
        WHEN j.metadata ->> 'sched:timeout_ms' ~ '^[0-9]{1,12}$'
            THEN (j.metadata ->> 'sched:timeout_ms')::bigint * interval '1 millisecond'
    END AS timeout
FROM sched.river_job AS j;
COMMENT ON VIEW sched.task IS 'One row per task. status = ... with or without a bound on start_time, and batch = ..., are served by an index.';
COMMENT ON COLUMN sched.task.id IS 'Id that enqueue returned.';
COMMENT ON COLUMN sched.task.kind IS 'Kind of task: which handler of the app runs it.';
COMMENT ON COLUMN sched.task.queue IS 'Queue, derived from the name given, selector and protocol.';
COMMENT ON COLUMN sched.task.status IS 'available, scheduled, pending, running, retryable, completed, cancelled or discarded.';
COMMENT ON COLUMN sched.task.start_time IS 'When the latest attempt was claimed; NULL before the first.';
COMMENT ON COLUMN sched.task.end_time IS 'When the task ended; NULL while it is unfinished.';
COMMENT ON COLUMN sched.task.worker_id IS 'Worker of the latest attempt; see sched.worker.';
COMMENT ON COLUMN sched.task.attempt IS 'Attempts spent; snoozes and hand-backs spend none.';
COMMENT ON COLUMN sched.task.max_attempts IS 'Attempts after which a failing task is discarded.';
COMMENT ON COLUMN sched.task.priority IS '1 starts first, 4 last.';
COMMENT ON COLUMN sched.task.run_at IS 'Time from which it may run.';
COMMENT ON COLUMN sched.task.created_at IS 'When it was enqueued (start of the transaction).';
COMMENT ON COLUMN sched.task.args IS 'Arguments, as given.';
COMMENT ON COLUMN sched.task.output IS 'Output of the attempt that completed it.';
COMMENT ON COLUMN sched.task.error IS 'Error of the latest failed attempt; NULL when the task completed.';
COMMENT ON COLUMN sched.task.selector IS 'Labels that its worker must carry.';
COMMENT ON COLUMN sched.task.protocol IS 'Protocol that its worker must speak; any for no demand.';
COMMENT ON COLUMN sched.task.batch IS 'Batch it belongs to.';
COMMENT ON COLUMN sched.task.unique_key IS 'Unique key, as given.';
COMMENT ON COLUMN sched.task.headers IS 'Headers that the app receives with it.';
COMMENT ON COLUMN sched.task.lost IS 'Workers that died holding it, since it was last retried by hand.';
COMMENT ON COLUMN sched.task.snoozes IS 'Times it was put off.';
COMMENT ON COLUMN sched.task.enqueued_by IS 'Login role that enqueued it; NULL if a River client did.';
COMMENT ON COLUMN sched.task.enqueued_app IS 'application_name of that connection.';
COMMENT ON COLUMN sched.task.timeout IS 'Time that an attempt may take; NULL for the sidecar''s default.';

CREATE VIEW sched.attempt AS
SELECT
    l.task_id,
    l.attempt::integer AS attempt,
    l.worker_id,
    l.started_at AS start_time,
    l.ended_at AS end_time,
    l.outcome,
    l.error
FROM sched.attempt_log AS l
UNION ALL
SELECT
    j.id,
    j.attempt::integer,
    j.attempted_by[cardinality(j.attempted_by)],
    j.attempted_at,
    j.finalized_at,
    CASE j.state
        WHEN 'running' THEN NULL
        -- A River client that works tasks by itself keeps no log: this is what its last attempt came to.
        WHEN 'retryable' THEN 'retry'
        WHEN 'scheduled' THEN 'snooze'
        WHEN 'available' THEN 'handback'
        ELSE j.state::text
    END,
    CASE
        WHEN j.state <> 'completed' AND (j.errors[cardinality(j.errors)] ->> 'attempt') = j.attempt::text
            THEN j.errors[cardinality(j.errors)] ->> 'error'
    END
FROM sched.river_job AS j
WHERE j.attempted_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM sched.attempt_log AS l WHERE l.task_id = j.id AND l.started_at = j.attempted_at);
COMMENT ON VIEW sched.attempt IS 'Every attempt of every task: earlier ones from the log, the latest from the task itself. By task_id it reads two primary keys.';
COMMENT ON COLUMN sched.attempt.task_id IS 'Id of the task.';
COMMENT ON COLUMN sched.attempt.attempt IS 'Number of the attempt, from 1; one that a snooze or hand-back ended is counted again.';
COMMENT ON COLUMN sched.attempt.worker_id IS 'Worker that held the task; see sched.worker.';
COMMENT ON COLUMN sched.attempt.start_time IS 'When it was claimed.';
COMMENT ON COLUMN sched.attempt.end_time IS 'When it was settled; NULL while it runs.';
COMMENT ON COLUMN sched.attempt.outcome IS 'retry, snooze, handback, rescued, completed, cancelled or discarded; NULL while it runs.';
COMMENT ON COLUMN sched.attempt.error IS 'What went wrong, if anything did.';

CREATE VIEW sched.batch AS
SELECT
    b.batch,
    b.total,
    b.available,
    b.scheduled,
    b.running,
    b.retryable,
    b.pending,
    b.completed,
    b.cancelled,
    b.discarded,
    b.completed + b.cancelled + b.discarded AS finished,
    ((b.completed + b.cancelled + b.discarded)::double precision / b.total)::real AS progress,
    b.first_created,
    b.last_ended
FROM (
    SELECT
        j.metadata ->> 'sched:batch' AS batch,
        count(*) AS total,
        count(*) FILTER (WHERE j.state = 'available') AS available,
        count(*) FILTER (WHERE j.state = 'scheduled') AS scheduled,
        count(*) FILTER (WHERE j.state = 'running') AS running,
        count(*) FILTER (WHERE j.state = 'retryable') AS retryable,
        count(*) FILTER (WHERE j.state = 'pending') AS pending,
        count(*) FILTER (WHERE j.state = 'completed') AS completed,
        count(*) FILTER (WHERE j.state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE j.state = 'discarded') AS discarded,
        min(j.created_at) AS first_created,
        max(j.finalized_at) AS last_ended
    FROM sched.river_job AS j
    WHERE j.metadata ->> 'sched:batch' IS NOT NULL
    GROUP BY j.metadata ->> 'sched:batch'
) AS b;
COMMENT ON VIEW sched.batch IS 'Progress of each batch over the tasks that still exist. batch = ... is served by an index.';
COMMENT ON COLUMN sched.batch.batch IS 'Name of the batch.';
COMMENT ON COLUMN sched.batch.total IS 'Tasks in it.';
COMMENT ON COLUMN sched.batch.available IS 'Tasks that wait for a worker.';
COMMENT ON COLUMN sched.batch.scheduled IS 'Tasks that wait for their time.';
COMMENT ON COLUMN sched.batch.running IS 'Tasks that run.';
COMMENT ON COLUMN sched.batch.retryable IS 'Tasks that failed and wait for their next attempt.';
COMMENT ON COLUMN sched.batch.pending IS 'Tasks that a River client holds back.';
COMMENT ON COLUMN sched.batch.completed IS 'Tasks that ended well.';
COMMENT ON COLUMN sched.batch.cancelled IS 'Tasks that were cancelled.';
COMMENT ON COLUMN sched.batch.discarded IS 'Tasks that failed for good.';
COMMENT ON COLUMN sched.batch.finished IS 'Tasks that ended: completed, cancelled or discarded.';
COMMENT ON COLUMN sched.batch.progress IS 'finished / total, 0 to 1.';
COMMENT ON COLUMN sched.batch.first_created IS 'When its first task was enqueued.';
COMMENT ON COLUMN sched.batch.last_ended IS 'When a task of it last ended; NULL before the first.';

REVOKE ALL ON ALL TABLES IN SCHEMA sched FROM PUBLIC;

-- +goose Down

DROP VIEW sched.batch;
DROP VIEW sched.attempt;
DROP VIEW sched.task;
