-- Locking: ACCESS EXCLUSIVE on queue for a catalog change and an index over its few rows: the new column's default is the same for
-- all rows there are (no rewrite). The program gives up after a moment and asks again (see locks.go).
--
-- What the leader's turn needs so that its cost follows what changes and what waits, not how many queues there are.

-- +goose Up

ALTER TABLE sched.queue ADD COLUMN config_xid xid8 NOT NULL DEFAULT pg_current_xact_id();
COMMENT ON COLUMN sched.queue.config_xid IS 'Transaction that last made or reconfigured the queue: the leader reads those that it has not seen yet.';
CREATE INDEX queue_config_xid_index ON sched.queue (config_xid);
COMMENT ON INDEX sched.queue_config_xid_index IS 'Queues made or reconfigured since.';

-- sched.queue_reconfigured(): trigger function; marks a queue that routing has to look at again. Internal.
-- Lock order: the row being changed. Bounds: one row.
-- +goose StatementBegin
CREATE FUNCTION sched.queue_reconfigured() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.config_xid := pg_current_xact_id();
    RETURN NEW;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.queue_reconfigured() IS 'Internal: marks a queue that routing has to look at again.';

CREATE TRIGGER queue_reconfigured
    BEFORE UPDATE OF base, selector, protocol, strategy, max_pending ON sched.queue
    FOR EACH ROW
    WHEN (OLD.base IS DISTINCT FROM NEW.base OR OLD.selector IS DISTINCT FROM NEW.selector OR OLD.protocol IS DISTINCT FROM NEW.protocol
        OR OLD.strategy IS DISTINCT FROM NEW.strategy OR OLD.max_pending IS DISTINCT FROM NEW.max_pending)
    EXECUTE FUNCTION sched.queue_reconfigured();
COMMENT ON TRIGGER queue_reconfigured ON sched.queue IS 'Keeps config_xid.';

-- sched.count_waiting(after, default_max, budget, largest): for the leader, each second. How many tasks are available and due in
-- each queue that has any, in the order of names from after on, each counted up to its max_pending (default_max if it has none).
-- waiting is NULL for a queue whose max_pending is above largest: it was passed over. The last row has queue NULL if it came to the
-- end; otherwise the budget ran out, and the next call goes on after the last queue.
-- Lock order: locks nothing.
-- Bounds: an index descent for each queue with waiting tasks, counted as 20 rows; max_pending rows of each; ends with the queue
-- that goes over budget. Only the index of available tasks is used, whatever the statistics say: the order asked for is its own.
-- +goose StatementBegin
CREATE FUNCTION sched.count_waiting(after text, default_max integer, budget integer, largest integer, OUT queue text, OUT waiting integer)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    last text := after;
    most integer;
    seen integer;
BEGIN
    WHILE count_waiting.budget > 0 LOOP
        SELECT j.queue INTO last FROM sched.river_job AS j
        WHERE j.state = 'available' AND j.queue > last ORDER BY j.queue LIMIT 1;
        IF NOT FOUND THEN
            count_waiting.queue := NULL;
            count_waiting.waiting := NULL;
            RETURN NEXT;
            RETURN;
        END IF;
        SELECT q.max_pending INTO most FROM sched.queue AS q WHERE q.name = last;
        most := coalesce(most, count_waiting.default_max);
        count_waiting.queue := last;
        count_waiting.waiting := NULL;
        seen := 0;
        IF most <= count_waiting.largest THEN
            SELECT count(*), count(*) FILTER (WHERE counted.scheduled_at <= now()) INTO seen, count_waiting.waiting
            FROM (
                SELECT j.scheduled_at FROM sched.river_job AS j
                WHERE j.state = 'available' AND j.queue = last
                ORDER BY j.queue, j.priority, j.scheduled_at, j.id LIMIT most
            ) AS counted;
        END IF;
        count_waiting.budget := count_waiting.budget - 20 - seen;
        RETURN NEXT;
    END LOOP;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.count_waiting(text, integer, integer, integer) IS 'For the leader: tasks available and due per queue, each counted up to its max_pending, within a budget of rows.';

-- sched.look_at_tasks(probe): for the leader, each second. Whether a task is available, and in how many milliseconds the next one is due that
-- is scheduled or will be retried: 0 for now, an hour for none or one far off.
-- Without a probe nothing is read, and there is taken to be something.
-- Lock order: locks nothing.
-- Bounds: the first entry of two indexes that is no dead row's, whatever the statistics say: the orders asked for are theirs.
-- +goose StatementBegin
CREATE FUNCTION sched.look_at_tasks(probe boolean, OUT waiting boolean, OUT next_due_ms double precision) RETURNS SETOF record
LANGUAGE plpgsql STABLE ROWS 1
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    due timestamptz;
BEGIN
    IF NOT probe THEN
        waiting := true;
        next_due_ms := 0;
        RETURN NEXT;
        RETURN;
    END IF;
    PERFORM FROM sched.river_job AS j WHERE j.state = 'available' ORDER BY j.queue, j.priority, j.scheduled_at, j.id LIMIT 1;
    waiting := FOUND;
    SELECT j.scheduled_at INTO due FROM sched.river_job AS j
    WHERE j.state IN ('retryable', 'scheduled') ORDER BY j.scheduled_at, j.id LIMIT 1;
    next_due_ms := CASE
        WHEN due <= clock_timestamp() THEN 0
        WHEN isfinite(due) THEN least(extract(EPOCH FROM due - clock_timestamp()) * 1000, 3600000)
        ELSE 3600000
    END;
    RETURN NEXT;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.look_at_tasks(boolean) IS 'For the leader: whether a task is available, and how soon the next one is due.';

REVOKE ALL ON FUNCTION sched.queue_reconfigured(), sched.count_waiting(text, integer, integer, integer), sched.look_at_tasks(boolean) FROM PUBLIC;

-- +goose Down

DROP TRIGGER queue_reconfigured ON sched.queue;
DROP FUNCTION sched.queue_reconfigured();
DROP FUNCTION sched.count_waiting(text, integer, integer, integer);
DROP FUNCTION sched.look_at_tasks(boolean);
ALTER TABLE sched.queue DROP COLUMN config_xid;
