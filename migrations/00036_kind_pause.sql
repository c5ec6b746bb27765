-- Locking: creates functions only; nothing that is in use gets locked.

-- +goose Up

-- sched.canary_share(task_id): where a task stands among a queue's tasks, from 0 to below 100, by its id alone: those below a
-- queue's canary percentage are the canary's. The multiplier is about the square root of 2, less 1, of the modulus, so that
-- the share of any run of ids is close to the percentage; it has nothing to do with the golden ratio that wake-ups go by.
-- The claim has this formula in line: keep the two the same (a test compares them).
CREATE FUNCTION sched.canary_share(task_id bigint) RETURNS real
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT ((abs(task_id % 2147483647) * 889516852 % 2147483647) * 1000000 / 2147483647)::real / 10000 $$;
COMMENT ON FUNCTION sched.canary_share(bigint) IS 'Where a task stands among its queue''s tasks, 0 to below 100, by its id: below the canary''s percentage it is the canary''s.';

-- sched.pause_kind(kind, until, reason, worker_id): nothing of the kind is claimed by any sidecar before that time, because its
-- app said so. Returns whether the pause became longer by more than half a second; otherwise nothing changed.
-- Lock order: the kind's flow row, then what a new row of sched.decision takes. Waits for a claim that takes from the row.
-- Bounds: one row of each.
-- +goose StatementBegin
CREATE FUNCTION sched.pause_kind(kind text, until timestamptz, reason text, worker_id text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    before timestamptz;
BEGIN
    IF pause_kind.until IS NULL OR pause_kind.until <= clock_timestamp() THEN
        RETURN false;
    END IF;
    SELECT f.paused_until INTO before FROM sched.flow AS f WHERE f.scope = 'kind' AND f.name = pause_kind.kind;
    -- The usual case while an app answers many calls alike: no lock, no write.
    IF before >= pause_kind.until - interval '500 milliseconds' THEN
        RETURN false;
    END IF;
    INSERT INTO sched.flow AS f (scope, name, tokens, paused_until, pause_reason, paused_by)
    VALUES ('kind', pause_kind.kind, 1, pause_kind.until, left(pause_kind.reason, 1000), pause_kind.worker_id)
    ON CONFLICT (scope, name) DO UPDATE
    SET paused_until = excluded.paused_until, pause_reason = excluded.pause_reason, paused_by = excluded.paused_by
    WHERE f.paused_until IS NULL OR f.paused_until < excluded.paused_until - interval '500 milliseconds';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO sched.decision (what, subject, who, from_value, to_value, reason)
    VALUES ('pause', pause_kind.kind, coalesce(pause_kind.worker_id, ''),
        CASE WHEN before > clock_timestamp() THEN 'until ' || before ELSE 'not paused' END,
        'until ' || pause_kind.until, coalesce(left(pause_kind.reason, 1000), ''));
    PERFORM pg_notify('sched.config', 'flow');
    RETURN true;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.pause_kind(text, timestamptz, text, text) IS 'For sidecars: nothing of the kind is claimed in the whole fleet before that time, as its app said. Returns whether that is news.';

REVOKE ALL ON FUNCTION sched.canary_share(bigint), sched.pause_kind(text, timestamptz, text, text) FROM PUBLIC;

-- +goose Down

DROP FUNCTION sched.pause_kind(text, timestamptz, text, text);
DROP FUNCTION sched.canary_share(bigint);
