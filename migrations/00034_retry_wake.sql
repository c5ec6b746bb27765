-- Locking: replaces a function only. Calls that are under way finish with the body they began with.
--
-- A task that is run again wakes whom a new one would.

-- +goose Up

-- sched.retry(task_id): makes a waiting or ended task run again now; returns available. A task whose attempts are spent gets
-- one more; a cancel that was asked for earlier, an output, and the count of workers that died holding the task belong to the
-- past and go. The last attempt, whose record is the row, is kept in the log. SC404 unknown, SC423 running, SC410 another unfinished task
-- has its unique key.
-- Lock order: the task's row, then attempt_log. Waits for whoever holds the row, and for an open transaction that enqueues
-- the same unique key. One subtransaction, to tell a taken key apart.
-- Bounds: one row, one log row, one NOTIFY.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.retry(task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task  record;
    other bigint;
BEGIN
    SELECT j.* INTO task FROM sched.river_job AS j WHERE j.id = retry.task_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.retry: there is no task %s', coalesce(retry.task_id::text, 'NULL')),
            HINT = 'pass the id that enqueue returned; tasks are deleted some time after they end';
    ELSIF task.state = 'running' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC423',
            MESSAGE = format('sched.retry: task %s is running', retry.task_id),
            DETAIL = format('Attempt %s runs on worker %s since %s.', task.attempt, task.attempted_by[cardinality(task.attempted_by)], task.attempted_at),
            HINT = 'wait for its end, or end it with sched.cancel and retry it then';
    ELSIF task.state = 'available' AND task.scheduled_at <= now() THEN
        RETURN 'available';
    ELSIF task.attempt = 32767 THEN
        RAISE EXCEPTION USING
            ERRCODE = '22023',
            MESSAGE = format('sched.retry: task %s has had 32767 attempts, which is all a task can have', retry.task_id),
            HINT = 'enqueue a new task';
    END IF;

    BEGIN
        UPDATE sched.river_job AS j
        SET state = 'available',
            max_attempts = greatest(j.max_attempts, j.attempt + 1),
            finalized_at = NULL,
            scheduled_at = now(),
            metadata = j.metadata - '{cancel_attempted_at,sched:lost,output}'::text[]
        WHERE j.id = retry.task_id;
    EXCEPTION WHEN unique_violation THEN
        SELECT j.id INTO other FROM sched.river_job AS j
        WHERE j.unique_key = task.unique_key AND j.unique_states IS NOT NULL
            AND sched.river_job_state_in_bitmask(j.unique_states, j.state);
        RAISE EXCEPTION USING
            ERRCODE = 'SC410',
            MESSAGE = format('sched.retry: another unfinished task has the unique key of task %s', retry.task_id),
            DETAIL = format('Task %s of kind %s has it.', coalesce(other::text, '(just ended)'), task.kind),
            HINT = 'let that task do the work, or cancel it and retry this one then';
    END;
    IF task.attempted_at IS NOT NULL THEN
        INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
        SELECT
            task.id, task.attempt, task.attempted_by[cardinality(task.attempted_by)], task.attempted_at, task.finalized_at,
            CASE task.state WHEN 'retryable' THEN 'retry' WHEN 'scheduled' THEN 'snooze' WHEN 'available' THEN 'handback' ELSE task.state::text END,
            CASE WHEN (e.last ->> 'attempt') = task.attempt::text AND task.state <> 'completed' THEN e.last ->> 'error' END
        FROM (SELECT task.errors[cardinality(task.errors)] AS last) AS e
        -- Logged already if it had ended in a retry, snooze or hand-back.
        ON CONFLICT DO NOTHING;
    END IF;
    IF coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true) THEN
        PERFORM sched.wake_queue(task.queue, task.id);
    END IF;
    RETURN 'available';
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.retry(bigint) IS 'Makes a waiting or ended task run again now, with one more attempt if all are spent. SC404 unknown, SC423 running, SC410 unique key taken by another unfinished task.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.retry(task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task  record;
    other bigint;
BEGIN
    SELECT j.* INTO task FROM sched.river_job AS j WHERE j.id = retry.task_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.retry: there is no task %s', coalesce(retry.task_id::text, 'NULL')),
            HINT = 'pass the id that enqueue returned; tasks are deleted some time after they end';
    ELSIF task.state = 'running' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC423',
            MESSAGE = format('sched.retry: task %s is running', retry.task_id),
            DETAIL = format('Attempt %s runs on worker %s since %s.', task.attempt, task.attempted_by[cardinality(task.attempted_by)], task.attempted_at),
            HINT = 'wait for its end, or end it with sched.cancel and retry it then';
    ELSIF task.state = 'available' AND task.scheduled_at <= now() THEN
        RETURN 'available';
    ELSIF task.attempt = 32767 THEN
        RAISE EXCEPTION USING
            ERRCODE = '22023',
            MESSAGE = format('sched.retry: task %s has had 32767 attempts, which is all a task can have', retry.task_id),
            HINT = 'enqueue a new task';
    END IF;

    BEGIN
        UPDATE sched.river_job AS j
        SET state = 'available',
            max_attempts = greatest(j.max_attempts, j.attempt + 1),
            finalized_at = NULL,
            scheduled_at = now(),
            metadata = j.metadata - '{cancel_attempted_at,sched:lost,output}'::text[]
        WHERE j.id = retry.task_id;
    EXCEPTION WHEN unique_violation THEN
        SELECT j.id INTO other FROM sched.river_job AS j
        WHERE j.unique_key = task.unique_key AND j.unique_states IS NOT NULL
            AND sched.river_job_state_in_bitmask(j.unique_states, j.state);
        RAISE EXCEPTION USING
            ERRCODE = 'SC410',
            MESSAGE = format('sched.retry: another unfinished task has the unique key of task %s', retry.task_id),
            DETAIL = format('Task %s of kind %s has it.', coalesce(other::text, '(just ended)'), task.kind),
            HINT = 'let that task do the work, or cancel it and retry this one then';
    END;
    IF task.attempted_at IS NOT NULL THEN
        INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
        SELECT
            task.id, task.attempt, task.attempted_by[cardinality(task.attempted_by)], task.attempted_at, task.finalized_at,
            CASE task.state WHEN 'retryable' THEN 'retry' WHEN 'scheduled' THEN 'snooze' WHEN 'available' THEN 'handback' ELSE task.state::text END,
            CASE WHEN (e.last ->> 'attempt') = task.attempt::text AND task.state <> 'completed' THEN e.last ->> 'error' END
        FROM (SELECT task.errors[cardinality(task.errors)] AS last) AS e
        -- Logged already if it had ended in a retry, snooze or hand-back.
        ON CONFLICT DO NOTHING;
    END IF;
    IF coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true) THEN
        PERFORM pg_notify('sched.river_insert', json_build_object('queue', task.queue)::text);
    END IF;
    RETURN 'available';
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.retry(bigint) IS 'Makes a waiting or ended task run again now, with one more attempt if all are spent. SC404 unknown, SC423 running, SC410 unique key taken by another unfinished task.';
