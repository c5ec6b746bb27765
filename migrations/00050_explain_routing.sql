-- Locking: creates and replaces functions only; nothing that is in use gets locked.
--
-- sched.explain tells of routing too: assignments and weights, pressure at the door, limits, timed pauses, canaries, health.

-- +goose Up

-- sched.explain_door(id, queue): what pressure means for the queue's new tasks now, and that a task was delayed by it. Locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_door(id bigint, queue text) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    door    record;
    delayed text;
BEGIN
    SELECT j.metadata ->> 'sched:door' INTO delayed FROM sched.river_job AS j WHERE j.id = explain_door.id;
    IF delayed IS NOT NULL THEN
        RETURN NEXT format('The door of its queue made it due later: %s.', left(delayed, 500));
    END IF;
    SELECT q.admission, q.pressure, q.pressure_reason INTO door
    FROM sched.queue AS q CROSS JOIN sched.fleet AS f
    WHERE q.name = explain_door.queue AND q.pressure <> 'green' AND f.computed_at > clock_timestamp() - interval '5 seconds';
    IF FOUND THEN
        RETURN NEXT format('Pressure of queue %s is %s%s; new tasks are %s.', explain_door.queue, door.pressure, coalesce(' (' || door.pressure_reason || ')', ''),
            CASE
                WHEN door.admission = 'delay' THEN 'made due later'
                WHEN door.admission = 'reject' AND door.pressure = 'red' THEN 'refused'
                ELSE 'accepted'
            END);
    END IF;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_door(bigint, text) IS 'Internal: what pressure means for new tasks of a queue, and meant for this one.';

-- sched.explain_limits(kind, queue, ahead): what flow limits and max_running let through now. Locks nothing.
-- The tokens are what the claim would find (see open_flow): filled up since the last claim at what the limit has warmed up to.
-- Bounds: counts at most max_running running tasks, and 100000.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_limits(kind text, queue text, ahead bigint) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    most    integer;
    running bigint;
    flow    record;
BEGIN
    SELECT q.max_running INTO most FROM sched.queue AS q WHERE q.name = explain_limits.queue;
    IF most IS NOT NULL THEN
        SELECT count(*) INTO running FROM (
            SELECT FROM sched.river_job AS j WHERE j.state = 'running' AND j.queue = explain_limits.queue LIMIT least(most, 100000)
        ) AS r;
        RETURN NEXT format('Queue %s may run %s at once in the whole fleet (max_running), and runs %s%s.', explain_limits.queue, most, running,
            CASE WHEN running >= most THEN ': nothing more of it starts until one ends' END);
    END IF;
    FOR flow IN
        SELECT l.*, n.rate_now,
            CASE WHEN f.name IS NOT NULL THEN least(l.room, f.tokens + greatest(extract(epoch FROM clock_timestamp() - f.refilled_at), 0) * n.rate_now) END AS tokens
        FROM (
            SELECT 'queue' AS scope, q.name, q.rate, coalesce(q.burst, greatest(1, q.rate / 20)) AS burst, explain_limits.ahead AS ahead
            FROM sched.queue AS q WHERE q.name = explain_limits.queue AND q.rate IS NOT NULL
            UNION ALL
            SELECT 'kind', k.kind, k.rate, coalesce(k.burst, greatest(1, k.rate / 20)), 0
            FROM sched.kind AS k WHERE k.kind = explain_limits.kind AND k.rate IS NOT NULL
        ) AS b
        CROSS JOIN LATERAL (SELECT b.*, b.burst + b.rate * 0.1 AS room) AS l
        LEFT JOIN sched.flow AS f ON f.scope = l.scope AND f.name = l.name
        CROSS JOIN LATERAL (
            SELECT l.rate * (1 + 2 * least(greatest(extract(epoch FROM f.refilled_at - f.warm_from), 0), 30) / 30) / 3 AS rate_now
        ) AS n
    LOOP
        RETURN NEXT format('%s %s may be claimed %s times a second in the whole fleet%s.', initcap(flow.scope), flow.name, flow.rate, CASE
            WHEN flow.tokens IS NULL THEN '; nothing has been claimed under that limit yet'
            WHEN flow.tokens < flow.ahead + 1 THEN format(' (now %s): %s tokens are there, so its turn is in about %s s',
                round(flow.rate_now::numeric, 2), round(flow.tokens::numeric, 2), round(((flow.ahead + 1 - flow.tokens) / flow.rate_now)::numeric, 2))
            ELSE format(': %s tokens are there, so it need not wait for one', round(flow.tokens::numeric, 2))
        END);
    END LOOP;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_limits(text, text, bigint) IS 'Internal: what limits let through of a queue and a kind now.';

-- sched.explain_routing(id, queue): who is assigned to a waiting task's queue, and which side of a canary it is on. Locks nothing.
-- Bounds: all assignments of the queue are read, five are told.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_routing(id bigint, queue text) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    strategy text;
    led      timestamptz;
    shares   text[];
    total    bigint;
BEGIN
    SELECT f.computed_at INTO led FROM sched.fleet AS f;
    IF led IS NULL OR led < clock_timestamp() - interval '5 seconds' THEN
        RETURN NEXT format('No sidecar leads%s: each serves what its labels allow.', coalesce(' since ' || sched.explain_time(led), ''));
    END IF;
    SELECT q.strategy INTO strategy FROM sched.queue AS q WHERE q.name = explain_routing.queue;
    SELECT (array_agg(format('%s (weight %s: %s)', a.worker_id, a.weight, a.reason) ORDER BY a.weight DESC, a.worker_id))[:5], count(*)
    INTO shares, total
    FROM sched.assignment AS a WHERE a.queue = explain_routing.queue;
    IF total > 0 THEN
        RETURN NEXT format('Assigned to its queue (strategy %s): %s%s.', strategy, array_to_string(shares, ', '), CASE WHEN total > 5 THEN format(' and %s more', total - 5) END);
    END IF;
    RETURN QUERY SELECT sched.explain_canary(explain_routing.id, explain_routing.queue);
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_routing(bigint, text) IS 'Internal: who is assigned to a queue, and what a canary means for a task.';

-- sched.explain_canary(id, queue): which side of its queue's canary a task is on. No line where there is no canary. Locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_canary(id bigint, queue text) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    canary record;
    place  real;
BEGIN
    SELECT c.percent, c.workers INTO canary FROM sched.canary AS c WHERE c.queue = explain_canary.queue AND c.percent > 0;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    place := sched.canary_share(explain_canary.id);
    IF canary.workers = 0 THEN
        RETURN NEXT format('Its queue has a canary of %s %%, but no canary worker is assigned: the others claim all of it.', canary.percent);
    ELSIF place < canary.percent THEN
        RETURN NEXT format('It is the canary''s (its place is %s, below %s %%): workers with the label track=canary alone claim it.', place, canary.percent);
    ELSE
        RETURN NEXT format('It is not the canary''s (its place is %s, not below %s %%): workers with the label track=canary leave it.', place, canary.percent);
    END IF;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_canary(bigint, text) IS 'Internal: which side of a canary a task is on.';

-- sched.explain_taken(id, queue, worker_id): why this worker took a task: its labels, its share of the queue now. Locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.explain_taken(id bigint, queue text, worker_id text) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    holder sched.worker;
    wanted record;
    share  record;
BEGIN
    SELECT * INTO holder FROM sched.worker AS w WHERE w.id = explain_taken.worker_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT q.selector, q.protocol, q.strategy, q.weight_total INTO wanted FROM sched.queue AS q WHERE q.name = explain_taken.queue;
    RETURN NEXT format('Worker %s has the labels %s%s.', holder.id,
        coalesce(nullif((SELECT string_agg(format('%s=%s', l.key, l.value), ', ' ORDER BY l.key) FROM jsonb_each_text(holder.labels) AS l), ''), '(none)'),
        coalesce('; its queue asks for ' || nullif(concat_ws(', ',
            (SELECT string_agg(format('%s=%s', l.key, l.value), ', ' ORDER BY l.key) FROM jsonb_each_text(wanted.selector) AS l),
            'protocol ' || nullif(wanted.protocol, 'any')), ''), ''));
    SELECT a.weight, a.reason, a.version, a.updated_at, (SELECT sum(o.weight) FROM sched.assignment AS o WHERE o.queue = a.queue) AS total INTO share
    FROM sched.assignment AS a WHERE a.queue = explain_taken.queue AND a.worker_id = explain_taken.worker_id;
    IF FOUND THEN
        RETURN NEXT format('It is assigned to the queue (strategy %s) with weight %s of %s since %s, topology version %s: %s.',
            wanted.strategy, share.weight, share.total, sched.explain_time(share.updated_at), share.version, share.reason);
    ELSIF holder.ended_at IS NULL THEN
        RETURN NEXT 'It is not assigned to the queue now.';
    END IF;
    IF holder.ended_at IS NULL AND holder.health <> 'good' THEN
        RETURN NEXT format('It is %s now: load %s %%.', holder.health, round(holder.load_percent::numeric));
    END IF;
    RETURN QUERY SELECT sched.explain_canary(explain_taken.id, explain_taken.queue);
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.explain_taken(bigint, text, text) IS 'Internal: why a worker took a task.';

-- sched.explain_workers(...): as before; with health, load and the canary's label.
DROP FUNCTION sched.explain_workers(text, text, jsonb, text);
-- +goose StatementBegin
CREATE FUNCTION sched.explain_workers(
    task_kind text, base text, selector jsonb, protocol text,
    OUT id text, OUT hostname text, OUT app_url text, OUT state text, OUT heartbeat_at timestamptz, OUT running integer, OUT slots integer,
    OUT up boolean, OUT silent boolean, OUT missing text[], OUT speaks boolean, OUT takes_queue boolean, OUT takes_kind boolean,
    OUT matches boolean, OUT serves boolean, OUT skips boolean, OUT held text, OUT lacks text, OUT health text, OUT load_percent real, OUT track text
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
            CASE WHEN NOT f.takes_kind THEN format('kind %s in its configuration', explain_workers.task_kind) END),
        w.health, w.load_percent, w.labels ->> 'track'
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

-- sched.explain_service, explain_wait, explain_run, explain: as before, and what routing has to say.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.explain_service(task_kind text, task_queue text, selector jsonb, protocol text) RETURNS SETOF text
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
        count(*) FILTER (WHERE w.serves AND NOT w.skips AND w.held = '' AND w.health <> 'overloaded') AS willing,
        coalesce(sum(greatest(w.slots - w.running, 0)) FILTER (WHERE w.serves AND NOT w.skips AND w.held = '' AND w.health <> 'overloaded'), 0) AS free,
        (array_agg(format('%s runs %s of %s', w.id, w.running, w.slots) ORDER BY w.id)
            FILTER (WHERE w.serves AND NOT w.skips AND w.held = '' AND w.health <> 'overloaded'))[:5] AS loads,
        (array_agg(format('Worker %s on %s is overloaded (load %s %%): it claims nothing until that is over.', w.id, w.hostname, round(w.load_percent::numeric))
            ORDER BY w.id) FILTER (WHERE w.serves AND w.health = 'overloaded'))[:5] AS overloaded,
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
    RETURN QUERY SELECT unnest(tally.overloaded || tally.holding || tally.skipping || tally.silent);
    IF tally.serving = 0 AND tally.draining > 0 THEN
        RETURN NEXT format('Workers that are draining, and claim nothing more: %s.', tally.draining);
    END IF;
END;
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.explain_wait(id bigint) RETURNS SETOF text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    task   record;
    flow   record;
    paused timestamptz;
    ahead  bigint;
BEGIN
    SELECT * INTO task FROM sched.task AS t WHERE t.id = explain_wait.id;
    SELECT q.paused_at INTO paused FROM sched.river_queue AS q WHERE q.name = task.queue;
    IF paused IS NOT NULL THEN
        RETURN NEXT format('Queue %s is paused since %s.', task.queue, sched.explain_time(paused));
    END IF;
    FOR flow IN
        SELECT f.* FROM sched.flow AS f
        WHERE (f.scope, f.name) IN (('kind', task.kind), ('queue', task.queue)) AND f.paused_until > clock_timestamp() ORDER BY f.scope
    LOOP
        RETURN NEXT format('%s %s is paused until %s%s.', initcap(flow.scope), flow.name, sched.explain_time(flow.paused_until),
            coalesce(': ' || nullif(sched.explain_error(flow.pause_reason), ''), '') || coalesce(' (worker ' || flow.paused_by || ')', ''));
    END LOOP;
    RETURN QUERY SELECT sched.explain_door(task.id, task.queue);
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
    RETURN QUERY SELECT sched.explain_limits(task.kind, task.queue, ahead);
    RETURN QUERY SELECT sched.explain_routing(task.id, task.queue);
    RETURN QUERY SELECT sched.explain_service(task.kind, task.queue, task.selector, task.protocol);
END;
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.explain_run(id bigint) RETURNS SETOF text
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
    RETURN QUERY SELECT sched.explain_taken(task.id, task.queue, task.worker_id);
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.explain(task_id bigint) RETURNS SETOF text
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
    IF task.status IN ('completed', 'cancelled', 'discarded') THEN
        RETURN QUERY SELECT sched.explain_taken(task.id, task.queue, task.worker_id);
    END IF;
    RETURN NEXT format('It was enqueued at %s by %s.', sched.explain_time(task.created_at), CASE
        WHEN task.enqueued_by IS NULL THEN 'a River client'
        ELSE task.enqueued_by || coalesce(' (' || task.enqueued_app || ')', '')
    END);
END;
$$;
-- +goose StatementEnd

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.explain(task_id bigint) RETURNS SETOF text
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.explain_run(id bigint) RETURNS SETOF text
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.explain_wait(id bigint) RETURNS SETOF text
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION sched.explain_service(task_kind text, task_queue text, selector jsonb, protocol text) RETURNS SETOF text
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

DROP FUNCTION sched.explain_workers(text, text, jsonb, text);
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
REVOKE ALL ON FUNCTION sched.explain_workers(text, text, jsonb, text) FROM PUBLIC;
DROP FUNCTION sched.explain_taken(bigint, text, text);
DROP FUNCTION sched.explain_canary(bigint, text);
DROP FUNCTION sched.explain_routing(bigint, text);
DROP FUNCTION sched.explain_limits(text, text, bigint);
DROP FUNCTION sched.explain_door(bigint, text);
