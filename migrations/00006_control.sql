-- Locking: creates functions only; nothing that is in use gets locked.

-- +goose Up

-- sched.parse_lease(lease): worker id and claim time of a lease, worker_id NULL if it isn't one. Pure. The time is rebuilt
-- in whole hours and whole microseconds within one, which are exact in every version of Postgres.
-- +goose StatementBegin
CREATE FUNCTION sched.parse_lease(lease text, OUT worker_id text, OUT attempted_at timestamptz)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parts  text[] := regexp_match(lease COLLATE "C", '^([A-Za-z0-9_-]{1,127})\.([0-9]{1,17})$');
    micros bigint := parts[2]::bigint;
BEGIN
    worker_id := parts[1];
    attempted_at := timestamptz '1970-01-01 00:00:00+00'
        + make_interval(hours => (micros / 3600000000)::integer) + (micros % 3600000000) * interval '1 microsecond';
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.parse_lease(text) IS 'Internal: worker id and claim time of a lease; worker_id is NULL if the text is not a lease.';

-- sched.refuse_lease(task_id, lease): raises SC404 or SC409 with what became of the attempt. Reads one row, locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.refuse_lease(task_id bigint, lease text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    claim record;
    task  record;
    story text;
BEGIN
    claim := sched.parse_lease(refuse_lease.lease);
    SELECT j.state, j.attempted_at, j.finalized_at, j.attempted_by[cardinality(j.attempted_by)] AS worker_id INTO task
    FROM sched.river_job AS j WHERE j.id = refuse_lease.task_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.complete: there is no task %s', refuse_lease.task_id),
            HINT = 'roll back; check that the task id is that of the request, and that this is the database the task was enqueued in';
    END IF;
    story := CASE
        WHEN task.state = 'completed' AND task.attempted_at = claim.attempted_at AND task.worker_id = claim.worker_id
            THEN format('this attempt was completed already, at %s', task.finalized_at)
        WHEN task.state IN ('completed', 'cancelled', 'discarded') THEN format('the task is %s since %s', task.state, task.finalized_at)
        WHEN task.state = 'running' THEN format('another attempt, begun at %s, runs on worker %s', task.attempted_at, task.worker_id)
        WHEN EXISTS (
            SELECT FROM sched.worker AS w WHERE w.id = claim.worker_id AND w.state = 'evicted'
        ) THEN format('worker %s was evicted and the task taken from it; it is %s', claim.worker_id, task.state)
        ELSE format('the attempt has ended; the task is %s', task.state)
    END;
    RAISE EXCEPTION USING
        ERRCODE = 'SC409',
        MESSAGE = format('sched.complete: lease %L does not own task %s: %s', refuse_lease.lease, refuse_lease.task_id, story),
        HINT = 'roll back and answer with an error: the effect of this attempt must not be kept';
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.refuse_lease(bigint, text) IS 'Internal: raises SC404 or SC409 with what became of an attempt whose lease is lost.';

-- sched.complete(task_id, lease, output): completes the task in the caller's transaction, so that effect and completion
-- commit together. Raises SC409 unless the lease owns a running attempt, also when it was completed before: a second run of
-- the effect must roll back.
-- Lock order: the task's row, nothing else. Waits for whoever holds that row (an open sched.cancel, or a second completion).
-- Bounds: one update by primary key; output at most max_args_bytes.
-- +goose StatementBegin
CREATE FUNCTION sched.complete(task_id bigint, lease text, output jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    claim     record;
    max_bytes integer;
BEGIN
    claim := sched.parse_lease(complete.lease);
    IF complete.task_id IS NULL OR claim.worker_id IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = '22023',
            MESSAGE = format('sched.complete: %s', CASE
                WHEN complete.task_id IS NULL THEN 'task_id is NULL'
                ELSE format('lease %s is not of the form <worker id>.<microseconds>', coalesce(quote_literal(left(complete.lease, 127)), 'NULL'))
            END),
            HINT = 'pass the id and the lease of the request unchanged (headers ce-id and Sched-Lease)';
    END IF;
    IF complete.output IS NOT NULL THEN
        SELECT coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_args_bytes'), 1048576) INTO max_bytes;
        IF octet_length(complete.output::text) > max_bytes THEN
            RAISE EXCEPTION USING
                ERRCODE = '54000',
                MESSAGE = format('sched.complete: output has %s bytes of JSON text; at most %s are allowed', octet_length(complete.output::text), max_bytes),
                HINT = 'store the data elsewhere and pass a reference, or raise the setting max_args_bytes in sched.setting';
        END IF;
    END IF;

    UPDATE sched.river_job AS j
    SET state = 'completed',
        -- The moment of the call, not of the transaction's start: an attempt can't end before it began.
        finalized_at = greatest(clock_timestamp(), j.attempted_at),
        metadata = CASE
            WHEN complete.output IS NULL THEN j.metadata
            ELSE j.metadata || jsonb_build_object('output', complete.output)
        END
    WHERE j.id = complete.task_id AND j.state = 'running'
        AND j.attempted_at = claim.attempted_at AND j.attempted_by[cardinality(j.attempted_by)] = claim.worker_id;
    IF NOT FOUND THEN
        PERFORM sched.refuse_lease(complete.task_id, complete.lease);
    END IF;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.complete(bigint, text, jsonb) IS 'Completes a running task in the caller''s transaction, with an output if given. SC409 if the lease does not own a running attempt: roll back then.';

-- sched.cancel(task_id): ends a waiting task at once and asks for the end of a running one. Returns the status after it:
-- cancelled, running (asked; its sidecar ends it), or the final status that the task had. SC404 when unknown.
-- Lock order: the task's row. Waits for an app that is completing the task in an open transaction: what it commits decides.
-- Bounds: one row; one NOTIFY for a running task.
-- +goose StatementBegin
CREATE FUNCTION sched.cancel(task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task record;
BEGIN
    SELECT j.state, j.queue INTO task FROM sched.river_job AS j WHERE j.id = cancel.task_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.cancel: there is no task %s', coalesce(cancel.task_id::text, 'NULL')),
            HINT = 'pass the id that enqueue returned; tasks are deleted some time after they end';
    END IF;
    IF task.state IN ('completed', 'cancelled', 'discarded') THEN
        RETURN task.state;
    END IF;
    UPDATE sched.river_job AS j
    SET state = CASE WHEN j.state = 'running' THEN j.state ELSE 'cancelled' END,
        finalized_at = CASE WHEN j.state = 'running' THEN NULL ELSE clock_timestamp() END,
        metadata = j.metadata || jsonb_build_object('cancel_attempted_at', clock_timestamp())
    WHERE j.id = cancel.task_id;
    IF task.state = 'running' THEN
        PERFORM pg_notify('sched.river_control', json_build_object('action', 'cancel', 'job_id', cancel.task_id, 'queue', task.queue)::text);
        RETURN 'running';
    END IF;
    RETURN 'cancelled';
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.cancel(bigint) IS 'Cancels a task: at once if it waits, through its sidecar if it runs. Returns the status after it. SC404 if there is no such task.';

-- sched.retry(task_id): makes a waiting or ended task run again now; returns available. A task whose attempts are spent gets
-- one more; a cancel that was asked for earlier, an output, and the count of workers that died holding the task belong to the
-- past and go. The last attempt, whose record is the row, is kept in the log. SC404 unknown, SC423 running, SC410 another unfinished task
-- has its unique key.
-- Lock order: the task's row, then attempt_log. Waits for whoever holds the row, and for an open transaction that enqueues
-- the same unique key. One subtransaction, to tell a taken key apart.
-- Bounds: one row, one log row, one NOTIFY.
-- +goose StatementBegin
CREATE FUNCTION sched.retry(task_id bigint) RETURNS text
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

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

DROP FUNCTION sched.retry(bigint);
DROP FUNCTION sched.cancel(bigint);
DROP FUNCTION sched.complete(bigint, text, jsonb);
DROP FUNCTION sched.refuse_lease(bigint, text);
DROP FUNCTION sched.parse_lease(text);
