-- Locking: creates a table of its own; nothing that is in use gets locked.
--
-- Periodic tasks. A row says what to enqueue, and when; whoever leads enqueues what is due, in one transaction with the move to the
-- next time, so that each time has one task whoever leads. What a person writes and what the leader marks share a row; the
-- leader's columns are at the end.

-- +goose Up

CREATE TABLE sched.schedule (
    name           text PRIMARY KEY,
    description    text,
    cron           text NOT NULL,
    timezone       text NOT NULL DEFAULT 'UTC',
    kind           text NOT NULL,
    args           jsonb NOT NULL DEFAULT '{}',
    queue          text,
    selector       jsonb,
    protocol       text,
    priority       smallint,
    timeout        interval,
    max_attempts   integer,
    overlap        boolean NOT NULL DEFAULT true,
    paused         boolean NOT NULL DEFAULT false,
    pinned         boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    updated_by     text NOT NULL DEFAULT session_user,
    next_run_at    timestamptz,
    last_due_at    timestamptz,
    last_run_at    timestamptz,
    last_task_id   bigint,
    waiting_since  timestamptz,
    waiting_reason text,
    error          text,
    CONSTRAINT schedule_name_check CHECK (
        char_length(name) >= 1 AND char_length(name) <= 100 AND name COLLATE "C" ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$'
    ),
    CONSTRAINT schedule_description_check CHECK (char_length(description) BETWEEN 1 AND 1000),
    CONSTRAINT schedule_cron_check CHECK (char_length(cron) BETWEEN 1 AND 200),
    CONSTRAINT schedule_timezone_check CHECK (char_length(timezone) BETWEEN 1 AND 100),
    CONSTRAINT schedule_kind_check CHECK (
        char_length(kind) >= 1 AND char_length(kind) <= 127 AND kind COLLATE "C" ~ '^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.\u00b7:+]*$'
    ),
    CONSTRAINT schedule_queue_check CHECK (
        char_length(queue) >= 1 AND char_length(queue) <= 100 AND queue COLLATE "C" ~ '^[a-z0-9]+(?:[_-][a-z0-9]+)*$'
    ),
    CONSTRAINT schedule_selector_check CHECK (
        CASE jsonb_typeof(selector)
            WHEN 'object' THEN
                jsonb_array_length(jsonb_path_query_array(selector, '$.keyvalue()')) <= 64
                AND NOT jsonb_path_exists(
                    selector,
                    '$.keyvalue() ? (@.value.type() != "string"
                        || !(@.key like_regex "^.{1,63}$" flag "s") || !(@.value like_regex "^.{0,255}$" flag "s"))'
                )
                -- No control characters. JSON text has most of them as escapes, which are told from an escaped backslash.
                AND replace(selector::text, '\\', '') COLLATE "C" !~ '\\[bfnrtu]|[\u007f-\u009f]'
            ELSE selector IS NULL
        END
    ),
    CONSTRAINT schedule_protocol_check CHECK (protocol IN ('any', 'http', 'grpc', 'exec')),
    CONSTRAINT schedule_priority_check CHECK (priority BETWEEN 1 AND 4),
    CONSTRAINT schedule_timeout_check CHECK (timeout > interval '0' AND timeout <= interval '7 days'),
    CONSTRAINT schedule_max_attempts_check CHECK (max_attempts BETWEEN 1 AND 32767)
) WITH (fillfactor = 50);
COMMENT ON TABLE sched.schedule IS 'Periodic tasks: what is enqueued, and when. The leader enqueues what is due; times that passed while nobody led, or while the queue was red, are made up for by one task.';
COMMENT ON COLUMN sched.schedule.name IS 'Name.';
COMMENT ON COLUMN sched.schedule.description IS 'What it is, for people.';
COMMENT ON COLUMN sched.schedule.cron IS 'When: five fields (minute, hour, day of month, month, day of week), @hourly, @daily, @weekly, @monthly, @yearly or @every with a duration.';
COMMENT ON COLUMN sched.schedule.timezone IS 'Whose clock cron means: a name such as Europe/Berlin.';
COMMENT ON COLUMN sched.schedule.kind IS 'Kind of its tasks.';
COMMENT ON COLUMN sched.schedule.args IS 'Their args.';
COMMENT ON COLUMN sched.schedule.queue IS 'Their queue (base name). NULL here and below: the kind''s default, else the global one.';
COMMENT ON COLUMN sched.schedule.selector IS 'Labels that their workers must carry, as an object of strings.';
COMMENT ON COLUMN sched.schedule.protocol IS 'Protocol that their workers must speak: any, http, grpc or exec.';
COMMENT ON COLUMN sched.schedule.priority IS 'Their priority: 1 starts first, 4 last.';
COMMENT ON COLUMN sched.schedule.timeout IS 'Time that an attempt may take; above 0, up to 7 days.';
COMMENT ON COLUMN sched.schedule.max_attempts IS 'Attempts after which a failing task is discarded, 1 to 32767.';
COMMENT ON COLUMN sched.schedule.overlap IS 'Whether a task is enqueued while the one before it is unfinished.';
COMMENT ON COLUMN sched.schedule.paused IS 'Nothing is enqueued. Times that pass meanwhile are not made up for.';
COMMENT ON COLUMN sched.schedule.pinned IS 'An operator''s row: sched apply never changes it.';
COMMENT ON COLUMN sched.schedule.created_at IS 'When the row was made.';
COMMENT ON COLUMN sched.schedule.updated_at IS 'When somebody last changed it; the leader''s marks don''t count.';
COMMENT ON COLUMN sched.schedule.updated_by IS 'Login role that last changed it.';
COMMENT ON COLUMN sched.schedule.next_run_at IS 'When it is due next. NULL: the leader has yet to work it out. The leader marks this and the columns below.';
COMMENT ON COLUMN sched.schedule.last_due_at IS 'The time that the last task was for.';
COMMENT ON COLUMN sched.schedule.last_run_at IS 'When the last task was enqueued.';
COMMENT ON COLUMN sched.schedule.last_task_id IS 'That task.';
COMMENT ON COLUMN sched.schedule.waiting_since IS 'Since when it is due and not enqueued. NULL: it isn''t.';
COMMENT ON COLUMN sched.schedule.waiting_reason IS 'Why not, in words.';
COMMENT ON COLUMN sched.schedule.error IS 'What is wrong with it. Nothing is enqueued until somebody changes the row. NULL: nothing.';

CREATE INDEX schedule_next_index ON sched.schedule (next_run_at) WHERE NOT paused AND error IS NULL;
COMMENT ON INDEX sched.schedule_next_index IS 'What is due.';

-- sched.schedule_changed(): trigger: what the leader marked no longer holds for a row that somebody changed. A resumed schedule
-- begins anew, and so does one with another time; other changes only clear the error. Locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.schedule_changed() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (OLD.cron IS DISTINCT FROM NEW.cron OR OLD.timezone IS DISTINCT FROM NEW.timezone) OR NEW.paused OR OLD.paused THEN
        NEW.next_run_at := NULL;
    END IF;
    NEW.error := NULL;
    NEW.waiting_since := NULL;
    NEW.waiting_reason := NULL;
    RETURN NEW;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.schedule_changed() IS 'Trigger of sched.schedule: clears what the leader marked when somebody changes a row.';

CREATE TRIGGER schedule_changed BEFORE UPDATE OF description, cron, timezone, kind, args, queue, selector, protocol, priority, timeout, max_attempts, overlap, paused, pinned ON sched.schedule FOR EACH ROW
    WHEN ((OLD.description IS DISTINCT FROM NEW.description OR OLD.cron IS DISTINCT FROM NEW.cron OR OLD.timezone IS DISTINCT FROM NEW.timezone
        OR OLD.kind IS DISTINCT FROM NEW.kind OR OLD.args IS DISTINCT FROM NEW.args
        OR OLD.queue IS DISTINCT FROM NEW.queue OR OLD.selector IS DISTINCT FROM NEW.selector
        OR OLD.protocol IS DISTINCT FROM NEW.protocol OR OLD.priority IS DISTINCT FROM NEW.priority
        OR OLD.timeout IS DISTINCT FROM NEW.timeout OR OLD.max_attempts IS DISTINCT FROM NEW.max_attempts
        OR OLD.overlap IS DISTINCT FROM NEW.overlap OR OLD.paused IS DISTINCT FROM NEW.paused
        OR OLD.pinned IS DISTINCT FROM NEW.pinned))
    EXECUTE FUNCTION sched.schedule_changed();
COMMENT ON TRIGGER schedule_changed ON sched.schedule IS 'Clears what the leader marked.';
CREATE TRIGGER schedule_stamp BEFORE INSERT OR UPDATE OF description, cron, timezone, kind, args, queue, selector, protocol, priority, timeout, max_attempts, overlap, paused, pinned ON sched.schedule FOR EACH ROW
    EXECUTE FUNCTION sched.setting_stamp();
COMMENT ON TRIGGER schedule_stamp ON sched.schedule IS 'Stamps updated_at and updated_by.';
CREATE TRIGGER schedule_operator_insert AFTER INSERT ON sched.schedule FOR EACH ROW
    EXECUTE FUNCTION sched.operator_change('schedule', 'name', 'description,cron,timezone,kind,args,queue,selector,protocol,priority,timeout,max_attempts,overlap,paused,pinned');
COMMENT ON TRIGGER schedule_operator_insert ON sched.schedule IS 'Logs who adds one.';
CREATE TRIGGER schedule_operator_update AFTER UPDATE OF description, cron, timezone, kind, args, queue, selector, protocol, priority, timeout, max_attempts, overlap, paused, pinned ON sched.schedule FOR EACH ROW
    WHEN ((OLD.description IS DISTINCT FROM NEW.description OR OLD.cron IS DISTINCT FROM NEW.cron OR OLD.timezone IS DISTINCT FROM NEW.timezone
        OR OLD.kind IS DISTINCT FROM NEW.kind OR OLD.args IS DISTINCT FROM NEW.args
        OR OLD.queue IS DISTINCT FROM NEW.queue OR OLD.selector IS DISTINCT FROM NEW.selector
        OR OLD.protocol IS DISTINCT FROM NEW.protocol OR OLD.priority IS DISTINCT FROM NEW.priority
        OR OLD.timeout IS DISTINCT FROM NEW.timeout OR OLD.max_attempts IS DISTINCT FROM NEW.max_attempts
        OR OLD.overlap IS DISTINCT FROM NEW.overlap OR OLD.paused IS DISTINCT FROM NEW.paused
        OR OLD.pinned IS DISTINCT FROM NEW.pinned))
    EXECUTE FUNCTION sched.operator_change('schedule', 'name', 'description,cron,timezone,kind,args,queue,selector,protocol,priority,timeout,max_attempts,overlap,paused,pinned');
COMMENT ON TRIGGER schedule_operator_update ON sched.schedule IS 'Logs who changes one.';
CREATE TRIGGER schedule_operator_delete AFTER DELETE ON sched.schedule FOR EACH ROW
    EXECUTE FUNCTION sched.operator_change('schedule', 'name', 'description,cron,timezone,kind,args,queue,selector,protocol,priority,timeout,max_attempts,overlap,paused,pinned');
COMMENT ON TRIGGER schedule_operator_delete ON sched.schedule IS 'Logs who removes one.';

-- sched.mark_schedule(name, cron, timezone, due, next, waiting, error): writes down what the leader found out about a schedule, if it is
-- as the leader read it: due next at due, by this cron and timezone. False: it isn't, or somebody holds the row.
-- Lock order: the schedule's row, skipped when it is locked. Bounds: one row.
-- +goose StatementBegin
CREATE FUNCTION sched.mark_schedule(name text, cron text, timezone text, due timestamptz, next timestamptz, waiting text, error text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    UPDATE sched.schedule AS s
    SET next_run_at = mark_schedule.next,
        waiting_since = CASE WHEN mark_schedule.waiting IS NOT NULL THEN coalesce(s.waiting_since, clock_timestamp()) END,
        waiting_reason = mark_schedule.waiting,
        error = mark_schedule.error
    FROM (
        SELECT l.name FROM sched.schedule AS l
        WHERE l.name = mark_schedule.name AND l.cron = mark_schedule.cron AND l.timezone = mark_schedule.timezone
            AND l.next_run_at IS NOT DISTINCT FROM mark_schedule.due AND NOT l.paused AND l.error IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS locked
    WHERE s.name = locked.name;
    RETURN FOUND;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.mark_schedule(text, text, text, timestamptz, timestamptz, text, text) IS 'Internal: by the leader: when a schedule is due next, why it waits, or what is wrong with it.';

-- sched.schedule_task(schedule, due): enqueues a schedule's task for a time. Locks what sched.enqueue does.
-- +goose StatementBegin
CREATE FUNCTION sched.schedule_task(schedule sched.schedule, due timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN sched.enqueue(
        kind => schedule.kind, args => schedule.args, queue => schedule.queue, priority => schedule.priority::integer,
        selector => schedule.selector, protocol => schedule.protocol, max_attempts => schedule.max_attempts, timeout => schedule.timeout,
        unique_key => CASE WHEN NOT schedule.overlap THEN 'schedule:' || schedule.name END,
        headers => jsonb_build_object(
            'Schedule', schedule.name,
            'Schedule-Due', to_char(schedule_task.due AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')));
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.schedule_task(sched.schedule, timestamptz) IS 'Internal: enqueues a schedule''s task.';

-- sched.run_due_schedule(name, cron, timezone, due, next): enqueues the task of a schedule that is due, and moves it to its next time, both or
-- neither, if it is still as the leader read it: two leaders enqueue one task. At red pressure of the queue it waits instead, which
-- is marked. outcome: ran, waiting, or passed (it isn't as read, or somebody holds the row: the next look tells).
-- Lock order: the schedule's row, skipped when it is locked; then what sched.enqueue locks. Bounds: one task.
-- +goose StatementBegin
CREATE FUNCTION sched.run_due_schedule(
    name text, cron text, timezone text, due timestamptz, next timestamptz, OUT outcome text, OUT task_id bigint
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    s   sched.schedule;
    red record;
BEGIN
    SELECT l.* INTO s FROM sched.schedule AS l
    WHERE l.name = run_due_schedule.name AND l.cron = run_due_schedule.cron AND l.timezone = run_due_schedule.timezone
        AND l.next_run_at = run_due_schedule.due AND NOT l.paused AND l.error IS NULL
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        outcome := 'passed';
        RETURN;
    END IF;
    -- An old level says nothing: nobody leads.
    SELECT q.name, q.pressure_reason INTO red
    FROM sched.queue AS q, sched.fleet AS f
    WHERE q.pressure = 'red' AND f.computed_at > clock_timestamp() - interval '5 seconds'
        AND q.name = (
            SELECT sched.queue_name(
                coalesce(s.queue, max(k.queue), 'default'), coalesce(s.selector, max(k.selector::text)::jsonb, '{}'),
                coalesce(s.protocol, max(k.protocol), 'any'))
            FROM sched.kind AS k WHERE k.kind = s.kind
        );
    IF FOUND THEN
        UPDATE sched.schedule AS w
        SET waiting_since = coalesce(w.waiting_since, clock_timestamp()),
            waiting_reason = format('queue %s is red', red.name) || coalesce(': ' || red.pressure_reason, '')
        WHERE w.name = s.name
            AND w.waiting_reason IS DISTINCT FROM format('queue %s is red', red.name) || coalesce(': ' || red.pressure_reason, '');
        outcome := 'waiting';
        RETURN;
    END IF;
    task_id := sched.schedule_task(s, s.next_run_at);
    UPDATE sched.schedule AS r
    SET next_run_at = run_due_schedule.next, last_due_at = s.next_run_at, last_run_at = clock_timestamp(),
        last_task_id = run_due_schedule.task_id, waiting_since = NULL, waiting_reason = NULL
    WHERE r.name = s.name;
    outcome := 'ran';
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.run_due_schedule(text, text, text, timestamptz, timestamptz) IS 'Internal: by the leader: enqueues what a schedule is due for, unless its queue is red.';

-- sched.run_schedule(name): enqueues a schedule's task now, whatever the time and the pressure, also of one that is paused or has an error;
-- returns its id. The next time stays. SC404 if there is no such schedule.
-- Lock order: the schedule's row; then what sched.enqueue locks. Bounds: one task.
-- +goose StatementBegin
CREATE FUNCTION sched.run_schedule(name text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    s        sched.schedule;
    new_task bigint;
BEGIN
    SELECT l.* INTO s FROM sched.schedule AS l WHERE l.name = run_schedule.name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.run_schedule: there is no schedule %L', run_schedule.name),
            HINT = 'SELECT name FROM sched.schedule lists them';
    END IF;
    new_task := sched.schedule_task(s, clock_timestamp());
    UPDATE sched.schedule AS r SET last_run_at = clock_timestamp(), last_task_id = new_task WHERE r.name = s.name;
    INSERT INTO sched.operator_action (action, object_type, object, after)
    VALUES ('run', 'schedule', s.name, jsonb_build_object('task_id', new_task));
    RETURN new_task;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.run_schedule(text) IS 'Enqueues a schedule''s task now, beside its times, and returns its id.';

REVOKE ALL ON ALL TABLES IN SCHEMA sched FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

DROP FUNCTION sched.run_schedule(text);
DROP FUNCTION sched.run_due_schedule(text, text, text, timestamptz, timestamptz);
DROP FUNCTION sched.schedule_task(sched.schedule, timestamptz);
DROP FUNCTION sched.mark_schedule(text, text, text, timestamptz, timestamptz, text, text);
DROP TABLE sched.schedule;
DROP FUNCTION sched.schedule_changed();
