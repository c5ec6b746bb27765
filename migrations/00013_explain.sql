-- Locking: creates functions only; nothing that is in use gets locked.

-- +goose Up

-- sched.explain_time(moment): a time as sched.explain writes it: in the session's time zone, and how far it is from now.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_time(moment timestamptz) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    distance interval;
BEGIN
    IF NOT isfinite(moment) THEN
        RETURN moment::text;
    END IF;
    distance := moment - clock_timestamp();
    RETURN to_char(moment, 'YYYY-MM-DD HH24:MI:SS.MSOF') || CASE
        WHEN distance > interval '0' THEN format(' (in %s)', date_trunc('second', distance))
        ELSE format(' (%s ago)', date_trunc('second', -distance))
    END;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_time(timestamptz) IS 'Internal: a time as sched.explain writes it.';

-- sched.explain_service(task_kind, task_queue, selector, protocol): who could claim a waiting task, or what nobody offers.
-- Locks nothing. Two passes over the workers that have not ended; at most 64 + 25 lines.
-- A worker that was silent for half a minute counts as gone: there may be nobody left to evict it.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_service(task_kind text, task_queue text, selector jsonb, protocol text) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    wanted record;
    tally  record;
BEGIN
    SELECT q.base, q.selector, q.protocol INTO wanted FROM sched.queue AS q WHERE q.name = task_queue;
    IF NOT FOUND THEN
        RETURN NEXT format('Queue %s has no row in sched.queue yet: the leading sidecar makes it within a second.', task_queue);
        SELECT split_part(task_queue, '|', 1) AS base, explain_service.selector, explain_service.protocol INTO wanted;
    END IF;

    SELECT
        count(*) FILTER (WHERE w.up) AS up,
        count(*) FILTER (WHERE w.state = 'draining') AS draining,
        count(*) FILTER (WHERE w.up AND w.speaks) AS speaking,
        count(*) FILTER (WHERE w.up AND w.takes_queue) AS taking_queue,
        count(*) FILTER (WHERE w.up AND w.takes_kind) AS taking_kind,
        count(*) FILTER (WHERE w.serves) AS serving,
        count(*) FILTER (WHERE w.serves AND NOT w.skips AND w.held = '') AS willing,
        coalesce(sum(greatest(w.slots - w.running, 0)) FILTER (WHERE w.serves AND NOT w.skips AND w.held = ''), 0) AS free,
        (array_agg(format('%s runs %s of %s', w.id, w.running, w.slots) ORDER BY w.id)
            FILTER (WHERE w.serves AND NOT w.skips AND w.held = ''))[:5] AS loads,
        (array_agg(format('The app of worker %s (%s) lacks kind %s: the worker skips it, and asks again within a minute.', w.id, w.app_url, task_kind)
            ORDER BY w.id) FILTER (WHERE w.serves AND w.skips))[:5] AS skipping,
        (array_agg(format('Worker %s on %s, beside %s, claims nothing now: %s.', w.id, w.hostname, w.app_url, w.held)
            ORDER BY w.id) FILTER (WHERE w.serves AND w.held <> ''))[:5] AS holding,
        (array_agg(format('Worker %s on %s has not been heard of since %s: it serves nothing.', w.id, w.hostname, sched.explain_time(w.heartbeat_at))
            ORDER BY w.heartbeat_at DESC) FILTER (WHERE w.silent AND w.matches))[:5] AS silent,
        (array_agg(format('Worker %s on %s lacks %s.', w.id, w.hostname, w.lacks) ORDER BY w.id) FILTER (WHERE w.up AND NOT w.matches))[:5] AS lacking
    INTO tally
    FROM sched.explain_workers(task_kind, wanted.base, wanted.selector, wanted.protocol) AS w;

    IF tally.up = 0 THEN
        RETURN NEXT 'No sidecar is running that claims tasks.';
    ELSIF tally.serving = 0 THEN
        RETURN NEXT format('Live workers: %s. None of them serves it.', tally.up);
        RETURN QUERY SELECT format('No live worker carries the label %s.', m.label)
            FROM sched.explain_workers(task_kind, wanted.base, wanted.selector, wanted.protocol) AS w CROSS JOIN unnest(w.missing) AS m (label)
            WHERE w.up GROUP BY m.label HAVING count(*) = tally.up ORDER BY m.label LIMIT 64;
        IF tally.speaking = 0 THEN
            RETURN NEXT format('No live worker speaks %s.', wanted.protocol);
        END IF;
        IF tally.taking_queue = 0 THEN
            RETURN NEXT format('No live worker is configured to serve queue %s.', wanted.base);
        END IF;
        IF tally.taking_kind = 0 THEN
            RETURN NEXT format('No live worker is configured to claim kind %s.', task_kind);
        END IF;
        RETURN QUERY SELECT unnest(tally.lacking);
    ELSIF tally.willing > 0 AND tally.free = 0 THEN
        RETURN NEXT format('Every worker that serves it is full: %s%s.', array_to_string(tally.loads, ', '),
            CASE WHEN tally.willing > 5 THEN format(' and %s more', tally.willing - 5) END);
    ELSIF tally.willing > 0 THEN
        RETURN NEXT format('Live workers that serve it: %s, with %s free slots.', tally.willing, tally.free);
    END IF;
    RETURN QUERY SELECT unnest(tally.holding || tally.skipping || tally.silent);
    IF tally.serving = 0 AND tally.draining > 0 THEN
        RETURN NEXT format('Workers that are draining, and claim nothing more: %s.', tally.draining);
    END IF;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_service(text, text, jsonb, text) IS 'Internal: who could claim a task, or what nobody offers, a statement a line.';

-- sched.explain_workers(...): the workers that have not ended, and how each stands to a task. Locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_workers(
    task_kind text, base text, selector jsonb, protocol text,
    OUT id text, OUT hostname text, OUT app_url text, OUT state text, OUT heartbeat_at timestamptz, OUT running integer, OUT slots integer,
    OUT up boolean, OUT silent boolean, OUT missing text[], OUT speaks boolean, OUT takes_queue boolean, OUT takes_kind boolean,
    OUT matches boolean, OUT serves boolean, OUT skips boolean, OUT held text, OUT lacks text
) RETURNS SETOF record
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT
        w.id, w.hostname, w.app_url, w.state, w.heartbeat_at, w.running, w.slots,
        f.claims AND NOT f.silent, f.claims AND f.silent, f.missing, f.speaks, f.takes_queue, f.takes_kind, m.matches,
        f.claims AND NOT f.silent AND m.matches, explain_workers.task_kind = ANY (w.skipped_kinds),
        array_to_string(w.holds, ', '),
        concat_ws(', ',
            'label ' || array_to_string(f.missing, ', label '),
            CASE WHEN NOT f.speaks THEN 'protocol ' || explain_workers.protocol END,
            CASE WHEN NOT f.takes_queue THEN format('queue %s in its configuration', explain_workers.base) END,
            CASE WHEN NOT f.takes_kind THEN format('kind %s in its configuration', explain_workers.task_kind) END)
    FROM sched.worker AS w
    CROSS JOIN LATERAL (
        SELECT
            w.state IN ('pending', 'active') AS claims,
            w.heartbeat_at <= clock_timestamp() - interval '30 seconds' AS silent,
            (
                SELECT array_agg(format('%s=%s', e.key, e.value #>> '{}') ORDER BY e.key) FROM jsonb_each(explain_workers.selector) AS e
                WHERE NOT w.labels @> jsonb_build_object(e.key, e.value)
            ) AS missing,
            explain_workers.protocol = 'any' OR explain_workers.protocol = ANY (w.protocols) AS speaks,
            w.queues IS NULL OR explain_workers.base = ANY (w.queues) AS takes_queue,
            w.kinds IS NULL OR explain_workers.task_kind = ANY (w.kinds) AS takes_kind
    ) AS f
    CROSS JOIN LATERAL (SELECT f.missing IS NULL AND f.speaks AND f.takes_queue AND f.takes_kind AS matches) AS m
    WHERE w.state IN ('pending', 'active', 'draining');
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_workers(text, text, jsonb, text) IS 'Internal: the workers that have not ended, and how each stands to a task.';

-- sched.explain_wait(id): why a task that is not running, and has not ended, is still waiting. Locks nothing.
-- Bounds: counts at most 10000 tasks ahead of it.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_wait(id bigint) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task   record;
    paused timestamptz;
    ahead  bigint;
BEGIN
    SELECT * INTO task FROM sched.task AS t WHERE t.id = explain_wait.id;
    SELECT q.paused_at INTO paused FROM sched.river_queue AS q WHERE q.name = task.queue;
    IF paused IS NOT NULL THEN
        RETURN NEXT format('Queue %s is paused since %s.', task.queue, sched.explain_time(paused));
    END IF;
    IF task.status IN ('scheduled', 'retryable') AND task.run_at <= clock_timestamp() THEN
        RETURN NEXT 'It is due: any running sidecar makes it available.';
    END IF;
    IF task.status = 'pending' OR task.run_at > clock_timestamp() THEN
        RETURN;
    END IF;
    IF task.status = 'available' THEN
        SELECT count(*) INTO ahead FROM (
            SELECT FROM sched.river_job AS j
            WHERE j.state = 'available' AND j.queue = task.queue AND (j.priority, j.scheduled_at, j.id) < (task.priority, task.run_at, task.id)
            LIMIT 10000
        ) AS j;
        RETURN NEXT format('Tasks of its queue that start before it: %s.', CASE WHEN ahead = 10000 THEN '10000 or more' ELSE ahead::text END);
    END IF;
    RETURN QUERY SELECT sched.explain_service(task.kind, task.queue, task.selector, task.protocol);
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_wait(bigint) IS 'Internal: why a task is still waiting, a statement a line.';

-- sched.explain_run(id): who runs a task, until when, and whether that worker still lives. Locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_run(id bigint) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task   record;
    holder sched.worker;
BEGIN
    SELECT * INTO task FROM sched.task AS t WHERE t.id = explain_run.id;
    SELECT * INTO holder FROM sched.worker AS w WHERE w.id = task.worker_id;
    RETURN NEXT format('Attempt %s of %s runs since %s on worker %s%s.', task.attempt, task.max_attempts, sched.explain_time(task.start_time),
        task.worker_id, ' (host ' || holder.hostname || ', app ' || holder.app_url || ')');
    IF task.timeout IS NOT NULL THEN
        RETURN NEXT format('It may take until %s.', sched.explain_time(task.start_time + task.timeout));
    END IF;
    IF holder.id IS NULL THEN
        RETURN NEXT 'That worker is not in sched.worker: a River client that works tasks by itself, or one that ended long ago.';
    ELSIF holder.state IN ('evicted', 'done') THEN
        RETURN NEXT format('That worker is %s since %s: the leading sidecar takes the task from it, once no app holds the task''s row.',
            holder.state, sched.explain_time(holder.ended_at));
    ELSIF holder.heartbeat_at <= clock_timestamp() - interval '30 seconds' THEN
        RETURN NEXT format('That worker has not been heard of since %s: a running sidecar takes the task from it.', sched.explain_time(holder.heartbeat_at));
    END IF;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_run(bigint) IS 'Internal: who runs a task, and until when, a statement a line.';

-- sched.explain(task_id): why a task waits, or what became of it, a statement a line. SC404 when unknown. Locks nothing.
-- Bounds: the task, the workers that have not ended, at most 10000 tasks ahead of it, its last 20 attempts.
-- +goose StatementBegin
CREATE FUNCTION sched.explain(task_id bigint) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task    record;
    asked   text;
    because text;
BEGIN
    SELECT * INTO task FROM sched.task AS t WHERE t.id = explain.task_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.explain: there is no task %s', coalesce(explain.task_id::text, 'NULL')),
            HINT = 'pass the id that enqueue returned; a task exists once its transaction has committed, and is deleted some time after it ended';
    END IF;
    SELECT left(j.metadata ->> 'cancel_attempted_at', 40) INTO asked FROM sched.river_job AS j WHERE j.id = explain.task_id;
    because := coalesce(': ' || sched.explain_error(task.error), '.');

    RETURN NEXT format('Task %s of kind %s is %s (queue %s, priority %s).', task.id, task.kind, task.status, task.queue, task.priority);
    CASE task.status
        WHEN 'available', 'pending' THEN
            RETURN NEXT CASE task.status
                WHEN 'available' THEN format('It waits for a worker, since %s.', sched.explain_time(task.run_at))
                ELSE 'A River client holds it back until it makes it available itself.'
            END;
            RETURN QUERY SELECT sched.explain_wait(task.id);
        WHEN 'scheduled', 'retryable' THEN
            RETURN NEXT format('%s %s.', CASE task.status WHEN 'scheduled' THEN 'It is scheduled for' ELSE 'Its next attempt is at' END, sched.explain_time(task.run_at));
            RETURN QUERY SELECT sched.explain_wait(task.id);
        WHEN 'running' THEN
            RETURN QUERY SELECT sched.explain_run(task.id);
            IF asked IS NOT NULL THEN
                RETURN NEXT format('Its cancellation was asked for at %s: its worker ends it.', asked);
            END IF;
        WHEN 'completed' THEN
            RETURN NEXT format('It completed at %s, in attempt %s.', sched.explain_time(task.end_time), task.attempt);
        WHEN 'cancelled' THEN
            RETURN NEXT format('It was cancelled at %s, %s%s', sched.explain_time(task.end_time),
                CASE WHEN asked IS NOT NULL THEN 'as was asked for at ' || asked ELSE 'by its app' END, because);
        WHEN 'discarded' THEN
            RETURN NEXT format('It was discarded at %s, after %s of %s attempts%s',
                sched.explain_time(task.end_time), task.attempt, task.max_attempts, because);
    END CASE;

    RETURN QUERY SELECT a.line FROM sched.explain_attempts(task.id) AS a (line);
    RETURN NEXT format('It was enqueued at %s by %s.', sched.explain_time(task.created_at), CASE
        WHEN task.enqueued_by IS NULL THEN 'a River client'
        ELSE task.enqueued_by || coalesce(' (' || task.enqueued_app || ')', '')
    END);
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain(bigint) IS 'Why a task waits or what became of it, in words, a statement a line. SC404 if there is no such task.';

-- sched.explain_error(error): an error as one line of bounded length. Pure.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_error(error text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN regexp_replace(left(error, 500), '\s+', ' ', 'g');
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_error(text) IS 'Internal: an error as one line.';

-- sched.explain_attempts(id): the attempts of a task that have ended, the first one first. Locks nothing. The last 20 only.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_attempts(id bigint) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    total bigint;
BEGIN
    SELECT count(*) INTO total FROM sched.attempt AS a WHERE a.task_id = explain_attempts.id AND a.outcome IS NOT NULL;
    IF total > 20 THEN
        RETURN NEXT format('Earlier attempts that are not listed here: %s (see sched.attempt).', total - 20);
    END IF;
    RETURN QUERY
    SELECT format('Attempt %s began at %s on worker %s and %s%s%s', a.attempt, sched.explain_time(a.start_time), a.worker_id || coalesce(' (host ' || w.hostname || ')', ''),
        CASE a.outcome
            WHEN 'retry' THEN 'failed'
            WHEN 'snooze' THEN 'was put off by the app'
            WHEN 'handback' THEN 'was given back unspent'
            WHEN 'rescued' THEN 'was lost with its worker'
            WHEN 'discarded' THEN 'failed for good'
            WHEN 'cancelled' THEN 'was cancelled'
            ELSE a.outcome
        END,
        ' after ' || round(extract(epoch FROM a.end_time - a.start_time), 3) || ' s',
        coalesce(': ' || sched.explain_error(a.error), '.'))
    FROM (
        SELECT * FROM sched.attempt AS a WHERE a.task_id = explain_attempts.id AND a.outcome IS NOT NULL
        ORDER BY a.start_time DESC LIMIT 20
    ) AS a
    LEFT JOIN sched.worker AS w ON w.id = a.worker_id
    ORDER BY a.start_time;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_attempts(bigint) IS 'Internal: the attempts of a task that have ended, one a line.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

DROP FUNCTION sched.explain(bigint);
DROP FUNCTION sched.explain_attempts(bigint);
DROP FUNCTION sched.explain_error(text);
DROP FUNCTION sched.explain_run(bigint);
DROP FUNCTION sched.explain_wait(bigint);
DROP FUNCTION sched.explain_service(text, text, jsonb, text);
DROP FUNCTION sched.explain_workers(text, text, jsonb, text);
DROP FUNCTION sched.explain_time(timestamptz);
