-- Locking: creates a type and functions only; nothing that is in use gets locked.

-- +goose Up

CREATE TYPE sched.new_task AS (
    fault        text[],                -- message and hint of the first argument that is refused; NULL when all are good
    -- Columns of river_job
    queue        text,
    priority     smallint,
    max_attempts smallint,
    state        sched.river_job_state,
    scheduled_at timestamptz,
    metadata     jsonb,
    unique_key   bytea,
    -- What the queue was derived from
    base         text,
    selector     jsonb,
    protocol     text
);
COMMENT ON TYPE sched.new_task IS 'Internal: what a task''s arguments come to. Either fault (message and hint) or the columns of its row.';

-- sched.queue_name(base, selector, protocol): the River queue of tasks that demand the same of a worker. Pure.
-- The text of a jsonb value is canonical (keys sorted, spaces normalised), so equal selectors give equal names; the bar is
-- legal in River's queue names and refused in a base name, so a derived name can't equal a given one.
-- +goose StatementBegin
CREATE FUNCTION sched.queue_name(base text, selector jsonb, protocol text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF coalesce(selector, '{}') = '{}' AND coalesce(protocol, 'any') = 'any' THEN
        RETURN base;
    END IF;
    RETURN base || '|' || left(md5(coalesce(selector, '{}')::text || '|' || coalesce(protocol, 'any')), 12);
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.queue_name(text, jsonb, text) IS 'Name of the queue for a base name, selector and protocol: the base name alone, or with | and a short hash.';

-- sched.pairs_fault(argument, pairs, key_rule, max_key, max_value): what is wrong with an object of strings, as message and
-- hint, or NULL. Pure. One query for a good object; a bad one is read again to say what is wrong.
-- +goose StatementBegin
CREATE FUNCTION sched.pairs_fault(argument text, pairs jsonb, key_rule text, max_key integer, max_value integer) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    control constant text := '[\u0001-\u001f\u007f-\u009f]';
    shape constant text := 'pass ' || argument || ' as a JSON object whose values are strings, e.g. {"name": "value"}';
    total integer;
    bad   integer;
    pair  record;
BEGIN
    IF jsonb_typeof(pairs) <> 'object' THEN
        RETURN ARRAY[format('%s is a JSON %s, not an object', argument, jsonb_typeof(pairs)), shape];
    END IF;
    SELECT count(*), count(*) FILTER (
        WHERE jsonb_typeof(e.value) <> 'string' OR char_length(e.key) NOT BETWEEN 1 AND max_key OR e.key COLLATE "C" !~ key_rule
            OR char_length(e.value #>> '{}') > max_value OR (e.value #>> '{}') COLLATE "C" ~ control)
    INTO total, bad FROM jsonb_each(pairs) AS e;
    IF total > 64 THEN
        RETURN ARRAY[format('%s has %s pairs; at most 64 are allowed', argument, total), 'move data into args'];
    ELSIF bad = 0 THEN
        RETURN NULL;
    END IF;
    FOR pair IN SELECT e.key, jsonb_typeof(e.value) AS type, e.value #>> '{}' AS value FROM jsonb_each(pairs) AS e LOOP
        IF pair.type <> 'string' THEN
            RETURN ARRAY[format('%s %L is a JSON %s, not a string', argument, left(pair.key, 63), pair.type), shape];
        ELSIF char_length(pair.key) NOT BETWEEN 1 AND max_key OR pair.key COLLATE "C" !~ key_rule THEN
            RETURN ARRAY[
                format('%s has a bad name %L', argument, left(pair.key, 63)),
                format('names have 1 to %s characters and match %s', max_key, key_rule)];
        ELSIF char_length(pair.value) > max_value THEN
            RETURN ARRAY[
                format('%s %L has %s characters; at most %s are allowed', argument, pair.key, char_length(pair.value), max_value),
                'move data into args'];
        ELSIF pair.value COLLATE "C" ~ control THEN
            RETURN ARRAY[format('%s %L has a control character in its value', argument, pair.key), 'use printable characters only'];
        END IF;
    END LOOP;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.pairs_fault(text, jsonb, text, integer, integer) IS 'Internal: message and hint of what is wrong with a selector or headers object, or NULL.';

-- sched.task_fault(...): the first argument of a task that is refused, as message and hint, or NULL. Takes arguments with
-- their defaults already in place. Pure; runs once per task, so the usual task passes with a few comparisons.
-- +goose StatementBegin
CREATE FUNCTION sched.task_fault(
    kind text, args jsonb, queue text, priority integer, run_at timestamptz, selector jsonb, protocol text, unique_key text,
    max_attempts integer, timeout interval, batch text, headers jsonb
) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    control constant text := '[\u0001-\u001f\u007f-\u009f]';
    fault text[];
BEGIN
    IF kind IS NULL OR char_length(kind) NOT BETWEEN 1 AND 127
        OR kind COLLATE "C" !~ '^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.\u00b7:+]*$' THEN
        RETURN ARRAY[
            format('kind %s is not a kind name', coalesce(quote_literal(left(kind, 127)), 'NULL')),
            'name the kind of task, e.g. send_mail: 1 to 127 ASCII letters, digits and _-[]<>/.:+, beginning with a letter, digit or _'];
    END IF;
    IF args IS NULL THEN
        RETURN ARRAY['args is NULL', 'leave args out for an empty object, or pass any JSON value'];
    END IF;
    IF char_length(queue) NOT BETWEEN 1 AND 100 OR queue COLLATE "C" !~ '^[a-z0-9]+(?:[_-][a-z0-9]+)*$' THEN
        RETURN ARRAY[
            format('queue %L is not a queue name', left(queue, 127)),
            'use 1 to 100 lower-case letters and digits, with single _ or - between them, or leave queue out for default'];
    END IF;
    IF priority NOT BETWEEN 1 AND 4 THEN
        RETURN ARRAY[format('priority %s is not between 1 and 4', priority), '1 starts first, 4 last; leave priority out for 1'];
    END IF;
    IF max_attempts NOT BETWEEN 1 AND 32767 THEN
        RETURN ARRAY[format('max_attempts %s is not between 1 and 32767', max_attempts), 'leave max_attempts out for 25'];
    END IF;
    IF protocol NOT IN ('any', 'http', 'grpc', 'exec') THEN
        RETURN ARRAY[format('protocol %L is unknown', left(protocol, 63)), 'use any, http, grpc or exec; leave protocol out for any'];
    END IF;
    IF NOT isfinite(run_at) THEN
        RETURN ARRAY['run_at is infinite', 'pass the time to run at, or leave run_at out to run now'];
    END IF;
    IF timeout <= interval '0' OR timeout > interval '7 days' THEN
        RETURN ARRAY[format('timeout %s is not above zero and up to 7 days', timeout), 'pass an interval such as 30 seconds, or leave timeout out for none'];
    END IF;
    IF char_length(unique_key) NOT BETWEEN 1 AND 255 OR unique_key COLLATE "C" ~ control THEN
        RETURN ARRAY[
            format('unique_key %L is not 1 to 255 characters without control characters', left(unique_key, 63)),
            'pass what makes the task unique among tasks of its kind, e.g. an order number (a hash of it if it is long)'];
    END IF;
    IF char_length(batch) NOT BETWEEN 1 AND 127 OR batch COLLATE "C" ~ control THEN
        RETURN ARRAY[
            format('batch %L is not 1 to 127 characters without control characters', left(batch, 63)),
            'name the batch, or leave batch out'];
    END IF;
    IF selector IS NOT NULL THEN
        fault := sched.pairs_fault('selector', selector, '^[^\u0001-\u001f\u007f-\u009f]+$', 63, 255);
    END IF;
    IF fault IS NULL AND headers IS NOT NULL THEN
        fault := sched.pairs_fault('headers', headers, '^[A-Za-z0-9!#$%&''*+.^_`|~-]+$', 63, 4096);
    END IF;
    RETURN fault;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.task_fault(text, jsonb, text, integer, timestamptz, jsonb, text, text, integer, interval, text, jsonb) IS 'Internal: message and hint of the first argument of a task that is refused, or NULL.';

-- sched.new_task(...): checks one task's arguments and derives its row. Reads and locks nothing; a NULL means the default.
-- A time at or before the clock is "now": it can't be used to overtake waiting tasks.
-- +goose StatementBegin
CREATE FUNCTION sched.new_task(
    kind text, args jsonb, queue text, priority integer, run_at timestamptz, selector jsonb, protocol text, unique_key text,
    max_attempts integer, timeout interval, batch text, headers jsonb
) RETURNS sched.new_task
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    task sched.new_task;
    meta jsonb;
BEGIN
    queue := coalesce(queue, 'default');
    priority := coalesce(priority, 1);
    protocol := coalesce(protocol, 'any');
    max_attempts := coalesce(max_attempts, 25);
    task.fault := sched.task_fault(
        kind, args, queue, priority, run_at, selector, protocol, unique_key, max_attempts, timeout, batch, headers);
    IF task.fault IS NOT NULL THEN
        RETURN task;
    END IF;

    meta := jsonb_build_object('sched:by', jsonb_build_object('user', session_user, 'app', current_setting('application_name')));
    selector := coalesce(selector, '{}');
    IF selector <> '{}' THEN
        meta := meta || jsonb_build_object('sched:selector', selector);
    END IF;
    IF protocol <> 'any' THEN
        meta := meta || jsonb_build_object('sched:protocol', protocol);
    END IF;
    IF timeout IS NOT NULL THEN
        meta := meta || jsonb_build_object('sched:timeout_ms', ceil(extract(epoch FROM timeout) * 1000)::bigint);
    END IF;
    IF batch IS NOT NULL THEN
        meta := meta || jsonb_build_object('sched:batch', batch);
    END IF;
    IF headers <> '{}' THEN
        meta := meta || jsonb_build_object('sched:headers', headers);
    END IF;
    IF unique_key IS NOT NULL THEN
        meta := meta || jsonb_build_object('sched:key', unique_key);
        task.unique_key := sha256(convert_to('sched', 'UTF8') || '\x00' || convert_to(kind, 'UTF8') || '\x00' || convert_to(unique_key, 'UTF8'));
    END IF;

    task.queue := CASE WHEN selector = '{}' AND protocol = 'any' THEN queue ELSE sched.queue_name(queue, selector, protocol) END;
    task.priority := priority;
    task.max_attempts := max_attempts;
    task.state := CASE WHEN run_at > clock_timestamp() THEN 'scheduled'::sched.river_job_state ELSE 'available'::sched.river_job_state END;
    task.scheduled_at := greatest(run_at, now());
    task.metadata := meta;
    task.base := queue;
    task.selector := selector;
    task.protocol := protocol;
    RETURN task;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.new_task(text, jsonb, text, integer, timestamptz, jsonb, text, text, integer, interval, text, jsonb) IS 'Internal: checks one task''s arguments and derives its row.';

-- sched.add_queue(name, base, selector, protocol): makes the row of a queue, and River's beside it, so that River UI shows
-- the queue. Returns whether the rows are there now. Never waits for another transaction that is doing the same: the
-- advisory lock, held to the end of the transaction, is only tried; whoever doesn't get it leaves the row to the holder,
-- or to the leader, which finds queues by their tasks. Names share 256 locks, so that a transaction with ever so many new
-- queues can't fill the lock table.
-- +goose StatementBegin
CREATE FUNCTION sched.add_queue(name text, base text, selector jsonb, protocol text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('sched.queue:' || (hashtext(add_queue.name) & 255), 0)) THEN
        RETURN false;
    END IF;
    INSERT INTO sched.queue (name, base, selector, protocol)
    VALUES (add_queue.name, add_queue.base, add_queue.selector, add_queue.protocol)
    ON CONFLICT DO NOTHING;
    INSERT INTO sched.river_queue (name, updated_at) VALUES (add_queue.name, now()) ON CONFLICT DO NOTHING;
    RETURN true;
EXCEPTION WHEN serialization_failure THEN
    -- Repeatable read: the row was committed after this transaction's snapshot, so it is there.
    RETURN true;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.add_queue(text, text, jsonb, text) IS 'Internal: makes the row of a queue without waiting for anybody; says whether it is there.';

-- sched.enqueue(...): one task in the caller's transaction; returns its id. A unique key that an unfinished task of the kind
-- already has returns that task's id and adds nothing.
-- Lock order: an advisory lock on a queue's first use, then the new row. Waits only for another open transaction that
-- enqueues the same unique key, because whether it commits decides the answer. Never waits for a task's row.
-- Bounds: one look at settings and queue, one insert, one NOTIFY at most (equal ones of a transaction are merged); with a
-- unique key at most 10 rounds of look and insert. No exception block, hence no subtransaction, once the queue is known.
-- +goose StatementBegin
CREATE FUNCTION sched.enqueue(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT 'default',
    priority integer DEFAULT 1,
    run_at timestamptz DEFAULT NULL,
    selector jsonb DEFAULT NULL,
    protocol text DEFAULT 'any',
    unique_key text DEFAULT NULL,
    max_attempts integer DEFAULT 25,
    timeout interval DEFAULT NULL,
    batch text DEFAULT NULL,
    headers jsonb DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task      sched.new_task;
    notify    boolean;
    max_bytes integer;
    known     boolean;
    task_id   bigint;
BEGIN
    task := sched.new_task(
        kind, args, queue, priority, run_at, selector, protocol, unique_key, max_attempts, timeout, batch, headers);
    IF task.fault IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'sched.enqueue: ' || task.fault[1], HINT = task.fault[2];
    END IF;

    SELECT
        coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_args_bytes'), 1048576),
        EXISTS (SELECT FROM sched.queue AS q WHERE q.name = task.queue)
    INTO notify, max_bytes, known;
    IF octet_length(args::text) > max_bytes THEN
        RAISE EXCEPTION USING
            ERRCODE = '54000',
            MESSAGE = format('sched.enqueue: args has %s bytes of JSON text; at most %s are allowed', octet_length(args::text), max_bytes),
            HINT = 'store the data elsewhere and pass a reference, or raise the setting max_args_bytes in sched.setting';
    END IF;

    IF task.unique_key IS NULL THEN
        INSERT INTO sched.river_job (kind, args, queue, priority, max_attempts, state, scheduled_at, metadata)
        VALUES (enqueue.kind, enqueue.args, task.queue, task.priority, task.max_attempts, task.state, task.scheduled_at, task.metadata)
        RETURNING id INTO task_id;
    ELSE
        FOR round IN 1..10 LOOP
            -- Looking first spares the insert's wait for a transaction that is completing the task with this key.
            SELECT j.id INTO task_id
            FROM sched.river_job AS j
            WHERE j.unique_key = task.unique_key AND j.unique_states IS NOT NULL
                AND sched.river_job_state_in_bitmask(j.unique_states, j.state);
            IF FOUND THEN
                RETURN task_id;
            END IF;
            INSERT INTO sched.river_job (
                kind, args, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, unique_states)
            VALUES (
                enqueue.kind, enqueue.args, task.queue, task.priority, task.max_attempts, task.state, task.scheduled_at,
                task.metadata, task.unique_key, B'11110001')
            ON CONFLICT (unique_key)
                WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL
                    AND sched.river_job_state_in_bitmask(unique_states, state)
                DO NOTHING
            RETURNING id INTO task_id;
            EXIT WHEN FOUND;
        END LOOP;
        IF task_id IS NULL THEN
            RAISE EXCEPTION USING
                ERRCODE = '40001',
                MESSAGE = format('sched.enqueue: tasks with unique_key %L keep coming and going', unique_key),
                HINT = 'run the transaction again';
        END IF;
    END IF;

    IF NOT known THEN
        PERFORM sched.add_queue(task.queue, task.base, task.selector, task.protocol);
    END IF;
    IF notify AND task.state = 'available' THEN
        PERFORM pg_notify('sched.river_insert', '{"queue":"' || task.queue || '"}');
    ELSIF notify AND run_at < clock_timestamp() + interval '2 seconds' THEN
        PERFORM pg_notify('sched.due', ceil(extract(epoch FROM run_at) * 1000)::bigint::text);
    END IF;
    RETURN task_id;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.enqueue(text, jsonb, text, integer, timestamptz, jsonb, text, text, integer, interval, text, jsonb) IS 'Adds one task in the caller''s transaction and returns its id; with a unique_key that an unfinished task of this kind has, returns that task''s id.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

DROP FUNCTION sched.enqueue(text, jsonb, text, integer, timestamptz, jsonb, text, text, integer, interval, text, jsonb);
DROP FUNCTION sched.add_queue(text, text, jsonb, text);
DROP FUNCTION sched.new_task(text, jsonb, text, integer, timestamptz, jsonb, text, text, integer, interval, text, jsonb);
DROP FUNCTION sched.task_fault(text, jsonb, text, integer, timestamptz, jsonb, text, text, integer, interval, text, jsonb);
DROP FUNCTION sched.pairs_fault(text, jsonb, text, integer, integer);
DROP FUNCTION sched.queue_name(text, jsonb, text);
DROP TYPE sched.new_task;
