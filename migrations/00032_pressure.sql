-- Locking: creates functions only; nothing that is in use gets locked.
--
-- The door: what pressure is to those who bring tasks, and whom a new task wakes.

-- +goose Up

-- sched.pressure_of(queue): pressure of a queue (by its full name, as in sched.queue), or of the fleet for NULL, as the leader saw it last.
-- Reads one or two rows and four settings, locks nothing. Older than 5 s, nobody leads: then it counts as green and reason says so.
-- +goose StatementBegin
CREATE FUNCTION sched.pressure_of(
    queue text,
    OUT level text, OUT reason text, OUT pending integer, OUT max_pending integer, OUT load real, OUT workers integer,
    OUT retry_after interval, OUT age interval
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    SELECT
        CASE WHEN pressure_of.queue IS NULL THEN f.pressure ELSE coalesce(q.pressure, 'green') END,
        CASE WHEN pressure_of.queue IS NULL THEN f.pressure_reason ELSE q.pressure_reason END,
        CASE WHEN pressure_of.queue IS NULL THEN f.pending ELSE coalesce(q.pending, 0) END,
        coalesce(q.max_pending, (SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_pending'), 1000),
        CASE WHEN pressure_of.queue IS NULL THEN f.load ELSE coalesce(q.load, 0) END,
        CASE WHEN pressure_of.queue IS NULL THEN f.workers ELSE coalesce(q.workers, 0) END,
        CASE WHEN f.computed_at IS NOT NULL THEN greatest(clock_timestamp() - f.computed_at, interval '0') END
    INTO level, reason, pending, max_pending, load, workers, age
    FROM sched.fleet AS f LEFT JOIN sched.queue AS q ON q.name = pressure_of.queue;
    IF age IS NULL OR age > interval '5 seconds' THEN
        level := 'green';
        reason := CASE
            WHEN age IS NULL THEN 'not computed: no sidecar has led this fleet yet'
            ELSE format('not computed for %s s: no sidecar leads, so nothing is delayed or refused', floor(extract(epoch FROM age)))
        END;
    END IF;
    retry_after := CASE level
        WHEN 'red' THEN make_interval(secs => coalesce((
            SELECT s.value::float8 FROM sched.setting AS s WHERE s.key = 'admission_delay_red_ms'), 2000) / 1000)
        WHEN 'yellow' THEN make_interval(secs => coalesce((
            SELECT s.value::float8 FROM sched.setting AS s WHERE s.key = 'admission_delay_yellow_ms'), 500) / 1000)
        ELSE interval '0'
    END;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.pressure_of(text) IS 'Internal: pressure of a queue, or of the fleet for NULL.';

-- sched.pressure(): how close the fleet is to its limits. One row; reads two rows and the settings, locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.pressure() RETURNS TABLE (
    level text, reason text, pending integer, max_pending integer, load real, workers integer, retry_after interval, age interval
)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY SELECT p.* FROM sched.pressure_of(NULL) AS p;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.pressure() IS 'How close the fleet is to its limits: green, yellow or red, why, and when to ask again.';

-- sched.pressure(queue): how close a queue is to its limits. One row, green for a queue that was never used. Reads two rows and the
-- settings, locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.pressure(queue text) RETURNS TABLE (
    level text, reason text, pending integer, max_pending integer, load real, workers integer, retry_after interval, age interval
)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY SELECT p.* FROM sched.pressure_of(coalesce(pressure.queue, 'default')) AS p;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.pressure(text) IS 'How close a queue is to its limits: green, yellow or red, why, and when to ask again.';

-- sched.admit(caller, task): what the door of a queue under pressure makes of a new task: as it is, due later, or refused with SC429.
-- For queues whose row is not green and whose admission is not accept: enqueue looks at both itself. A task whose own time is later
-- keeps it. Reads two rows and the settings, locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.admit(caller text, task sched.new_task) RETURNS sched.new_task
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    admission text;
    door      record;
BEGIN
    SELECT q.admission INTO admission FROM sched.queue AS q WHERE q.name = task.queue;
    door := sched.pressure_of(task.queue);
    IF admission = 'reject' AND door.level = 'red' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC429',
            MESSAGE = format('%s: queue %s takes no new tasks now, its pressure is red: %s',
                admit.caller, task.queue, coalesce(door.reason, 'it is close to its limits')),
            DETAIL = format('retry after %s seconds', greatest(ceil(extract(epoch FROM door.retry_after)), 1)),
            HINT = 'roll back and try again after that time, or ask sched.pressure(queue) before you enqueue; an operator can set the '
                || 'queue''s admission to delay or accept';
    ELSIF admission = 'delay' AND door.retry_after > interval '0' THEN
        IF task.scheduled_at < clock_timestamp() + door.retry_after THEN
            -- For sched.explain.
            task.metadata := task.metadata || jsonb_build_object('sched:door', format('by %s s, since pressure was %s%s',
                round(extract(epoch FROM door.retry_after), 3), door.level, coalesce(' (' || left(door.reason, 200) || ')', '')));
        END IF;
        task.state := 'scheduled';
        task.scheduled_at := greatest(task.scheduled_at, clock_timestamp() + door.retry_after);
    END IF;
    RETURN task;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.admit(text, sched.new_task) IS 'Internal: lets a new task of a queue under pressure pass, makes it due later, or raises SC429.';

-- sched.notify_insert(queue, names, task_id): tells one of the sidecars in names, chosen by the task's id, that a task became
-- available; all sidecars if names or task_id is NULL.
-- Multiples of the golden ratio fall evenly on the list whatever the stride of the ids, so that queues whose tasks interleave each
-- go round their own workers.
-- Lock order: at commit the cluster-wide lock of NOTIFY. Bounds: one NOTIFY.
-- +goose StatementBegin
CREATE FUNCTION sched.notify_insert(queue text, names text[], task_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- Modulo first: a double has 53 bits, and the fraction needs some of them.
    turn   double precision := (task_id % 16777216) * 0.6180339887498949::float8;
    chosen text := names[1 + floor(cardinality(names) * (turn - floor(turn)))::integer];
BEGIN
    PERFORM pg_notify('sched.river_insert', '{"queue":' || to_json(queue)
        || CASE WHEN chosen IS NULL THEN '' ELSE ',"worker":' || to_json(chosen) END || '}');
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.notify_insert(text, text[], bigint) IS 'Internal: tells one of some sidecars, or all, that a task became available.';

-- sched.wake_queue(queue, task_id): tells the sidecars of a queue that a task became available: one of those that the leader named;
-- nobody while one of them polls by itself or all are full; everybody where none is named, or for a NULL task_id (several tasks). A
-- wake-up that gets lost costs at most a poll interval.
-- Lock order: at commit the cluster-wide lock of NOTIFY, if anybody is told. Bounds: one row read, one NOTIFY at most.
-- +goose StatementBegin
CREATE FUNCTION sched.wake_queue(queue text, task_id bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    wake text[];
BEGIN
    SELECT q.wake INTO wake FROM sched.queue AS q WHERE q.name = wake_queue.queue;
    IF wake IS NULL OR wake <> '{}' THEN
        PERFORM sched.notify_insert(wake_queue.queue, wake, wake_queue.task_id);
    END IF;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.wake_queue(text, bigint) IS 'Internal: wakes whom the leader named for a queue: one sidecar, all or none.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

DROP FUNCTION sched.wake_queue(text, bigint);
DROP FUNCTION sched.notify_insert(text, text[], bigint);
DROP FUNCTION sched.admit(text, sched.new_task);
DROP FUNCTION sched.pressure(text);
DROP FUNCTION sched.pressure();
DROP FUNCTION sched.pressure_of(text);
