-- Locking: SHARE ROW EXCLUSIVE on setting, kind, queue, canary, flow and River's queue table for their triggers: it waits for
-- open transactions that write to them, and readers go on. In the order in which an enqueue takes them.
--
-- Who intervened: every change of what people configure leaves a row in sched.operator_action, whoever made it and by which
-- statement, and tells the sidecars (channel sched.config, payload: the table) to read their policy again. What sched does by
-- itself is not among it: the leader's columns of a queue and a canary, rows of queues made by use, River's heartbeat of a queue.
-- Nothing of this runs in an enqueue, a claim or a settle.

-- +goose Up

LOCK TABLE sched.setting, sched.kind, sched.queue, sched.river_queue, sched.canary, sched.flow IN SHARE ROW EXCLUSIVE MODE;

-- sched.operator_change(): trigger: logs what changed of a row that people configure, and tells the sidecars. Arguments: type
-- of object, its key column, and the columns that count, with commas between them. Equal notifications of one transaction are one.
-- Lock order: after the changed row, operator_action (insert only).
-- Bounds: one row per changed row.
-- +goose StatementBegin
CREATE FUNCTION sched.operator_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    was  jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    now_ jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
    what text := lower(TG_OP);
BEGIN
    IF TG_TABLE_NAME = 'river_queue' THEN
        what := CASE WHEN now_ ->> 'paused_at' IS NULL THEN 'resume' ELSE 'pause' END;
    END IF;
    INSERT INTO sched.operator_action (action, object_type, object, before, after)
    SELECT
        what, TG_ARGV[0], coalesce(now_, was) ->> TG_ARGV[1],
        jsonb_object_agg(c.name, was -> c.name) FILTER (WHERE was IS NOT NULL AND (now_ IS NOT NULL OR was ->> c.name IS NOT NULL)),
        jsonb_object_agg(c.name, now_ -> c.name) FILTER (WHERE now_ IS NOT NULL AND (was IS NOT NULL OR now_ ->> c.name IS NOT NULL))
    FROM unnest(string_to_array(TG_ARGV[2], ',')) AS c (name)
    WHERE (was -> c.name) IS DISTINCT FROM (now_ -> c.name);
    PERFORM pg_notify('sched.config', TG_TABLE_NAME);
    RETURN NULL;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.operator_change() IS 'Trigger: logs in sched.operator_action what people change, and tells the sidecars.';

-- sched.config_change(): trigger: tells the sidecars that something changed which they read, by whomever. Locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.config_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_notify('sched.config', TG_TABLE_NAME);
    RETURN NULL;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.config_change() IS 'Trigger: tells the sidecars to read their policy again.';

-- Whoever adds one is logged from the last of these migrations on: what they add is nobody's intervention.
CREATE TRIGGER setting_operator_update AFTER UPDATE OF value, pinned ON sched.setting FOR EACH ROW
    WHEN (OLD.value IS DISTINCT FROM NEW.value OR OLD.pinned IS DISTINCT FROM NEW.pinned)
    EXECUTE FUNCTION sched.operator_change('setting', 'key', 'value,pinned');
COMMENT ON TRIGGER setting_operator_update ON sched.setting IS 'Logs who changes one.';
CREATE TRIGGER setting_operator_delete AFTER DELETE ON sched.setting FOR EACH ROW
    EXECUTE FUNCTION sched.operator_change('setting', 'key', 'value,pinned');
COMMENT ON TRIGGER setting_operator_delete ON sched.setting IS 'Logs who removes one.';

CREATE TRIGGER kind_operator_insert AFTER INSERT ON sched.kind FOR EACH ROW
    EXECUTE FUNCTION sched.operator_change('kind', 'kind', 'description,queue,selector,protocol,priority,timeout,max_attempts,retry_base,retry_factor,retry_cap,retry_jitter,rate,burst,pinned');
COMMENT ON TRIGGER kind_operator_insert ON sched.kind IS 'Logs who adds one.';
CREATE TRIGGER kind_operator_update AFTER UPDATE OF description, queue, selector, protocol, priority, timeout, max_attempts, retry_base, retry_factor, retry_cap, retry_jitter, rate, burst, pinned ON sched.kind FOR EACH ROW
    WHEN ((OLD.description IS DISTINCT FROM NEW.description OR OLD.queue IS DISTINCT FROM NEW.queue OR OLD.selector IS DISTINCT FROM NEW.selector
        OR OLD.protocol IS DISTINCT FROM NEW.protocol OR OLD.priority IS DISTINCT FROM NEW.priority
        OR OLD.timeout IS DISTINCT FROM NEW.timeout OR OLD.max_attempts IS DISTINCT FROM NEW.max_attempts
        OR OLD.retry_base IS DISTINCT FROM NEW.retry_base OR OLD.retry_factor IS DISTINCT FROM NEW.retry_factor
        OR OLD.retry_cap IS DISTINCT FROM NEW.retry_cap OR OLD.retry_jitter IS DISTINCT FROM NEW.retry_jitter
        OR OLD.rate IS DISTINCT FROM NEW.rate OR OLD.burst IS DISTINCT FROM NEW.burst
        OR OLD.pinned IS DISTINCT FROM NEW.pinned))
    EXECUTE FUNCTION sched.operator_change('kind', 'kind', 'description,queue,selector,protocol,priority,timeout,max_attempts,retry_base,retry_factor,retry_cap,retry_jitter,rate,burst,pinned');
COMMENT ON TRIGGER kind_operator_update ON sched.kind IS 'Logs who changes one.';
CREATE TRIGGER kind_operator_delete AFTER DELETE ON sched.kind FOR EACH ROW
    EXECUTE FUNCTION sched.operator_change('kind', 'kind', 'description,queue,selector,protocol,priority,timeout,max_attempts,retry_base,retry_factor,retry_cap,retry_jitter,rate,burst,pinned');
COMMENT ON TRIGGER kind_operator_delete ON sched.kind IS 'Logs who removes one.';

-- A row that use made sets nothing.
CREATE TRIGGER queue_operator_insert AFTER INSERT ON sched.queue FOR EACH ROW
    WHEN (num_nonnulls(NEW.description, NEW.max_pending, NEW.max_running, NEW.rate, NEW.burst) > 0
        OR NEW.strategy <> 'least_loaded' OR NEW.admission <> 'accept' OR NEW.pinned)
    EXECUTE FUNCTION sched.operator_change('queue', 'name', 'description,strategy,admission,max_pending,max_running,rate,burst,pinned');
COMMENT ON TRIGGER queue_operator_insert ON sched.queue IS 'Logs who adds one.';
CREATE TRIGGER queue_operator_update AFTER UPDATE OF description, strategy, admission, max_pending, max_running, rate, burst, pinned ON sched.queue FOR EACH ROW
    WHEN ((OLD.description IS DISTINCT FROM NEW.description OR OLD.strategy IS DISTINCT FROM NEW.strategy OR OLD.admission IS DISTINCT FROM NEW.admission
        OR OLD.max_pending IS DISTINCT FROM NEW.max_pending OR OLD.max_running IS DISTINCT FROM NEW.max_running
        OR OLD.rate IS DISTINCT FROM NEW.rate OR OLD.burst IS DISTINCT FROM NEW.burst
        OR OLD.pinned IS DISTINCT FROM NEW.pinned))
    EXECUTE FUNCTION sched.operator_change('queue', 'name', 'description,strategy,admission,max_pending,max_running,rate,burst,pinned');
COMMENT ON TRIGGER queue_operator_update ON sched.queue IS 'Logs who changes one.';
CREATE TRIGGER queue_operator_delete AFTER DELETE ON sched.queue FOR EACH ROW
    EXECUTE FUNCTION sched.operator_change('queue', 'name', 'description,strategy,admission,max_pending,max_running,rate,burst,pinned');
COMMENT ON TRIGGER queue_operator_delete ON sched.queue IS 'Logs who removes one.';

-- River's clients and River UI pause by this column; they write the others all the time.
CREATE TRIGGER river_queue_operator_insert AFTER INSERT ON sched.river_queue FOR EACH ROW
    WHEN (NEW.paused_at IS NOT NULL)
    EXECUTE FUNCTION sched.operator_change('queue', 'name', 'paused_at');
COMMENT ON TRIGGER river_queue_operator_insert ON sched.river_queue IS 'Logs who adds one.';
CREATE TRIGGER river_queue_operator_update AFTER UPDATE OF paused_at ON sched.river_queue FOR EACH ROW
    WHEN (OLD.paused_at IS DISTINCT FROM NEW.paused_at)
    EXECUTE FUNCTION sched.operator_change('queue', 'name', 'paused_at');
COMMENT ON TRIGGER river_queue_operator_update ON sched.river_queue IS 'Logs who changes one.';
CREATE TRIGGER river_queue_operator_delete AFTER DELETE ON sched.river_queue FOR EACH ROW
    WHEN (OLD.paused_at IS NOT NULL)
    EXECUTE FUNCTION sched.operator_change('queue', 'name', 'paused_at');
COMMENT ON TRIGGER river_queue_operator_delete ON sched.river_queue IS 'Logs who removes one.';

-- The leader moves a canary that rises as its measures say, on or back to 0, together with step_at, and nothing else.
CREATE TRIGGER canary_operator_insert AFTER INSERT ON sched.canary FOR EACH ROW
    EXECUTE FUNCTION sched.operator_change('canary', 'queue', 'percent,state,steps,hold,max_p95_ms,max_error_points,max_cpu_points,abort_error_percent');
COMMENT ON TRIGGER canary_operator_insert ON sched.canary IS 'Logs who adds one.';
CREATE TRIGGER canary_operator_update AFTER UPDATE OF percent, state, steps, hold, max_p95_ms, max_error_points, max_cpu_points, abort_error_percent ON sched.canary FOR EACH ROW
    WHEN ((OLD.percent IS DISTINCT FROM NEW.percent OR OLD.state IS DISTINCT FROM NEW.state OR OLD.steps IS DISTINCT FROM NEW.steps
        OR OLD.hold IS DISTINCT FROM NEW.hold OR OLD.max_p95_ms IS DISTINCT FROM NEW.max_p95_ms
        OR OLD.max_error_points IS DISTINCT FROM NEW.max_error_points OR OLD.max_cpu_points IS DISTINCT FROM NEW.max_cpu_points
        OR OLD.abort_error_percent IS DISTINCT FROM NEW.abort_error_percent)
        AND NOT (
            NEW.step_at IS DISTINCT FROM OLD.step_at AND OLD.state = 'rising' AND NEW.state IN ('rising', 'full', 'rolled_back')
            AND NOT (OLD.steps IS DISTINCT FROM NEW.steps OR OLD.hold IS DISTINCT FROM NEW.hold OR OLD.max_p95_ms IS DISTINCT FROM NEW.max_p95_ms
                OR OLD.max_error_points IS DISTINCT FROM NEW.max_error_points OR OLD.max_cpu_points IS DISTINCT FROM NEW.max_cpu_points
                OR OLD.abort_error_percent IS DISTINCT FROM NEW.abort_error_percent)
        ))
    EXECUTE FUNCTION sched.operator_change('canary', 'queue', 'percent,state,steps,hold,max_p95_ms,max_error_points,max_cpu_points,abort_error_percent');
COMMENT ON TRIGGER canary_operator_update ON sched.canary IS 'Logs who changes one.';
CREATE TRIGGER canary_operator_delete AFTER DELETE ON sched.canary FOR EACH ROW
    EXECUTE FUNCTION sched.operator_change('canary', 'queue', 'percent,state,steps,hold,max_p95_ms,max_error_points,max_cpu_points,abort_error_percent');
COMMENT ON TRIGGER canary_operator_delete ON sched.canary IS 'Logs who removes one.';

CREATE TRIGGER canary_config AFTER UPDATE OF percent, workers ON sched.canary FOR EACH ROW
    WHEN (OLD.percent <> NEW.percent OR (OLD.workers = 0) <> (NEW.workers = 0))
    EXECUTE FUNCTION sched.config_change();
COMMENT ON TRIGGER canary_config ON sched.canary IS 'Tells the sidecars when the share that holds changes, by the leader too.';
CREATE TRIGGER flow_config_insert AFTER INSERT ON sched.flow FOR EACH ROW WHEN (NEW.paused_until IS NOT NULL)
    EXECUTE FUNCTION sched.config_change();
COMMENT ON TRIGGER flow_config_insert ON sched.flow IS 'Tells the sidecars of a timed pause.';
CREATE TRIGGER flow_config_update AFTER UPDATE OF paused_until ON sched.flow FOR EACH ROW WHEN (OLD.paused_until IS DISTINCT FROM NEW.paused_until)
    EXECUTE FUNCTION sched.config_change();
COMMENT ON TRIGGER flow_config_update ON sched.flow IS 'Tells the sidecars of a timed pause, or its end.';

-- sched.cancel, sched.retry, sched.drain_worker: as before; what they change is logged in sched.operator_action (insert only, last).
-- The first two are called for many tasks in one statement, and never compiled: each of their statements is about one row.
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

-- sched.retry(task_id): as before, but a task that is run again wakes whom a new one would, and the call is logged.
-- Lock order: the task's row, then attempt_log, then operator_action. Waits for whoever holds the row, and for an open
-- transaction that enqueues the same unique key. One subtransaction, to tell a taken key apart.
-- Bounds: one row, two log rows, one NOTIFY.
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
CREATE OR REPLACE FUNCTION sched.drain_worker(worker_id text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    was    text;
    now_is text;
BEGIN
    -- What it was is read under the lock that the update takes.
    UPDATE sched.worker AS w
    SET state = 'draining', state_version = w.state_version + 1, reason = 'drained by ' || session_user
    FROM (SELECT o.id, o.state FROM sched.worker AS o WHERE o.id = drain_worker.worker_id FOR NO KEY UPDATE) AS before
    WHERE w.id = before.id AND w.state IN ('pending', 'active')
    RETURNING before.state, w.state INTO was, now_is;
    IF FOUND THEN
        INSERT INTO sched.operator_action (action, object_type, object, before, after)
        VALUES ('drain', 'worker', drain_worker.worker_id, jsonb_build_object('state', was), jsonb_build_object('state', now_is));
    ELSE
        SELECT w.state INTO now_is FROM sched.worker AS w WHERE w.id = drain_worker.worker_id;
    END IF;
    IF now_is IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.drain_worker: there is no worker %s', coalesce(quote_literal(left(drain_worker.worker_id, 127)), 'NULL')),
            HINT = 'pass the id of a row in sched.worker; a sidecar gets a new one at each start and after an eviction';
    END IF;
    RETURN now_is;
END;
$$;
-- +goose StatementEnd

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

LOCK TABLE sched.setting, sched.kind, sched.queue, sched.river_queue, sched.canary, sched.flow IN SHARE ROW EXCLUSIVE MODE;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.cancel(task_id bigint) RETURNS text
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.drain_worker(worker_id text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    now_is text;
BEGIN
    UPDATE sched.worker AS w
    SET state = 'draining', state_version = w.state_version + 1, reason = 'drained by ' || session_user
    WHERE w.id = drain_worker.worker_id AND w.state IN ('pending', 'active')
    RETURNING w.state INTO now_is;
    IF NOT FOUND THEN
        SELECT w.state INTO now_is FROM sched.worker AS w WHERE w.id = drain_worker.worker_id;
    END IF;
    IF now_is IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.drain_worker: there is no worker %s', coalesce(quote_literal(left(drain_worker.worker_id, 127)), 'NULL')),
            HINT = 'pass the id of a row in sched.worker; a sidecar gets a new one at each start and after an eviction';
    END IF;
    RETURN now_is;
END;
$$;
-- +goose StatementEnd

DROP TRIGGER flow_config_update ON sched.flow;
DROP TRIGGER flow_config_insert ON sched.flow;
DROP TRIGGER canary_config ON sched.canary;
DROP TRIGGER canary_operator_delete ON sched.canary;
DROP TRIGGER canary_operator_update ON sched.canary;
DROP TRIGGER canary_operator_insert ON sched.canary;
DROP TRIGGER river_queue_operator_delete ON sched.river_queue;
DROP TRIGGER river_queue_operator_update ON sched.river_queue;
DROP TRIGGER river_queue_operator_insert ON sched.river_queue;
DROP TRIGGER queue_operator_delete ON sched.queue;
DROP TRIGGER queue_operator_update ON sched.queue;
DROP TRIGGER queue_operator_insert ON sched.queue;
DROP TRIGGER kind_operator_delete ON sched.kind;
DROP TRIGGER kind_operator_update ON sched.kind;
DROP TRIGGER kind_operator_insert ON sched.kind;
DROP TRIGGER setting_operator_delete ON sched.setting;
DROP TRIGGER setting_operator_update ON sched.setting;
DROP FUNCTION sched.config_change();
DROP FUNCTION sched.operator_change();
