-- Locking: replaces functions only. Calls that are under way finish with the body they began with.
--
-- Most bulk enqueues are one kind of task with many args. What such tasks have in common is checked and derived once, and their
-- rows are made by one plain insert.

-- +goose Up

-- enqueue_many keeps its place, and with it everybody's right to call it; what it did so far goes on under another name.
-- +goose StatementBegin
DO $$
BEGIN
    SET LOCAL quote_all_identifiers = off; -- the name below is looked for as it is written
    EXECUTE replace(pg_get_functiondef('sched.enqueue_many(jsonb)'::regprocedure),
        'FUNCTION sched.enqueue_many(', 'FUNCTION sched.enqueue_many_mixed(');
END;
$$;
-- +goose StatementEnd
ALTER FUNCTION sched.enqueue_many_mixed(jsonb) SECURITY INVOKER;
COMMENT ON FUNCTION sched.enqueue_many_mixed(jsonb) IS 'Internal: enqueue_many of tasks that differ in more than their args, and of those that are refused or delayed.';

-- sched.enqueue_alike(tasks): enqueue_many of tasks that differ in their args alone; the ids in order, or NULL, and nothing done, if
-- they don't, or if there is anything about them that sched.enqueue_many_mixed must see to: an error, a unique key, a door that is not
-- simply open. Lock order: an advisory lock on a queue's first use after the new rows. Waits for nobody.
-- Bounds: the settings max_enqueue_many and max_args_bytes; a pass over tasks that ends with the first that differs, then one insert.
-- +goose StatementBegin
CREATE FUNCTION sched.enqueue_alike(tasks jsonb) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    notify    boolean;
    max_bytes integer;
    max_tasks integer;
    common    jsonb;
    new       sched.new_task;
    ids       bigint[];
BEGIN
    IF jsonb_typeof(tasks) IS DISTINCT FROM 'array' OR jsonb_typeof(tasks -> 0) IS DISTINCT FROM 'object' THEN
        RETURN NULL;
    END IF;
    SELECT
        coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_args_bytes'), 1048576),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_enqueue_many'), 100000)
    INTO notify, max_bytes, max_tasks;
    common := (tasks -> 0) - 'args';
    IF jsonb_array_length(tasks) > max_tasks OR common ->> 'unique_key' IS NOT NULL OR EXISTS (
        SELECT FROM jsonb_array_elements(tasks) AS t (task)
        WHERE CASE
            WHEN jsonb_typeof(t.task) = 'object' THEN t.task - 'args' <> common OR octet_length((t.task -> 'args')::text) > max_bytes
            ELSE true
        END
    ) THEN
        RETURN NULL;
    END IF;
    new := sched.new_task_of(common, (SELECT k FROM sched.kind AS k WHERE k.kind = common ->> 'kind'));
    IF new.fault IS NOT NULL OR EXISTS (
        SELECT FROM sched.queue AS q WHERE q.name = new.queue AND q.pressure <> 'green' AND q.admission <> 'accept'
    ) THEN
        RETURN NULL;
    END IF;

    WITH added AS (
        INSERT INTO sched.river_job (id, kind, args, queue, priority, max_attempts, state, scheduled_at, metadata)
        SELECT nextval('sched.river_job_id_seq'), common ->> 'kind', t.args, new.queue, new.priority, new.max_attempts, new.state,
            new.scheduled_at, new.metadata
        FROM (
            SELECT coalesce(e.task -> 'args', '{}') AS args
            FROM jsonb_array_elements(tasks) WITH ORDINALITY AS e (task, ord) ORDER BY e.ord
        ) AS t
        RETURNING id
    )
    SELECT array_agg(a.id ORDER BY a.id) INTO ids FROM added AS a; -- ids ascend in the order given

    IF NOT EXISTS (SELECT FROM sched.queue AS known WHERE known.name = new.queue) THEN
        PERFORM sched.add_queue(new.queue, new.base, new.selector, new.protocol);
    END IF;
    IF notify AND new.state = 'available' THEN
        PERFORM sched.wake_queue(new.queue);
    ELSIF notify AND new.scheduled_at < clock_timestamp() + interval '2 seconds' THEN
        PERFORM pg_notify('sched.due', ceil(extract(epoch FROM new.scheduled_at) * 1000)::bigint::text);
    END IF;
    RETURN ids;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.enqueue_alike(jsonb) IS 'Internal: adds the tasks of enqueue_many if they differ in their args alone; NULL, and nothing done, if they don''t or if any is to be refused.';

-- sched.enqueue_many(tasks): many tasks in the caller's transaction, all or none; returns their ids in the order given. Two
-- elements with the same unique key get one task, the first one's. Locks, waits and bounds are those of sched.enqueue_alike and, where
-- that has nothing to do with them, of sched.enqueue_many_mixed.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.enqueue_many(tasks jsonb) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1000 SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    ids bigint[] := sched.enqueue_alike(tasks);
BEGIN
    IF ids IS NULL THEN
        RETURN QUERY SELECT m.id FROM sched.enqueue_many_mixed(tasks) WITH ORDINALITY AS m (id, ord) ORDER BY m.ord;
        RETURN;
    END IF;
    RETURN QUERY SELECT u.id FROM unnest(ids) WITH ORDINALITY AS u (id, ord) ORDER BY u.ord;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.enqueue_many(jsonb) IS 'Adds many tasks in the caller''s transaction, all or none, and returns their ids in the order given. tasks is an array of objects with the names of sched.enqueue''s arguments; what one leaves out is its kind''s default, else the global one. Fastest where they differ in their args alone. SC429 if one of their queues rejects tasks now.';

REVOKE ALL ON FUNCTION sched.enqueue_alike(jsonb), sched.enqueue_many_mixed(jsonb) FROM PUBLIC;

-- +goose Down

-- +goose StatementBegin
DO $$
BEGIN
    SET LOCAL quote_all_identifiers = off; -- the name below is looked for as it is written
    EXECUTE replace(pg_get_functiondef('sched.enqueue_many_mixed(jsonb)'::regprocedure),
        'FUNCTION sched.enqueue_many_mixed(', 'FUNCTION sched.enqueue_many(');
END;
$$;
-- +goose StatementEnd
ALTER FUNCTION sched.enqueue_many(jsonb) SECURITY DEFINER;
COMMENT ON FUNCTION sched.enqueue_many(jsonb) IS 'Adds many tasks in the caller''s transaction, all or none, and returns their ids in the order given. tasks is an array of objects with the names of sched.enqueue''s arguments; what one leaves out is its kind''s default, else the global one. SC429 if one of their queues rejects tasks now.';
DROP FUNCTION sched.enqueue_alike(jsonb);
DROP FUNCTION sched.enqueue_many_mixed(jsonb);
