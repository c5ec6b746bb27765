-- Locking: replaces functions and creates views only; nothing that is in use gets locked.
--
-- What is asked or done by a task's id works for archived tasks as well. And views of the workers and of what waits, for auditors and
-- dashboards.

-- +goose Up

-- sched.cancel(task_id): as before; an archived task has ended: its status.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.cancel(task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    task record;
BEGIN
    SELECT j.state, j.queue INTO task FROM sched.river_job AS j WHERE j.id = cancel.task_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        SELECT a.status INTO task.state FROM sched.task_archive AS a WHERE a.id = cancel.task_id;
        IF FOUND THEN
            RETURN task.state;
        END IF;
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.cancel: there is no task %s', coalesce(cancel.task_id::text, 'NULL')),
            HINT = 'pass the id that enqueue returned; tasks are deleted when they are older than the setting archive_keep_days';
    END IF;
    IF task.state IN ('completed', 'cancelled', 'discarded') THEN
        RETURN task.state;
    END IF;
    UPDATE sched.river_job AS j
    SET state = CASE WHEN j.state = 'running' THEN j.state ELSE 'cancelled' END,
        finalized_at = CASE WHEN j.state = 'running' THEN NULL ELSE clock_timestamp() END,
        metadata = j.metadata || jsonb_build_object('cancel_attempted_at', clock_timestamp())
    WHERE j.id = cancel.task_id;
    INSERT INTO sched.operator_action (action, object_type, object, before)
    VALUES ('cancel', 'task', cancel.task_id::text, jsonb_build_object('status', task.state));
    IF task.state = 'running' THEN
        PERFORM pg_notify('sched.river_control', json_build_object('action', 'cancel', 'job_id', cancel.task_id, 'queue', task.queue)::text);
        RETURN 'running';
    END IF;
    RETURN 'cancelled';
END;
$$;
-- +goose StatementEnd

-- sched.retry(task_id): as before; an archived task is brought back first.
-- Lock order: the task's row, or the archived one and then the task's; attempt_log; operator_action. Waits for whoever holds the row, and for
-- an open transaction that enqueues the same unique key. One subtransaction, to tell a taken key apart.
-- Bounds: one row and its logged attempts, two log rows, one NOTIFY.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.retry(task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    task   record;
    states bit(8);
    other  bigint;
BEGIN
    SELECT j.* INTO task FROM sched.river_job AS j WHERE j.id = retry.task_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        states := sched.unarchive_task(retry.task_id);
        -- Looked for again in any case: another may just have brought it back.
        SELECT j.* INTO task FROM sched.river_job AS j WHERE j.id = retry.task_id FOR NO KEY UPDATE;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.retry: there is no task %s', coalesce(retry.task_id::text, 'NULL')),
            HINT = 'pass the id that enqueue returned; tasks are deleted when they are older than the setting archive_keep_days';
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
            unique_states = coalesce(states, j.unique_states),
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
    INSERT INTO sched.operator_action (action, object_type, object, before)
    VALUES ('retry', 'task', retry.task_id::text, jsonb_build_object('status', task.state));
    IF coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true) THEN
        PERFORM sched.wake_queue(task.queue, task.id);
    END IF;
    RETURN 'available';
END;
$$;
-- +goose StatementEnd

-- sched.refuse_lease(task_id, lease): as before, of archived tasks as well.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.refuse_lease(task_id bigint, lease text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    claim record;
    task  record;
    story text;
BEGIN
    claim := sched.parse_lease(refuse_lease.lease);
    SELECT t.status AS state, t.start_time AS attempted_at, t.end_time AS finalized_at, t.worker_id INTO task
    FROM sched.task AS t WHERE t.id = refuse_lease.task_id;
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

-- sched.explain(task_id): as before, of archived tasks as well.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.explain(task_id bigint) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task    record;
    asked   text;
    because text;
BEGIN
    SELECT * INTO task FROM sched.task AS t WHERE t.id = explain.task_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.explain: there is no task %s', coalesce(explain.task_id::text, 'NULL')),
            HINT = 'pass the id that enqueue returned; a task exists once its transaction has committed, and is deleted when it is older than the setting archive_keep_days';
    END IF;
    SELECT left(m.metadata ->> 'cancel_attempted_at', 40) INTO asked
    FROM (
        SELECT j.metadata FROM sched.river_job AS j WHERE j.id = explain.task_id
        UNION ALL SELECT a.metadata FROM sched.task_archive AS a WHERE a.id = explain.task_id
    ) AS m;
    because := coalesce(': ' || sched.explain_error(task.error), '.');

    RETURN NEXT format('Task %s of kind %s is %s (queue %s, priority %s).', task.id, task.kind, task.status, task.queue, task.priority);
    CASE task.status
        WHEN 'available', 'pending' THEN
            RETURN NEXT CASE task.status
                WHEN 'available' THEN format('It waits for a worker, since %s.', sched.explain_time(task.run_at))
                ELSE 'A River client holds it back until it makes it available itself.'
            END;
            RETURN QUERY SELECT sched.explain_wait(task.id);
        WHEN 'scheduled', 'retryable' THEN
            RETURN NEXT format('%s %s.', CASE task.status WHEN 'scheduled' THEN 'It is scheduled for' ELSE 'Its next attempt is at' END, sched.explain_time(task.run_at));
            RETURN QUERY SELECT sched.explain_wait(task.id);
        WHEN 'running' THEN
            RETURN QUERY SELECT sched.explain_run(task.id);
            IF asked IS NOT NULL THEN
                RETURN NEXT format('Its cancellation was asked for at %s: its worker ends it.', asked);
            END IF;
        WHEN 'completed' THEN
            RETURN NEXT format('It completed at %s, in attempt %s.', sched.explain_time(task.end_time), task.attempt);
        WHEN 'cancelled' THEN
            RETURN NEXT format('It was cancelled at %s, %s%s', sched.explain_time(task.end_time),
                CASE WHEN asked IS NOT NULL THEN 'as was asked for at ' || asked ELSE 'by its app' END, because);
        WHEN 'discarded' THEN
            RETURN NEXT format('It was discarded at %s, after %s of %s attempts%s',
                sched.explain_time(task.end_time), task.attempt, task.max_attempts, because);
    END CASE;

    RETURN QUERY SELECT a.line FROM sched.explain_attempts(task.id) AS a (line);
    IF task.status IN ('completed', 'cancelled', 'discarded') THEN
        RETURN QUERY SELECT sched.explain_taken(task.id, task.queue, task.worker_id);
    END IF;
    IF task.archived THEN
        RETURN NEXT 'It is in the archive; sched.retry brings it back.';
    END IF;
    RETURN NEXT format('It was enqueued at %s by %s.', sched.explain_time(task.created_at), CASE
        WHEN task.enqueued_by IS NULL THEN 'a River client'
        ELSE task.enqueued_by || coalesce(' (' || task.enqueued_app || ')', '')
    END);
END;
$$;
-- +goose StatementEnd

CREATE VIEW sched.workers AS
SELECT
    w.id, w.hostname, w.version, w.app_url, w.labels, w.queues, w.kinds, w.protocols, w.state, w.health, w.running, w.slots, w.ceiling,
    w.cpu, w.mem, w.load_percent, w.rtt_ms, w.started_at, w.heartbeat_at, w.ended_at, w.reason
FROM sched.worker AS w;
COMMENT ON VIEW sched.workers IS 'The registrations of sidecars: those that live, and those that ended in the last 7 days.';
COMMENT ON COLUMN sched.workers.id IS 'Random id of this registration.';
COMMENT ON COLUMN sched.workers.hostname IS 'Machine that the sidecar runs on.';
COMMENT ON COLUMN sched.workers.version IS 'Version of the sidecar.';
COMMENT ON COLUMN sched.workers.app_url IS 'Where the sidecar reaches its app.';
COMMENT ON COLUMN sched.workers.labels IS 'Labels that selectors are matched with.';
COMMENT ON COLUMN sched.workers.queues IS 'Base names of the queues it is narrowed to; NULL: all.';
COMMENT ON COLUMN sched.workers.kinds IS 'Kinds it is narrowed to; NULL: all.';
COMMENT ON COLUMN sched.workers.protocols IS 'Protocols that its app speaks.';
COMMENT ON COLUMN sched.workers.state IS 'pending, active, draining, done or evicted.';
COMMENT ON COLUMN sched.workers.health IS 'good, strained or overloaded.';
COMMENT ON COLUMN sched.workers.running IS 'Tasks that it runs.';
COMMENT ON COLUMN sched.workers.slots IS 'Tasks that it may run at once now.';
COMMENT ON COLUMN sched.workers.ceiling IS 'Tasks that it may run at once at most.';
COMMENT ON COLUMN sched.workers.cpu IS 'CPU use of the app, 0 to 1.';
COMMENT ON COLUMN sched.workers.mem IS 'Memory use of the app, 0 to 1.';
COMMENT ON COLUMN sched.workers.load_percent IS 'Resource load of the app, 0 to 100.';
COMMENT ON COLUMN sched.workers.rtt_ms IS 'Round trip to the database in milliseconds.';
COMMENT ON COLUMN sched.workers.started_at IS 'When it registered.';
COMMENT ON COLUMN sched.workers.heartbeat_at IS 'Last heartbeat, by the clock of the database.';
COMMENT ON COLUMN sched.workers.ended_at IS 'When it ended or was evicted; NULL while it lives.';
COMMENT ON COLUMN sched.workers.reason IS 'Why it is in this state.';

-- Its priority is the column itself, unlike that of sched.task: only so it is in the order of the claim's index.
CREATE VIEW sched.waiting AS
SELECT
    j.id, j.kind, j.queue, j.priority, j.scheduled_at AS run_at, j.created_at,
    j.metadata #>> '{sched:by,user}' AS enqueued_by, nullif(j.metadata #>> '{sched:by,app}', '') AS enqueued_app
FROM sched.river_job AS j
WHERE j.state = 'available';
COMMENT ON VIEW sched.waiting IS 'The tasks that are available. queue = ... ordered by priority, run_at, id, or with priority = ... by run_at, id, is served by the index of the claim.';
COMMENT ON COLUMN sched.waiting.id IS 'Id of the task.';
COMMENT ON COLUMN sched.waiting.kind IS 'Kind.';
COMMENT ON COLUMN sched.waiting.queue IS 'Queue.';
COMMENT ON COLUMN sched.waiting.priority IS '1 starts first, 4 last.';
COMMENT ON COLUMN sched.waiting.run_at IS 'Since when it may run.';
COMMENT ON COLUMN sched.waiting.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN sched.waiting.enqueued_by IS 'Login role that enqueued it; NULL if a River client did.';
COMMENT ON COLUMN sched.waiting.enqueued_app IS 'application_name of that connection.';

REVOKE ALL ON sched.workers, sched.waiting FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

DROP VIEW sched.waiting;
DROP VIEW sched.workers;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.explain(task_id bigint) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task    record;
    asked   text;
    because text;
BEGIN
    SELECT * INTO task FROM sched.task AS t WHERE t.id = explain.task_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.explain: there is no task %s', coalesce(explain.task_id::text, 'NULL')),
            HINT = 'pass the id that enqueue returned; a task exists once its transaction has committed, and is deleted some time after it ended';
    END IF;
    SELECT left(j.metadata ->> 'cancel_attempted_at', 40) INTO asked FROM sched.river_job AS j WHERE j.id = explain.task_id;
    because := coalesce(': ' || sched.explain_error(task.error), '.');

    RETURN NEXT format('Task %s of kind %s is %s (queue %s, priority %s).', task.id, task.kind, task.status, task.queue, task.priority);
    CASE task.status
        WHEN 'available', 'pending' THEN
            RETURN NEXT CASE task.status
                WHEN 'available' THEN format('It waits for a worker, since %s.', sched.explain_time(task.run_at))
                ELSE 'A River client holds it back until it makes it available itself.'
            END;
            RETURN QUERY SELECT sched.explain_wait(task.id);
        WHEN 'scheduled', 'retryable' THEN
            RETURN NEXT format('%s %s.', CASE task.status WHEN 'scheduled' THEN 'It is scheduled for' ELSE 'Its next attempt is at' END, sched.explain_time(task.run_at));
            RETURN QUERY SELECT sched.explain_wait(task.id);
        WHEN 'running' THEN
            RETURN QUERY SELECT sched.explain_run(task.id);
            IF asked IS NOT NULL THEN
                RETURN NEXT format('Its cancellation was asked for at %s: its worker ends it.', asked);
            END IF;
        WHEN 'completed' THEN
            RETURN NEXT format('It completed at %s, in attempt %s.', sched.explain_time(task.end_time), task.attempt);
        WHEN 'cancelled' THEN
            RETURN NEXT format('It was cancelled at %s, %s%s', sched.explain_time(task.end_time),
                CASE WHEN asked IS NOT NULL THEN 'as was asked for at ' || asked ELSE 'by its app' END, because);
        WHEN 'discarded' THEN
            RETURN NEXT format('It was discarded at %s, after %s of %s attempts%s',
                sched.explain_time(task.end_time), task.attempt, task.max_attempts, because);
    END CASE;

    RETURN QUERY SELECT a.line FROM sched.explain_attempts(task.id) AS a (line);
    IF task.status IN ('completed', 'cancelled', 'discarded') THEN
        RETURN QUERY SELECT sched.explain_taken(task.id, task.queue, task.worker_id);
    END IF;
    RETURN NEXT format('It was enqueued at %s by %s.', sched.explain_time(task.created_at), CASE
        WHEN task.enqueued_by IS NULL THEN 'a River client'
        ELSE task.enqueued_by || coalesce(' (' || task.enqueued_app || ')', '')
    END);
END;
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.refuse_lease(task_id bigint, lease text) RETURNS void
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.retry(task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
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
    INSERT INTO sched.operator_action (action, object_type, object, before)
    VALUES ('retry', 'task', retry.task_id::text, jsonb_build_object('status', task.state));
    IF coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true) THEN
        PERFORM sched.wake_queue(task.queue, task.id);
    END IF;
    RETURN 'available';
END;
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.cancel(task_id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
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
    INSERT INTO sched.operator_action (action, object_type, object, before)
    VALUES ('cancel', 'task', cancel.task_id::text, jsonb_build_object('status', task.state));
    IF task.state = 'running' THEN
        PERFORM pg_notify('sched.river_control', json_build_object('action', 'cancel', 'job_id', cancel.task_id, 'queue', task.queue)::text);
        RETURN 'running';
    END IF;
    RETURN 'cancelled';
END;
$$;
-- +goose StatementEnd
