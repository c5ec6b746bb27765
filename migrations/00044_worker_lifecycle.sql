-- Locking: SHARE ROW EXCLUSIVE on worker, for a moment: heartbeats wait for it, and it for them. The program gives up after a
-- moment and asks again (see locks.go).

-- +goose Up

-- sched.worker_moved(): keeps the lifecycle of a registration whole, whoever changes its state: it goes forward only (pending,
-- active, draining, then done or evicted), nothing comes back from an end, and each move counts state_version up. SC409 otherwise.
-- Lock order: none; the row is the one being written. Bounds: runs for statements that set state only, not for heartbeats.
-- +goose StatementBegin
CREATE FUNCTION sched.worker_moved() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    stages constant text[] := ARRAY['pending', 'active', 'draining', 'done'];
BEGIN
    IF OLD.state IN ('done', 'evicted')
        OR (NEW.state <> 'evicted' AND array_position(stages, NEW.state) < array_position(stages, OLD.state)) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC409',
            MESSAGE = format('worker %s is %s and cannot become %s', OLD.id, OLD.state, NEW.state),
            DETAIL = 'A worker goes from pending to active, draining and done, or is evicted; it never goes back.',
            HINT = 'A sidecar that has ended or was drained takes tasks again once it is restarted, under a new id.';
    END IF;
    NEW.state_version := greatest(NEW.state_version, OLD.state_version + 1);
    RETURN NEW;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.worker_moved() IS 'Trigger: a worker''s state goes forward only, and each move counts state_version up.';

CREATE TRIGGER worker_moved BEFORE UPDATE OF state ON sched.worker
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION sched.worker_moved();
COMMENT ON TRIGGER worker_moved ON sched.worker IS 'Refuses moves back, by whoever they are made.';

-- sched.worker_news(): tells the leader, by a notification, of a worker whose state or labels changed, so that assignments follow
-- before its next turn.
-- +goose StatementBegin
CREATE FUNCTION sched.worker_news() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_notify('sched.worker', NEW.id);
    RETURN NULL;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.worker_news() IS 'Trigger: tells the leader of a worker whose state or labels changed.';

CREATE TRIGGER worker_news AFTER UPDATE OF state, labels ON sched.worker
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.labels IS DISTINCT FROM NEW.labels) EXECUTE FUNCTION sched.worker_news();
COMMENT ON TRIGGER worker_news ON sched.worker IS 'Tells the leader.';

REVOKE ALL ON FUNCTION sched.worker_moved() FROM PUBLIC;
REVOKE ALL ON FUNCTION sched.worker_news() FROM PUBLIC;

-- +goose Down

DROP TRIGGER worker_news ON sched.worker;
DROP FUNCTION sched.worker_news();
DROP TRIGGER worker_moved ON sched.worker;
DROP FUNCTION sched.worker_moved();
