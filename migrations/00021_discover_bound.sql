-- Locking: replaces a function only; nothing that is in use gets locked.

-- +goose Up

-- sched.discover_queues(): as before, but what a task's metadata demands binds its queue only if the queue's name is derived
-- from just that: a River client may put any metadata on a task of any queue, and other tasks of the queue demand nothing.
-- A name that looks derived, with a task that doesn't demand what it stands for, stays unknown: whoever serves it might lack
-- what later tasks need. Lock order, waits and bounds are unchanged.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.discover_queues(OUT name text, OUT base text, OUT selector jsonb, OUT protocol text, OUT added boolean) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    last  text := '';
    found_queues integer := 0;
    meta  jsonb;
BEGIN
    FOR step IN 1..10000 LOOP
        SELECT j.queue, j.metadata INTO last, meta FROM sched.river_job AS j
        WHERE j.state = 'available' AND j.queue > last ORDER BY j.queue LIMIT 1;
        EXIT WHEN NOT FOUND OR found_queues = 1000;
        CONTINUE WHEN EXISTS (SELECT FROM sched.queue AS q WHERE q.name = last);
        discover_queues.name := last;
        discover_queues.base := split_part(last, '|', 1);
        discover_queues.selector := CASE WHEN jsonb_typeof(meta -> 'sched:selector') = 'object' THEN meta -> 'sched:selector' ELSE '{}' END;
        discover_queues.protocol := CASE WHEN meta ->> 'sched:protocol' IN ('http', 'grpc', 'exec') THEN meta ->> 'sched:protocol' ELSE 'any' END;
        IF sched.queue_name(discover_queues.base, discover_queues.selector, discover_queues.protocol) <> last THEN
            CONTINUE WHEN last ~ '\|[0-9a-f]{12}$';
            discover_queues.selector := '{}';
            discover_queues.protocol := 'any';
        END IF;
        discover_queues.added := sched.add_queue(
            discover_queues.name, discover_queues.base, discover_queues.selector, discover_queues.protocol);
        found_queues := found_queues + 1;
        RETURN NEXT;
    END LOOP;

    -- River's rows: made anew where a cleaner took one away, touched where they grow old.
    WITH stale AS (
        SELECT r.name FROM sched.river_queue AS r JOIN sched.queue AS q ON q.name = r.name
        WHERE r.updated_at < now() - interval '10 minutes'
        ORDER BY r.name LIMIT 1000
        FOR NO KEY UPDATE OF r SKIP LOCKED
    )
    UPDATE sched.river_queue AS r SET updated_at = now() FROM stale WHERE r.name = stale.name;
    PERFORM sched.add_queue(q.name, q.base, q.selector, q.protocol)
    FROM sched.queue AS q
    WHERE NOT EXISTS (SELECT FROM sched.river_queue AS r WHERE r.name = q.name)
    ORDER BY q.name LIMIT 1000;
END;
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.discover_queues(OUT name text, OUT base text, OUT selector jsonb, OUT protocol text, OUT added boolean) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    last  text := '';
    found_queues integer := 0;
    meta  jsonb;
BEGIN
    FOR step IN 1..10000 LOOP
        SELECT j.queue, j.metadata INTO last, meta FROM sched.river_job AS j
        WHERE j.state = 'available' AND j.queue > last ORDER BY j.queue LIMIT 1;
        EXIT WHEN NOT FOUND OR found_queues = 1000;
        CONTINUE WHEN EXISTS (SELECT FROM sched.queue AS q WHERE q.name = last);
        discover_queues.name := last;
        discover_queues.base := split_part(last, '|', 1);
        discover_queues.selector := CASE WHEN jsonb_typeof(meta -> 'sched:selector') = 'object' THEN meta -> 'sched:selector' ELSE '{}' END;
        discover_queues.protocol := CASE WHEN meta ->> 'sched:protocol' IN ('http', 'grpc', 'exec') THEN meta ->> 'sched:protocol' ELSE 'any' END;
        discover_queues.added := sched.add_queue(
            discover_queues.name, discover_queues.base, discover_queues.selector, discover_queues.protocol);
        found_queues := found_queues + 1;
        RETURN NEXT;
    END LOOP;

    -- River's rows: made anew where a cleaner took one away, touched where they grow old.
    WITH stale AS (
        SELECT r.name FROM sched.river_queue AS r JOIN sched.queue AS q ON q.name = r.name
        WHERE r.updated_at < now() - interval '10 minutes'
        ORDER BY r.name LIMIT 1000
        FOR NO KEY UPDATE OF r SKIP LOCKED
    )
    UPDATE sched.river_queue AS r SET updated_at = now() FROM stale WHERE r.name = stale.name;
    PERFORM sched.add_queue(q.name, q.base, q.selector, q.protocol)
    FROM sched.queue AS q
    WHERE NOT EXISTS (SELECT FROM sched.river_queue AS r WHERE r.name = q.name)
    ORDER BY q.name LIMIT 1000;
END;
$$;
-- +goose StatementEnd
