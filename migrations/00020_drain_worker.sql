-- Locking: creates a function only; nothing that is in use gets locked.

-- +goose Up

-- sched.drain_worker(worker_id): asks a worker to take nothing more and end what it runs. Returns its state after it: draining
-- (now, or before), done or evicted (it had ended; nothing changed). SC404 when unknown.
-- Compare and swap: only a pending or active worker moves, and never back. Claims look at the state in the same statement
-- that takes tasks, so nothing is claimed by it that begins after this commits.
-- Lock order: the worker's row, as its heartbeats have it.
-- Bounds: one row.
-- +goose StatementBegin
CREATE FUNCTION sched.drain_worker(worker_id text) RETURNS text
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
COMMENT ON FUNCTION sched.drain_worker(text) IS 'Asks a worker to take nothing more and end what it runs. Returns its state after it: draining, done or evicted. SC404 if there is no such worker.';

REVOKE ALL ON FUNCTION sched.drain_worker(text) FROM PUBLIC;

-- +goose Down

DROP FUNCTION sched.drain_worker(text);
