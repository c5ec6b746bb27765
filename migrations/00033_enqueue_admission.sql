-- Locking: replaces functions only. Calls that are under way finish with the body they began with.
--
-- Enqueueing reads the row of its queue: what its door does under pressure, and whom a new task wakes. The plain task of a busy
-- queue, which is what a database under load gets most of, has a path of its own.

-- +goose Up

-- sched.enqueue(...): one task in the caller's transaction; returns its id. A unique key that an unfinished task of the kind
-- already has returns that task's id and adds nothing. The queue's row says what its door does (accept; delay under pressure; reject at
-- red, with SC429) and whom the task wakes (see sched.wake_queue).
-- Lock order: an advisory lock on a queue's first use, then the new row. Waits only for another open transaction that
-- enqueues the same unique key, because whether it commits decides the answer. Never waits for a task's row.
-- Bounds: a plain task of a busy queue is one statement. Otherwise one look at settings, kind and queue, one more at a kind that has
-- defaults and at a queue that is derived, one insert, one NOTIFY at most (equal ones of a transaction are merged); with a unique key at
-- most 10 rounds of look and insert. No exception block, hence no subtransaction, once the queue is known.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.enqueue(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    selector jsonb DEFAULT NULL,
    protocol text DEFAULT NULL,
    unique_key text DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    timeout interval DEFAULT NULL,
    batch text DEFAULT NULL,
    headers jsonb DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task       sched.new_task;
    notify     boolean;
    max_bytes  integer;
    has_preset boolean;  -- the kind has a row
    known      text;     -- name of the queue, if it has a row
    admission  text;
    pressure   text;
    wake       text[];
    preset     record;
    task_id    bigint;
BEGIN
    -- A plain task of a queue that is known and open and whose workers look for tasks by themselves: while a fleet is busy nearly all
    -- are. Anything else, and all that is wrong, adds nothing here and goes on below. Each operator, each column and each subquery costs
    -- a measurable part of it: hence the column direct, the subscript, the object made of an array, and a limit that the setting can't be below.
    IF coalesce(unique_key, protocol, batch) IS NULL AND run_at IS NULL AND coalesce(selector, headers) IS NULL AND timeout IS NULL
        AND max_attempts IS NULL
    THEN
        INSERT INTO sched.river_job (kind, args, queue, priority, metadata)
        SELECT
            enqueue.kind, enqueue.args, q.name,
            -- NULL outside of 1 to 4; a cast could fail before the conditions are looked at.
            ('{1, 2, 3, 4}'::smallint[])[coalesce(enqueue.priority, 1)],
            jsonb_build_object('sched:by', jsonb_object(ARRAY['user', session_user::text, 'app', current_setting('application_name')]))
        FROM sched.queue AS q
        WHERE q.name = coalesce(enqueue.queue, 'default')
            AND q.direct
            AND NOT EXISTS (SELECT FROM sched.kind AS k WHERE k.kind = enqueue.kind)
            AND char_length(enqueue.kind) <= 127 AND enqueue.kind COLLATE "C" ~ '^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.\u00b7:+]*$'
            AND ('{1, 2, 3, 4}'::smallint[])[coalesce(enqueue.priority, 1)] IS NOT NULL
            AND octet_length(enqueue.args::text) <= 8192
        RETURNING id INTO task_id;
        IF task_id IS NOT NULL THEN
            RETURN task_id;
        END IF;
    END IF;

    SELECT
        coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_args_bytes'), 1048576),
        EXISTS (SELECT FROM sched.kind AS k WHERE k.kind = enqueue.kind)
    INTO notify, max_bytes, has_preset;
    IF has_preset THEN
        SELECT k.queue, k.priority, k.selector, k.protocol, k.max_attempts, k.timeout INTO preset
        FROM sched.kind AS k WHERE k.kind = enqueue.kind;
        queue := coalesce(queue, preset.queue);
        priority := coalesce(priority, preset.priority);
        selector := coalesce(selector, preset.selector);
        protocol := coalesce(protocol, preset.protocol);
        max_attempts := coalesce(max_attempts, preset.max_attempts);
        timeout := coalesce(timeout, preset.timeout);
    END IF;
    task := sched.new_task(
        kind, args, queue, priority, run_at, selector, protocol, unique_key, max_attempts, timeout, batch, headers);
    IF task.fault IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'sched.enqueue: ' || task.fault[1], HINT = task.fault[2];
    END IF;
    IF octet_length(args::text) > max_bytes THEN
        RAISE EXCEPTION USING
            ERRCODE = '54000',
            MESSAGE = format('sched.enqueue: args has %s bytes of JSON text; at most %s are allowed', octet_length(args::text), max_bytes),
            HINT = 'store the data elsewhere and pass a reference, or raise the setting max_args_bytes in sched.setting';
    END IF;
    SELECT q.name, q.admission, q.pressure, q.wake INTO known, admission, pressure, wake FROM sched.queue AS q WHERE q.name = task.queue;

    IF task.unique_key IS NULL THEN
        IF pressure <> 'green' AND admission <> 'accept' THEN
            task := sched.admit('sched.enqueue', task);
        END IF;
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
            -- The door is for what is new.
            IF round = 1 AND pressure <> 'green' AND admission <> 'accept' THEN
                task := sched.admit('sched.enqueue', task);
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

    IF known IS NULL THEN
        PERFORM sched.add_queue(task.queue, task.base, task.selector, task.protocol);
    END IF;
    IF notify AND task.state = 'available' THEN
        IF wake IS NULL OR wake <> '{}' THEN
            PERFORM sched.notify_insert(task.queue, wake, task_id);
        END IF;
    ELSIF notify AND run_at < clock_timestamp() + interval '2 seconds' THEN
        -- The time asked for: one that pressure gave is left to the leader, which looks each second. A NOTIFY for each task is the
        -- last thing that a database under pressure needs.
        PERFORM pg_notify('sched.due', ceil(extract(epoch FROM run_at) * 1000)::bigint::text);
    END IF;
    RETURN task_id;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.enqueue(text, jsonb, text, integer, timestamptz, jsonb, text, text, integer, interval, text, jsonb) IS 'Adds one task in the caller''s transaction and returns its id; with a unique_key that an unfinished task of this kind has, returns that task''s id. What is left out or NULL is the kind''s default in sched.kind, else the global one. Under pressure it follows the admission of the queue: SC429 if that rejects.';

-- sched.enqueue_many(tasks): many tasks in the caller's transaction, all or none; returns their ids in the order given. Two
-- tasks with one unique key, in the call or with an unfinished task, share the first one's id. One task that its queue rejects is enough
-- to reject the call.
-- Lock order: keyed tasks in the order of their keys, so that two calls can't deadlock on each other; then the others; then
-- advisory locks on queues that are new. Waits only for open transactions that enqueue the same unique keys.
-- Bounds: the settings max_enqueue_many and max_args_bytes; one pass to check, with one look at the kinds and queues, one more over the
-- tasks if a queue delays or rejects, one insert, at most 100 new queues (the leader finds the rest), one NOTIFY per queue and one for due
-- tasks; with unique keys at most 10 rounds of look and insert over those still open.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.enqueue_many(tasks jsonb) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1000 SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    notify    boolean;
    max_bytes integer;
    max_tasks integer;
    total     integer;
    new       sched.new_task[];
    ids       bigint[];   -- by position in tasks; NULL while a unique key is open
    fault     text[];
    place     integer;
    closed    text[];     -- queues under pressure whose door is not simply open
BEGIN
    IF tasks IS NULL OR jsonb_typeof(tasks) <> 'array' THEN
        RAISE EXCEPTION USING
            ERRCODE = '22023',
            MESSAGE = format('sched.enqueue_many: tasks is %s, not a JSON array', coalesce('a JSON ' || jsonb_typeof(tasks), 'NULL')),
            HINT = 'pass an array of objects with the names of sched.enqueue''s arguments, e.g. [{"kind": "send_mail"}]';
    END IF;
    SELECT
        coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_args_bytes'), 1048576),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_enqueue_many'), 100000)
    INTO notify, max_bytes, max_tasks;
    total := jsonb_array_length(tasks);
    IF total > max_tasks THEN
        RAISE EXCEPTION USING
            ERRCODE = '54000',
            MESSAGE = format('sched.enqueue_many: %s tasks in one call; at most %s are allowed', total, max_tasks),
            HINT = 'split them over several calls, in one transaction if need be, or raise the setting max_enqueue_many in sched.setting';
    ELSIF total = 0 THEN
        RETURN;
    END IF;

    SELECT array_agg(sched.new_task_of(t.task, k) ORDER BY t.ord) INTO new
    FROM jsonb_array_elements(tasks) WITH ORDINALITY AS t (task, ord)
    LEFT JOIN sched.kind AS k ON k.kind = t.task ->> 'kind';
    SELECT n.fault, n.ord - 1 INTO fault, place
    FROM unnest(new) WITH ORDINALITY AS n (
        fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
    WHERE n.fault IS NOT NULL ORDER BY n.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = '22023',
            MESSAGE = format('sched.enqueue_many: tasks[%s]: %s', place, fault[1]),
            DETAIL = 'Tasks are counted from 0. None of them was added.',
            HINT = fault[2];
    END IF;
    SELECT octet_length((t.task -> 'args')::text), t.ord - 1 INTO total, place
    FROM jsonb_array_elements(tasks) WITH ORDINALITY AS t (task, ord)
    WHERE octet_length((t.task -> 'args')::text) > max_bytes ORDER BY t.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = '54000',
            MESSAGE = format('sched.enqueue_many: tasks[%s]: args has %s bytes of JSON text; at most %s are allowed', place, total, max_bytes),
            DETAIL = 'Tasks are counted from 0. None of them was added.',
            HINT = 'store the data elsewhere and pass a reference, or raise the setting max_args_bytes in sched.setting';
    END IF;

    SELECT array_agg(q.name) INTO closed FROM sched.queue AS q
    WHERE q.pressure <> 'green' AND q.admission <> 'accept' AND q.name IN (SELECT n.queue FROM unnest(new) AS n);
    IF closed IS NOT NULL THEN
        -- The door is for what is new: a task that is there already passes as it is.
        SELECT array_agg(CASE
            WHEN t.queue <> ALL (closed) OR EXISTS (
                SELECT FROM sched.river_job AS j
                WHERE j.unique_key = t.unique_key AND j.unique_states IS NOT NULL
                    AND sched.river_job_state_in_bitmask(j.unique_states, j.state)
            ) THEN t.task
            ELSE sched.admit('sched.enqueue_many', t.task)
        END ORDER BY t.ord) INTO new
        FROM (
            SELECT n.queue, n.unique_key, n.ord, ROW(
                n.fault, n.queue, n.priority, n.max_attempts, n.state, n.scheduled_at, n.metadata, n.unique_key, n.base, n.selector,
                n.protocol)::sched.new_task AS task
            FROM unnest(new) WITH ORDINALITY AS n (
                fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
        ) AS t;
    END IF;

    ids := sched.insert_many(tasks, new);

    -- Queues and wake-ups of what was added; a task that was there already has had both.
    PERFORM sched.add_queue(q.name, q.base, q.selector, q.protocol)
    FROM (
        SELECT DISTINCT n.queue AS name, n.base, n.selector, n.protocol FROM unnest(new) AS n
        WHERE NOT EXISTS (SELECT FROM sched.queue AS known WHERE known.name = n.queue)
        ORDER BY name LIMIT 100
    ) AS q;
    IF notify THEN
        PERFORM sched.wake_queue(q.name)
        FROM (SELECT DISTINCT n.queue AS name FROM unnest(new) AS n WHERE n.state = 'available') AS q;
        PERFORM pg_notify('sched.due', ceil(extract(epoch FROM d.next) * 1000)::bigint::text)
        FROM (SELECT min(n.scheduled_at) AS next FROM unnest(new) AS n WHERE n.state = 'scheduled') AS d
        WHERE d.next < clock_timestamp() + interval '2 seconds';
    END IF;
    RETURN QUERY SELECT u.id FROM unnest(ids) WITH ORDINALITY AS u (id, ord) ORDER BY u.ord;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.enqueue_many(jsonb) IS 'Adds many tasks in the caller''s transaction, all or none, and returns their ids in the order given. tasks is an array of objects with the names of sched.enqueue''s arguments; what one leaves out is its kind''s default, else the global one. SC429 if one of their queues rejects tasks now.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.enqueue_many(tasks jsonb) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1000 SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    notify    boolean;
    max_bytes integer;
    max_tasks integer;
    total     integer;
    new       sched.new_task[];
    ids       bigint[];   -- by position in tasks; NULL while a unique key is open
    fault     text[];
    place     integer;
BEGIN
    IF tasks IS NULL OR jsonb_typeof(tasks) <> 'array' THEN
        RAISE EXCEPTION USING
            ERRCODE = '22023',
            MESSAGE = format('sched.enqueue_many: tasks is %s, not a JSON array', coalesce('a JSON ' || jsonb_typeof(tasks), 'NULL')),
            HINT = 'pass an array of objects with the names of sched.enqueue''s arguments, e.g. [{"kind": "send_mail"}]';
    END IF;
    SELECT
        coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_args_bytes'), 1048576),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_enqueue_many'), 100000)
    INTO notify, max_bytes, max_tasks;
    total := jsonb_array_length(tasks);
    IF total > max_tasks THEN
        RAISE EXCEPTION USING
            ERRCODE = '54000',
            MESSAGE = format('sched.enqueue_many: %s tasks in one call; at most %s are allowed', total, max_tasks),
            HINT = 'split them over several calls, in one transaction if need be, or raise the setting max_enqueue_many in sched.setting';
    ELSIF total = 0 THEN
        RETURN;
    END IF;

    SELECT array_agg(sched.new_task_of(t.task, k) ORDER BY t.ord) INTO new
    FROM jsonb_array_elements(tasks) WITH ORDINALITY AS t (task, ord)
    LEFT JOIN sched.kind AS k ON k.kind = t.task ->> 'kind';
    SELECT n.fault, n.ord - 1 INTO fault, place
    FROM unnest(new) WITH ORDINALITY AS n (
        fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
    WHERE n.fault IS NOT NULL ORDER BY n.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = '22023',
            MESSAGE = format('sched.enqueue_many: tasks[%s]: %s', place, fault[1]),
            DETAIL = 'Tasks are counted from 0. None of them was added.',
            HINT = fault[2];
    END IF;
    SELECT octet_length((t.task -> 'args')::text), t.ord - 1 INTO total, place
    FROM jsonb_array_elements(tasks) WITH ORDINALITY AS t (task, ord)
    WHERE octet_length((t.task -> 'args')::text) > max_bytes ORDER BY t.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = '54000',
            MESSAGE = format('sched.enqueue_many: tasks[%s]: args has %s bytes of JSON text; at most %s are allowed', place, total, max_bytes),
            DETAIL = 'Tasks are counted from 0. None of them was added.',
            HINT = 'store the data elsewhere and pass a reference, or raise the setting max_args_bytes in sched.setting';
    END IF;

    ids := sched.insert_many(tasks, new);

    -- Queues and wake-ups of what was added; a task that was there already has had both.
    PERFORM sched.add_queue(q.name, q.base, q.selector, q.protocol)
    FROM (
        SELECT DISTINCT n.queue AS name, n.base, n.selector, n.protocol FROM unnest(new) AS n
        WHERE NOT EXISTS (SELECT FROM sched.queue AS known WHERE known.name = n.queue)
        ORDER BY name LIMIT 100
    ) AS q;
    IF notify THEN
        PERFORM pg_notify('sched.river_insert', '{"queue":"' || q.name || '"}')
        FROM (SELECT DISTINCT n.queue AS name FROM unnest(new) AS n WHERE n.state = 'available') AS q;
        PERFORM pg_notify('sched.due', ceil(extract(epoch FROM d.next) * 1000)::bigint::text)
        FROM (SELECT min(n.scheduled_at) AS next FROM unnest(new) AS n WHERE n.state = 'scheduled') AS d
        WHERE d.next < clock_timestamp() + interval '2 seconds';
    END IF;
    RETURN QUERY SELECT u.id FROM unnest(ids) WITH ORDINALITY AS u (id, ord) ORDER BY u.ord;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.enqueue_many(jsonb) IS 'Adds many tasks in the caller''s transaction, all or none, and returns their ids in the order given. tasks is an array of objects with the names of sched.enqueue''s arguments; what one leaves out is its kind''s default, else the global one.';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.enqueue(
    kind text,
    args jsonb DEFAULT '{}',
    queue text DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL,
    selector jsonb DEFAULT NULL,
    protocol text DEFAULT NULL,
    unique_key text DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    timeout interval DEFAULT NULL,
    batch text DEFAULT NULL,
    headers jsonb DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task       sched.new_task;
    notify     boolean;
    max_bytes  integer;
    has_preset boolean;  -- the kind has a row
    known      boolean;  -- the queue has one
    preset     record;
    task_id    bigint;
BEGIN
    SELECT
        coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_args_bytes'), 1048576),
        EXISTS (SELECT FROM sched.kind AS k WHERE k.kind = enqueue.kind),
        EXISTS (SELECT FROM sched.queue AS q WHERE q.name = coalesce(enqueue.queue, 'default'))
    INTO notify, max_bytes, has_preset, known;
    IF has_preset THEN
        SELECT k.queue, k.priority, k.selector, k.protocol, k.max_attempts, k.timeout INTO preset
        FROM sched.kind AS k WHERE k.kind = enqueue.kind;
        queue := coalesce(queue, preset.queue);
        priority := coalesce(priority, preset.priority);
        selector := coalesce(selector, preset.selector);
        protocol := coalesce(protocol, preset.protocol);
        max_attempts := coalesce(max_attempts, preset.max_attempts);
        timeout := coalesce(timeout, preset.timeout);
        known := false;  -- it may be another queue now
    END IF;
    task := sched.new_task(
        kind, args, queue, priority, run_at, selector, protocol, unique_key, max_attempts, timeout, batch, headers);
    IF task.fault IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'sched.enqueue: ' || task.fault[1], HINT = task.fault[2];
    END IF;
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

    -- Two steps: a condition with a query in it would run the query each time.
    IF NOT known OR task.queue <> task.base THEN
        IF NOT EXISTS (SELECT FROM sched.queue AS q WHERE q.name = task.queue) THEN
            PERFORM sched.add_queue(task.queue, task.base, task.selector, task.protocol);
        END IF;
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
COMMENT ON FUNCTION sched.enqueue(text, jsonb, text, integer, timestamptz, jsonb, text, text, integer, interval, text, jsonb) IS 'Adds one task in the caller''s transaction and returns its id; with a unique_key that an unfinished task of this kind has, returns that task''s id. What is left out or NULL is the kind''s default in sched.kind, else the global one.';
