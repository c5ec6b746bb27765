-- Locking: creates functions only; nothing that is in use gets locked.

-- +goose Up

-- sched.new_task_of(task): one element of enqueue_many's array as sched.new_task makes it from arguments. Reads and locks
-- nothing. The exception block guards the two casts from text and is entered only when run_at or timeout is given.
-- +goose StatementBegin
CREATE FUNCTION sched.new_task_of(task jsonb) RETURNS sched.new_task
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    known constant text[] := '{kind,args,queue,priority,run_at,selector,protocol,unique_key,max_attempts,timeout,batch,headers}';
    texts constant text[] := '{kind,queue,protocol,unique_key,batch,run_at,timeout}';
    result  sched.new_task;
    name    text;
    run_at  timestamptz;
    timeout interval;
BEGIN
    IF jsonb_typeof(task) <> 'object' THEN
        result.fault := ARRAY[
            format('it is a JSON %s, not an object', jsonb_typeof(task)),
            'pass each task as an object with the names of sched.enqueue''s arguments, e.g. {"kind": "send_mail"}'];
        RETURN result;
    END IF;
    IF task - known <> '{}' THEN
        SELECT k INTO name FROM jsonb_object_keys(task - known) AS k ORDER BY k LIMIT 1;
        result.fault := ARRAY[format('it has an unknown key %L', left(name, 63)), 'known keys: ' || array_to_string(known, ', ')];
        RETURN result;
    END IF;
    -- One expression for the usual task, the loops only to say what is wrong.
    IF jsonb_typeof(task -> 'kind') NOT IN ('string', 'null') OR jsonb_typeof(task -> 'queue') NOT IN ('string', 'null')
        OR jsonb_typeof(task -> 'protocol') NOT IN ('string', 'null') OR jsonb_typeof(task -> 'unique_key') NOT IN ('string', 'null')
        OR jsonb_typeof(task -> 'batch') NOT IN ('string', 'null') OR jsonb_typeof(task -> 'run_at') NOT IN ('string', 'null')
        OR jsonb_typeof(task -> 'timeout') NOT IN ('string', 'null') THEN
        FOREACH name IN ARRAY texts LOOP
            CONTINUE WHEN coalesce(jsonb_typeof(task -> name), 'null') IN ('string', 'null');
            result.fault := ARRAY[
                format('%s is a JSON %s, not a string', name, jsonb_typeof(task -> name)),
                format('pass %s as a JSON string, or leave it out', name)];
            RETURN result;
        END LOOP;
    END IF;
    IF jsonb_typeof(task -> 'priority') NOT IN ('number', 'null') OR task ->> 'priority' !~ '^-?[0-9]{1,9}$'
        OR jsonb_typeof(task -> 'max_attempts') NOT IN ('number', 'null') OR task ->> 'max_attempts' !~ '^-?[0-9]{1,9}$' THEN
        FOREACH name IN ARRAY '{priority,max_attempts}'::text[] LOOP
            CONTINUE WHEN jsonb_typeof(task -> name) = 'number' AND task ->> name ~ '^-?[0-9]{1,9}$' OR task ->> name IS NULL;
            result.fault := ARRAY[
                format('%s %s is not a whole number in range', name, left(task ->> name, 63)),
                format('pass %s as a JSON number, or leave it out', name)];
            RETURN result;
        END LOOP;
    END IF;
    IF task ->> 'run_at' IS NOT NULL OR task ->> 'timeout' IS NOT NULL THEN
        BEGIN
            name := 'run_at';
            run_at := (task ->> 'run_at')::timestamptz;
            name := 'timeout';
            timeout := (task ->> 'timeout')::interval;
        EXCEPTION WHEN data_exception THEN
            result.fault := ARRAY[
                format('%s %L can''t be read', name, left(task ->> name, 63)),
                CASE name
                    WHEN 'run_at' THEN 'pass a time with its offset, e.g. 2030-01-31T12:00:00Z'
                    ELSE 'pass an interval such as 30 seconds'
                END];
            RETURN result;
        END;
    END IF;
    RETURN sched.new_task(
        task ->> 'kind', coalesce(task -> 'args', '{}'), task ->> 'queue', (task ->> 'priority')::integer, run_at,
        nullif(task -> 'selector', 'null'), task ->> 'protocol', task ->> 'unique_key', (task ->> 'max_attempts')::integer,
        timeout, task ->> 'batch', nullif(task -> 'headers', 'null'));
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.new_task_of(jsonb) IS 'Internal: checks one element of enqueue_many''s array and derives its row.';

-- sched.enqueue_many(tasks): many tasks in the caller's transaction, all or none; returns their ids in the order given. Two
-- tasks with one unique key, in the call or with an unfinished task, share the first one's id.
-- Lock order: keyed tasks in the order of their keys, so that two calls can't deadlock on each other; then the others; then
-- advisory locks on queues that are new. Waits only for open transactions that enqueue the same unique keys.
-- Bounds: the settings max_enqueue_many and max_args_bytes; one pass to check, one insert, at most 100 new
-- queues (the leader finds the rest), one NOTIFY per queue and one for due tasks; with unique keys at most 10 rounds of look and insert over those still open.
-- +goose StatementBegin
CREATE FUNCTION sched.enqueue_many(tasks jsonb) RETURNS SETOF bigint
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

    SELECT array_agg(sched.new_task_of(t.task) ORDER BY t.ord) INTO new
    FROM jsonb_array_elements(tasks) WITH ORDINALITY AS t (task, ord);
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
COMMENT ON FUNCTION sched.enqueue_many(jsonb) IS 'Adds many tasks in the caller''s transaction, all or none, and returns their ids in the order given. tasks is an array of objects with the names of sched.enqueue''s arguments.';

-- sched.insert_many(tasks, new): the rows of enqueue_many; returns the id of each element, in order. The lock order is that
-- of enqueue_many. Ids ascend in the order given even though keyed tasks are inserted in the order of their keys.
-- +goose StatementBegin
CREATE FUNCTION sched.insert_many(tasks jsonb, new sched.new_task[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    ids     bigint[];
    keys    bytea[];    -- distinct keys, sorted
    firsts  integer[];  -- where each first occurs
    key_ids bigint[];   -- the id each has come to; NULL while open
BEGIN
    SELECT array_agg(nextval('sched.river_job_id_seq') ORDER BY n.ord) INTO ids
    FROM (SELECT ord FROM generate_series(1, cardinality(new)) AS ord ORDER BY ord) AS n;

    SELECT array_agg(k.key ORDER BY k.key), array_agg(k.first ORDER BY k.key), array_agg(NULL::bigint) INTO keys, firsts, key_ids
    FROM (
        SELECT n.unique_key AS key, min(n.ord)::integer AS first
        FROM unnest(new) WITH ORDINALITY AS n (
            fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
        WHERE n.unique_key IS NOT NULL GROUP BY n.unique_key
    ) AS k;
    FOR round IN 1..10 LOOP
        EXIT WHEN keys IS NULL OR array_position(key_ids, NULL) IS NULL;
        -- Looking first spares the insert's wait for a transaction that is completing a task with such a key.
        SELECT array_agg(coalesce(k.id, found.id) ORDER BY k.key) INTO key_ids
        FROM unnest(keys, key_ids) AS k (key, id)
        LEFT JOIN LATERAL (
            SELECT j.id FROM sched.river_job AS j
            WHERE k.id IS NULL AND j.unique_key = k.key AND j.unique_states IS NOT NULL
                AND sched.river_job_state_in_bitmask(j.unique_states, j.state)
            LIMIT 1
        ) AS found ON true;
        WITH added AS (
            INSERT INTO sched.river_job (
                id, kind, args, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, unique_states)
            SELECT
                z.id, z.task ->> 'kind', coalesce(z.task -> 'args', '{}'), z.queue, z.priority, z.max_attempts, z.state,
                z.scheduled_at, z.metadata, z.unique_key, B'11110001'
            FROM ROWS FROM (jsonb_array_elements(tasks), unnest(ids), unnest(new)) WITH ORDINALITY AS z (
                task, id, fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
            JOIN unnest(firsts, key_ids) AS k (first, id) ON k.first = z.ord
            WHERE k.id IS NULL
            ORDER BY z.unique_key
            ON CONFLICT (unique_key)
                WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL
                    AND sched.river_job_state_in_bitmask(unique_states, state)
                DO NOTHING
            RETURNING id, unique_key
        )
        SELECT array_agg(coalesce(k.id, a.id) ORDER BY k.key) INTO key_ids
        FROM unnest(keys, key_ids) AS k (key, id) LEFT JOIN added AS a ON a.unique_key = k.key;
    END LOOP;
    IF array_position(key_ids, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = '40001',
            MESSAGE = 'sched.enqueue_many: tasks with the same unique keys keep coming and going',
            HINT = 'run the transaction again';
    END IF;

    INSERT INTO sched.river_job (id, kind, args, queue, priority, max_attempts, state, scheduled_at, metadata)
    SELECT z.id, z.task ->> 'kind', coalesce(z.task -> 'args', '{}'), z.queue, z.priority, z.max_attempts, z.state, z.scheduled_at, z.metadata
    FROM ROWS FROM (jsonb_array_elements(tasks), unnest(ids), unnest(new)) WITH ORDINALITY AS z (
        task, id, fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
    WHERE z.unique_key IS NULL
    ORDER BY z.ord;
    IF keys IS NULL THEN
        RETURN ids;
    END IF;
    RETURN (
        SELECT array_agg(coalesce(k.id, z.id) ORDER BY z.ord)
        FROM ROWS FROM (unnest(ids), unnest(new)) WITH ORDINALITY AS z (
            id, fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
        LEFT JOIN unnest(keys, key_ids) AS k (key, id) ON k.key = z.unique_key
    );
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.insert_many(jsonb, sched.new_task[]) IS 'Internal: inserts the tasks of enqueue_many and returns their ids in order.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

DROP FUNCTION sched.enqueue_many(jsonb);
DROP FUNCTION sched.insert_many(jsonb, sched.new_task[]);
DROP FUNCTION sched.new_task_of(jsonb);
