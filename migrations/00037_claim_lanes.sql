-- Locking: creates functions, which locks nothing that is in use, and a trigger: SHARE ROW EXCLUSIVE on queue for a moment.
--
-- Claims where something limits them: flow limits, max_running, kinds that are left out, canaries. What nothing limits is
-- claimed by a plain statement of the sidecar.

-- +goose Up

-- sched.open_flow(scope, name, want): locks the flow row of a queue or kind and tells how many of its tasks may be claimed now:
-- quota (NULL: nothing limits it, and nothing is locked), and if that is 0 why: busy (another claim is at it), rate or
-- max_running, and for the first and last of these the milliseconds after which to ask again. What comes of a rate is told by
-- tokens and rate_now (a second); batch is for how many tokens it is worth waiting, at most want.
-- The bucket fills at rate, up to burst and a tenth of a second of rate on top, so that a claim which comes a little late loses
-- nothing. It is cold at first and fills at a third of the rate then, at all of it after 30 s of use; idleness cools it as
-- fast, once it is full (the idea and the factor 3 are those of Guava's SmoothWarmingUp).
-- max_running is counted under the lock by what river_job says, so that neither a crash nor an eviction can make it wrong.
-- Lock order: the flow row alone, skipped when locked; where there is none, an advisory lock that one claim at a time gets and others
-- don't wait for, then the new row, whose insertion may wait for sched.pause_kind alone, which waits for nobody.
-- Bounds: one row; the count reads the fleet's running tasks until it has found max_running of the queue's.
-- +goose StatementBegin
CREATE FUNCTION sched.open_flow(
    scope text, name text, want integer,
    OUT quota integer, OUT blocked text, OUT retry_ms double precision,
    OUT tokens double precision, OUT rate_now double precision, OUT batch double precision, OUT at timestamptz, OUT warm_from timestamptz
) RETURNS record
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    warm_up CONSTANT double precision := 30;
    cold    CONSTANT double precision := 1.0 / 3;
    grace   CONSTANT double precision := 0.1;
    rate        double precision;
    burst       double precision;
    max_running integer;
    row_tokens  double precision;
    row_at      timestamptz;
    row_warm    timestamptz;
    room        double precision;
    age         double precision;
    idle        double precision;
    spare       double precision;
    running     integer;
BEGIN
    IF open_flow.scope = 'queue' THEN
        SELECT q.rate, q.burst, q.max_running INTO rate, burst, max_running
        FROM sched.queue AS q WHERE q.name = open_flow.name;
    ELSE
        SELECT k.rate, k.burst INTO rate, burst FROM sched.kind AS k WHERE k.kind = open_flow.name;
    END IF;
    IF rate IS NULL AND max_running IS NULL THEN
        RETURN;
    END IF;
    open_flow.quota := 0;
    open_flow.blocked := 'busy';
    open_flow.retry_ms := 2;
    SELECT f.tokens, f.refilled_at, f.warm_from INTO row_tokens, row_at, row_warm
    FROM sched.flow AS f WHERE f.scope = open_flow.scope AND f.name = open_flow.name
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        -- Two claims that made rows of the same flows in different orders would wait for each other.
        IF EXISTS (SELECT FROM sched.flow AS f WHERE f.scope = open_flow.scope AND f.name = open_flow.name)
            OR NOT pg_try_advisory_xact_lock(hashtextextended('sched.flow', 0)) THEN
            RETURN;
        END IF;
        INSERT INTO sched.flow AS f (scope, name, tokens) VALUES (open_flow.scope, open_flow.name, 1)
        ON CONFLICT DO NOTHING
        RETURNING f.tokens, f.refilled_at, f.warm_from INTO row_tokens, row_at, row_warm;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF open_flow.scope = 'queue' THEN -- as it is now: from here on a change of it waits (see sched.limit_moved)
        SELECT q.rate, q.burst, q.max_running INTO rate, burst, max_running
        FROM sched.queue AS q WHERE q.name = open_flow.name;
    END IF;
    open_flow.blocked := NULL;
    open_flow.retry_ms := NULL;
    open_flow.quota := 2147483647;
    open_flow.at := greatest(clock_timestamp(), row_at);
    open_flow.warm_from := row_warm;
    open_flow.tokens := row_tokens;

    IF rate IS NOT NULL THEN
        burst := coalesce(burst, greatest(1, rate / 20));
        room := burst + rate * grace;
        idle := extract(EPOCH FROM open_flow.at - row_at);
        age := least(greatest(extract(EPOCH FROM row_at - row_warm), 0), warm_up);
        -- How long it had nothing to fill any more, about.
        spare := greatest(0, idle - greatest(0, room - row_tokens) / (rate * (cold + (1 - cold) * age / warm_up)));
        open_flow.tokens := least(room, row_tokens + rate * (
            cold * idle + (1 - cold) * (
                CASE WHEN age + idle <= warm_up THEN (age + idle) ^ 2 / (2 * warm_up) ELSE age + idle - warm_up / 2 END
                - age ^ 2 / (2 * warm_up)
            )
        ));
        age := least(greatest(age + idle - 2 * spare, 0), warm_up);
        open_flow.warm_from := open_flow.at - make_interval(secs => age);
        open_flow.rate_now := rate * (cold + (1 - cold) * age / warm_up);
        open_flow.quota := greatest(0, floor(open_flow.tokens + 1e-6))::integer;
        open_flow.batch := least(open_flow.want, greatest(1, floor(burst / 2)));
        IF open_flow.quota = 0 THEN
            open_flow.blocked := 'rate';
            RETURN;
        END IF;
    END IF;
    IF max_running IS NOT NULL THEN
        SELECT count(*) INTO running FROM (
            SELECT FROM sched.river_job AS j
            WHERE j.state = 'running' AND j.queue = open_flow.name LIMIT max_running
        ) AS r;
        IF max_running - running <= open_flow.quota THEN
            open_flow.quota := greatest(0, max_running - running);
            open_flow.blocked := 'max_running';
            open_flow.retry_ms := 100;
        END IF;
    END IF;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.open_flow(text, text, integer) IS 'For the claim: locks the flow row of a queue or kind and tells how many of its tasks may be claimed now, and otherwise why none and when to ask again.';

-- Trigger of sched.queue: the commit of another max_running waits for the claim that is under way by the old one, so that once it is
-- committed nothing starts above it. (Not for a claim that saw no limit, or one that had to make the flow row: there is nothing to wait
-- for.) Deferred, or nothing of the queue would be claimed as long as the transaction of the change stays open.
-- Lock order: the queue's row, then at the commit its flow row, which claims hold for the time of one statement in which they wait
-- for nobody.
-- +goose StatementBegin
CREATE FUNCTION sched.limit_moved() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM sched.flow AS f WHERE f.scope = 'queue' AND f.name = NEW.name FOR NO KEY UPDATE;
    RETURN NULL;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.limit_moved() IS 'Trigger of sched.queue: the commit of another max_running waits for the claim that is under way by the old one.';
CREATE CONSTRAINT TRIGGER queue_limit_moved AFTER UPDATE OF max_running ON sched.queue DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
WHEN (old.max_running IS DISTINCT FROM new.max_running) EXECUTE FUNCTION sched.limit_moved();
COMMENT ON TRIGGER queue_limit_moved ON sched.queue IS 'Makes a new max_running exact once it is committed.';

-- sched.claim_lanes(...): claims up to max_tasks due tasks for a worker from lanes, in their order. A lane is one priority of one
-- queue from a position (scheduled_at in microseconds since 1970, -1 before all; id) to another (-1: window_rows rows on,
-- which is then reported; the largest bigint: open), for any kind that is neither missing in kinds (NULL: all) nor in skip_kinds,
-- or for one kind (not ''), and for the tasks whose canary share is in [low, high). ageing above 0 takes only what has
-- waited for that many seconds for each step of priority.
-- Flow limits of the lane's queue and kind are taken from as much as is claimed, never more, in this transaction.
-- Returns the tasks, and at last one row with a report alone (id 0): now_us; next, the first lane that was not looked at, as max_tasks
-- were found or budget_ms were over; of the lanes looked at that were not empty: held (its queue is paused, or a limit let nothing through), or taken, ended (nothing is left in it), last
-- position taken, end of the window, microseconds it took; of the flows that let through no more: why, and when to ask again.
-- Nothing at all is returned for a worker that may not claim.
-- Lock order: flow rows and task rows, skipping locked ones: waits for nobody. VOLATILE, so that each statement sees what claims that
-- held a flow row before have committed.
-- Bounds: an index descent per lane; window_rows rows per lane or what lies between its positions; max_tasks rows locked.
-- +goose StatementBegin
CREATE FUNCTION sched.claim_lanes(
    worker_id text, max_tasks integer, kinds text[], skip_kinds text[], ageing double precision, window_rows integer, budget_ms integer,
    queues text[], priorities integer[], lane_kinds text[], from_us bigint[], from_ids bigint[], to_us bigint[], to_ids bigint[],
    lows real[], highs real[],
    OUT tid tid, OUT id bigint, OUT kind text, OUT queue text, OUT priority smallint, OUT attempt smallint, OUT max_attempts smallint,
    OUT args jsonb, OUT metadata jsonb, OUT created_at timestamptz, OUT scheduled_at timestamptz, OUT attempted_at timestamptz,
    OUT report jsonb
) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE ROWS 100
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
#variable_conflict use_variable
DECLARE
    open_end CONSTANT bigint := 9223372036854775807;
    deadline   timestamptz;
    lanes      integer[];
    l          integer;
    next_lane  integer;
    got        integer := 0;
    ids        bigint[] := '{}';
    found_ids  bigint[];
    found_ats  timestamptz[];
    quota      integer;
    due        timestamptz;
    from_at    timestamptz;
    end_at     timestamptz;
    end_id     bigint;
    started    timestamptz;
    limited    text[];
    paused     text[];
    flow_keys  text[] := '{}';
    flows      jsonb[] := '{}';
    flow       record;
    flow_key   text;
    mine       integer[];
    m          integer;
    at         integer;
    lane_notes jsonb := '[]';
    flow_notes jsonb := '[]';
BEGIN
    IF NOT EXISTS (SELECT FROM sched.worker AS w WHERE w.id = worker_id AND w.state IN ('pending', 'active')) THEN
        RETURN;
    END IF;
    -- Which lanes hold anything: scalar subqueries, so that each is one descent of the index.
    SELECT coalesce(array_agg(s.n), '{}') INTO lanes
    FROM generate_subscripts(queues, 1) AS s (n)
    WHERE (
        SELECT true FROM sched.river_job AS j
        WHERE j.state = 'available' AND j.queue = queues[s.n] AND j.priority = priorities[s.n]
            AND (j.scheduled_at, j.id) >= (
                CASE WHEN from_us[s.n] < 0 THEN '-infinity' ELSE timestamptz 'epoch' + from_us[s.n] * interval '1 microsecond' END, from_ids[s.n])
            AND j.scheduled_at <= now() - make_interval(secs => (priorities[s.n] - 1) * ageing)
        ORDER BY j.scheduled_at, j.id LIMIT 1
    );
    paused := ARRAY(SELECT r.name FROM sched.river_queue AS r WHERE r.name = ANY (queues) AND r.paused_at IS NOT NULL);

    -- By what holds at this moment, not by what the sidecar has read.
    limited := ARRAY(
        SELECT 'queue:' || q.name FROM sched.queue AS q WHERE q.name = ANY (queues) AND (q.rate IS NOT NULL OR q.max_running IS NOT NULL)
        UNION ALL SELECT 'kind:' || k.kind FROM sched.kind AS k WHERE k.kind = ANY (lane_kinds) AND k.rate IS NOT NULL);

    deadline := clock_timestamp() + make_interval(secs => budget_ms / 1000.0);  -- for the lanes: what came before may have taken long
    FOREACH l IN ARRAY lanes LOOP
        started := clock_timestamp();
        IF got >= max_tasks OR started > deadline THEN
            next_lane := l;
            EXIT;
        END IF;
        IF queues[l] = ANY (paused) THEN
            lane_notes := lane_notes || jsonb_build_object('lane', l - 1, 'held', true);
            CONTINUE;
        END IF;
        quota := max_tasks - got;
        mine := '{}';
        FOREACH flow_key IN ARRAY ARRAY['queue:' || queues[l], 'kind:' || nullif(lane_kinds[l], '')] LOOP
            CONTINUE WHEN flow_key IS NULL OR NOT flow_key = ANY (limited);
            at := array_position(flow_keys, flow_key);
            IF at IS NULL THEN
                SELECT * INTO flow FROM sched.open_flow(split_part(flow_key, ':', 1), substr(flow_key, strpos(flow_key, ':') + 1), max_tasks);
                flow_keys := flow_keys || flow_key;
                flows := flows || (to_jsonb(flow) || '{"taken": 0}');
                at := cardinality(flow_keys);
            END IF;
            IF flows[at] ->> 'quota' IS NOT NULL THEN
                mine := mine || at;
                quota := least(quota, (flows[at] ->> 'quota')::integer - (flows[at] ->> 'taken')::integer);
            END IF;
        END LOOP;
        IF quota < 1 THEN
            lane_notes := lane_notes || jsonb_build_object('lane', l - 1, 'held', true);
            CONTINUE;
        END IF;

        from_at := CASE WHEN from_us[l] < 0 THEN '-infinity' ELSE timestamptz 'epoch' + from_us[l] * interval '1 microsecond' END;
        IF to_us[l] = open_end THEN
            end_at := 'infinity';
            end_id := 0;
        ELSIF to_us[l] >= 0 THEN
            end_at := timestamptz 'epoch' + to_us[l] * interval '1 microsecond';
            end_id := to_ids[l];
        ELSE
            SELECT j.scheduled_at, j.id INTO end_at, end_id FROM sched.river_job AS j
            WHERE j.state = 'available' AND j.queue = queues[l] AND j.priority = priorities[l]
                AND (j.scheduled_at, j.id) >= (from_at, from_ids[l])
            ORDER BY j.scheduled_at, j.id OFFSET window_rows LIMIT 1;
            IF NOT FOUND THEN
                end_at := 'infinity';
                end_id := 0;
            END IF;
        END IF;
        due := now() - make_interval(secs => (priorities[l] - 1) * ageing);
        -- In two steps, up to the time at which the window ends and among the tasks of that time: a scan stops at the bound of a
        -- single column, but reads on to the last of equal times when only a pair of columns ends it.
        SELECT coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.scheduled_at), '{}') INTO found_ids, found_ats FROM (
            SELECT j.id, j.scheduled_at FROM sched.river_job AS j
            WHERE j.state = 'available' AND j.queue = queues[l] AND j.priority = priorities[l]
                AND (j.scheduled_at, j.id) >= (from_at, from_ids[l])
                AND j.scheduled_at < end_at
                AND j.scheduled_at <= due
                AND CASE WHEN lane_kinds[l] <> '' THEN j.kind = lane_kinds[l]
                    ELSE (kinds IS NULL OR j.kind = ANY (kinds)) AND NOT (j.kind = ANY (skip_kinds)) END
                AND (lows[l] <= 0 AND highs[l] >= 100
                    -- sched.canary_share(j.id), which as a function would cost more than the rest.
                    OR ((abs(j.id % 2147483647) * 889516852 % 2147483647) * 1000000 / 2147483647)::real / 10000 >= lows[l]
                    AND ((abs(j.id % 2147483647) * 889516852 % 2147483647) * 1000000 / 2147483647)::real / 10000 < highs[l])
            ORDER BY j.scheduled_at, j.id LIMIT quota
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS c;
        IF cardinality(found_ids) < quota AND end_at <= due THEN
            SELECT found_ids || coalesce(array_agg(c.id), '{}'), found_ats || coalesce(array_agg(c.scheduled_at), '{}')
            INTO found_ids, found_ats FROM (
                SELECT j.id, j.scheduled_at FROM sched.river_job AS j
                WHERE j.state = 'available' AND j.queue = queues[l] AND j.priority = priorities[l]
                    AND j.scheduled_at = end_at
                    AND j.id >= CASE WHEN from_at = end_at THEN from_ids[l] ELSE 0 END AND j.id < end_id
                    AND CASE WHEN lane_kinds[l] <> '' THEN j.kind = lane_kinds[l]
                        ELSE (kinds IS NULL OR j.kind = ANY (kinds)) AND NOT (j.kind = ANY (skip_kinds)) END
                    AND (lows[l] <= 0 AND highs[l] >= 100
                        -- sched.canary_share(j.id), which as a function would cost more than the rest.
                        OR ((abs(j.id % 2147483647) * 889516852 % 2147483647) * 1000000 / 2147483647)::real / 10000 >= lows[l]
                        AND ((abs(j.id % 2147483647) * 889516852 % 2147483647) * 1000000 / 2147483647)::real / 10000 < highs[l])
                ORDER BY j.id LIMIT quota - cardinality(found_ids)
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS c;
        END IF;
        at := cardinality(found_ids);
        got := got + at;
        ids := ids || found_ids;
        lane_notes := lane_notes || jsonb_build_object(
            'lane', l - 1, 'taken', at, 'ended', at < quota,
            'last_us', CASE WHEN at > 0 AND isfinite(found_ats[at]) THEN (extract(EPOCH FROM found_ats[at]) * 1000000)::bigint ELSE -1 END,
            'last_id', found_ids[at],
            'end_us', CASE WHEN isfinite(end_at) THEN (extract(EPOCH FROM end_at) * 1000000)::bigint ELSE open_end END, 'end_id', end_id,
            'took_us', (extract(EPOCH FROM clock_timestamp() - started) * 1000000)::bigint);
        IF at > 0 AND cardinality(mine) > 0 THEN
            FOREACH m IN ARRAY mine LOOP
                flows[m] := flows[m] || jsonb_build_object('taken', (flows[m] ->> 'taken')::integer + at);
            END LOOP;
        END IF;
    END LOOP;

    FOR at IN 1..cardinality(flow_keys) LOOP
        CONTINUE WHEN flows[at] ->> 'quota' IS NULL;
        SELECT * INTO flow FROM jsonb_to_record(flows[at]) AS f (
            quota integer, blocked text, retry_ms double precision, tokens double precision, rate_now double precision, batch double precision,
            at timestamptz, warm_from timestamptz, taken integer);
        IF flow.taken > 0 THEN
            UPDATE sched.flow AS f
            SET tokens = CASE WHEN flow.rate_now IS NULL THEN f.tokens ELSE flow.tokens - flow.taken END,
                refilled_at = CASE WHEN flow.rate_now IS NULL THEN f.refilled_at ELSE flow.at END,
                warm_from = flow.warm_from,
                granted = f.granted + flow.taken
            WHERE f.scope = split_part(flow_keys[at], ':', 1) AND f.name = substr(flow_keys[at], strpos(flow_keys[at], ':') + 1);
        END IF;
        IF flow.taken >= flow.quota THEN
            flow_notes := flow_notes || jsonb_build_object('flow', flow_keys[at], 'why', coalesce(flow.blocked, 'rate'),
                'retry_ms', coalesce(flow.retry_ms, 1000 * greatest(0, flow.batch - (flow.tokens - flow.taken)) / flow.rate_now));
        END IF;
    END LOOP;

    RETURN QUERY
    WITH claimed AS (
        UPDATE sched.river_job AS j
        SET state = 'running',
            attempt = least(j.attempt + 1, 32767),
            attempted_at = greatest(
                clock_timestamp(), CASE WHEN isfinite(j.attempted_at) THEN j.attempted_at + interval '1 microsecond' END
            ),
            attempted_by = CASE
                WHEN cardinality(j.attempted_by) >= 100 THEN j.attempted_by[2:] || worker_id
                ELSE coalesce(j.attempted_by, '{}') || worker_id
            END
        WHERE j.id = ANY (ids)
        RETURNING j.ctid, j.id, j.kind, j.queue, j.priority, j.attempt, j.max_attempts, j.args, j.metadata,
            CASE WHEN isfinite(j.created_at) THEN j.created_at ELSE j.attempted_at END AS created_at,
            CASE WHEN isfinite(j.scheduled_at) THEN j.scheduled_at ELSE j.attempted_at END AS scheduled_at, j.attempted_at
    )
    SELECT c.*, NULL::jsonb FROM claimed AS c;
    RETURN QUERY SELECT '(0,0)'::tid, 0::bigint, '', '', 0::smallint, 0::smallint, 0::smallint, '{}'::jsonb, '{}'::jsonb, now(), now(), now(),
        jsonb_build_object('now_us', (extract(EPOCH FROM now()) * 1000000)::bigint, 'next', coalesce(next_lane - 1, -1),
            'lanes', lane_notes, 'flows', flow_notes);
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.claim_lanes(text, integer, text[], text[], double precision, integer, integer, text[], integer[], text[], bigint[], bigint[], bigint[], bigint[], real[], real[]) IS 'For sidecars: claims where limits, left-out kinds or canaries are in play, from marked lanes of queues, and reports on these.';

REVOKE ALL ON FUNCTION sched.open_flow(text, text, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION sched.limit_moved() FROM PUBLIC;
REVOKE ALL ON FUNCTION sched.claim_lanes(text, integer, text[], text[], double precision, integer, integer, text[], integer[], text[], bigint[], bigint[], bigint[], bigint[], real[], real[]) FROM PUBLIC;

-- +goose Down

DROP TRIGGER queue_limit_moved ON sched.queue;
DROP FUNCTION sched.limit_moved();
DROP FUNCTION sched.claim_lanes(text, integer, text[], text[], double precision, integer, integer, text[], integer[], text[], bigint[], bigint[], bigint[], bigint[], real[], real[]);
DROP FUNCTION sched.open_flow(text, text, integer);
