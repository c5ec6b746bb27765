-- Locking: SHARE ROW EXCLUSIVE and ACCESS EXCLUSIVE on attempt_log and setting for catalog changes only: the new column has a constant
-- default (no rewrite), the check reads the few rows there are. Replacing a view locks the view for as long. No task is moved here:
-- the leader does that later, a batch at a time. Down puts the archived tasks back, which takes as long as there are many of them;
-- enqueues go on meanwhile.
--
-- Finished tasks leave the hot table early, into a table with a partition for each month. The views span both.

-- +goose Up

-- The views first, which changes nothing in them: whoever reads one in a long transaction keeps this waiting, and must not
-- keep enqueues and settles waiting with it.
ALTER VIEW sched.task RESET (security_barrier);
ALTER VIEW sched.attempt RESET (security_barrier);
ALTER VIEW sched.batch RESET (security_barrier);
LOCK TABLE sched.setting, sched.attempt_log IN ACCESS EXCLUSIVE MODE;

CREATE TABLE sched.task_archive (
    id            bigint NOT NULL,
    kind          text NOT NULL,
    queue         text NOT NULL,
    status        sched.river_job_state NOT NULL,
    start_time    timestamptz,
    end_time      timestamptz NOT NULL,
    worker_id     text,
    host          text,
    attempt       smallint NOT NULL,
    max_attempts  smallint NOT NULL,
    priority      smallint NOT NULL,
    run_at        timestamptz NOT NULL,
    created_at    timestamptz NOT NULL,
    last_logged   boolean NOT NULL,
    args          jsonb NOT NULL,
    metadata      jsonb NOT NULL,
    errors        jsonb[],
    attempts      jsonb,
    attempted_by  text[],
    tags          character varying(255)[] NOT NULL,
    unique_key    bytea,
    unique_states bit(8),
    CONSTRAINT task_archive_pkey PRIMARY KEY (id, end_time)
) PARTITION BY RANGE (end_time);
COMMENT ON TABLE sched.task_archive IS 'Finished tasks that have left river_job, a partition for each month (UTC) of their end. Read it through sched.task and sched.attempt. Kept for the setting archive_keep_days.';
COMMENT ON COLUMN sched.task_archive.id IS 'Id of the task.';
COMMENT ON COLUMN sched.task_archive.kind IS 'Kind.';
COMMENT ON COLUMN sched.task_archive.queue IS 'Queue.';
COMMENT ON COLUMN sched.task_archive.status IS 'completed, cancelled or discarded.';
COMMENT ON COLUMN sched.task_archive.start_time IS 'When its last attempt was claimed (river_job.attempted_at); NULL: never.';
COMMENT ON COLUMN sched.task_archive.end_time IS 'When it ended (river_job.finalized_at).';
COMMENT ON COLUMN sched.task_archive.worker_id IS 'Worker of its last attempt.';
COMMENT ON COLUMN sched.task_archive.host IS 'Machine of that worker; NULL: it was not known any more.';
COMMENT ON COLUMN sched.task_archive.attempt IS 'Attempts spent.';
COMMENT ON COLUMN sched.task_archive.max_attempts IS 'Attempts that it had.';
COMMENT ON COLUMN sched.task_archive.priority IS 'Priority.';
COMMENT ON COLUMN sched.task_archive.run_at IS 'Time from which it might run (river_job.scheduled_at).';
COMMENT ON COLUMN sched.task_archive.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN sched.task_archive.last_logged IS 'Whether its last attempt is among attempts: it ended by itself before the task did.';
COMMENT ON COLUMN sched.task_archive.args IS 'Arguments.';
COMMENT ON COLUMN sched.task_archive.metadata IS 'As in river_job: output, batch, who enqueued it and the rest.';
COMMENT ON COLUMN sched.task_archive.errors IS 'As in river_job.';
COMMENT ON COLUMN sched.task_archive.attempts IS 'Its rows of attempt_log, in order, with the machine of each worker; NULL: none.';
COMMENT ON COLUMN sched.task_archive.attempted_by IS 'Workers that claimed it, the last 100.';
COMMENT ON COLUMN sched.task_archive.tags IS 'As in river_job.';
COMMENT ON COLUMN sched.task_archive.unique_key IS 'As in river_job.';
COMMENT ON COLUMN sched.task_archive.unique_states IS 'As in river_job.';

CREATE TABLE sched.task_archive_default PARTITION OF sched.task_archive DEFAULT;
COMMENT ON TABLE sched.task_archive_default IS 'Archived tasks of months without a partition: normally none.';

-- Rows come in the order of their end: the heap is in that order, too, and these are cheap to keep. Five are what an insert costs.
CREATE INDEX task_archive_again_index ON sched.task_archive (end_time) WHERE coalesce(cardinality(attempted_by), 0) > 1;
COMMENT ON INDEX sched.task_archive_again_index IS 'What ran more than once: the predicate is that of sched.task.claims > 1.';
CREATE INDEX task_archive_batch_index ON sched.task_archive ((metadata ->> 'sched:batch')) WHERE (metadata ->> 'sched:batch') IS NOT NULL;
COMMENT ON INDEX sched.task_archive_batch_index IS 'sched.task and sched.batch by batch.';
CREATE INDEX task_archive_end_index ON sched.task_archive (end_time);
COMMENT ON INDEX sched.task_archive_end_index IS 'Tasks that ended in a span of time.';
CREATE INDEX task_archive_failed_index ON sched.task_archive (end_time) WHERE status <> 'completed';
COMMENT ON INDEX sched.task_archive_failed_index IS 'What failed or was cancelled in a span of time.';
CREATE INDEX task_archive_status_start_index ON sched.task_archive (status, start_time);
COMMENT ON INDEX sched.task_archive_status_start_index IS 'sched.task by status and start_time, as in river_job.';
CREATE INDEX task_archive_worker_index ON sched.task_archive (worker_id, start_time);
COMMENT ON INDEX sched.task_archive_worker_index IS 'What ran on a worker, and when.';

ALTER TABLE sched.setting ADD CONSTRAINT setting_archive_fits CHECK (
    CASE
        WHEN key = 'archive_after_seconds' THEN
            CASE WHEN jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]{1,7}$' THEN value::text::integer >= 10 AND value::text::integer <= 2592000 ELSE false END
        WHEN key = 'archive_keep_days' THEN
            CASE WHEN jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]{1,5}$' THEN value::text::integer >= 1 AND value::text::integer <= 36500 ELSE false END
        ELSE true
    END
);
COMMENT ON CONSTRAINT setting_archive_fits ON sched.setting IS 'A value that the leader could not use would stop the archive.';
INSERT INTO sched.setting AS s (key, value, description) VALUES
    ('archive_after_seconds', '900', 'How long a task that ended stays in the hot table before it goes to the archive, in seconds (10 to 2592000).'),
    ('archive_keep_days', '90', 'How long archived tasks are kept, in days (1 to 36500): a month is dropped when all of it is older.')
ON CONFLICT (key) DO UPDATE SET description = excluded.description;

ALTER TABLE sched.attempt_log ADD COLUMN skipped integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN sched.attempt_log.skipped IS 'Attempts between the one before and this one that were left out: of a task with more than 100, the first and the last 50 are kept.';

-- sched.attempt_log_bound(): trigger: keeps the first and the last 50 logged attempts of a task, and the number of those between. An
-- app that puts a task off each second would log 86,400 a day. Runs for what is logged only: what succeeds at once is not.
-- Lock order: two rows of attempt_log, of the task whose row the caller holds.
-- Bounds: reads at most 102 entries of the primary key; removes at most two rows.
-- +goose StatementBegin
CREATE FUNCTION sched.attempt_log_bound() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
DECLARE
    surplus integer := -100;
    gone    bigint;
BEGIN
    SELECT surplus + count(*) INTO surplus FROM (SELECT FROM sched.attempt_log AS l WHERE l.task_id = NEW.task_id LIMIT 102) AS l;
    IF surplus > 0 THEN
        WITH removed AS (
            DELETE FROM sched.attempt_log AS l
            WHERE l.task_id = NEW.task_id AND l.started_at = ANY (ARRAY(
                SELECT m.started_at FROM sched.attempt_log AS m WHERE m.task_id = NEW.task_id ORDER BY m.started_at OFFSET 50 LIMIT surplus
            ))
            RETURNING l.skipped
        )
        SELECT sum(r.skipped + 1) INTO gone FROM removed AS r;
        UPDATE sched.attempt_log AS l SET skipped = l.skipped + gone
        WHERE l.task_id = NEW.task_id AND l.started_at = (
            SELECT m.started_at FROM sched.attempt_log AS m WHERE m.task_id = NEW.task_id ORDER BY m.started_at OFFSET 50 LIMIT 1
        );
    END IF;
    RETURN NULL;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.attempt_log_bound() IS 'Trigger: keeps the first and the last 50 logged attempts of a task.';
CREATE TRIGGER attempt_log_bound AFTER INSERT ON sched.attempt_log FOR EACH ROW EXECUTE FUNCTION sched.attempt_log_bound();
COMMENT ON TRIGGER attempt_log_bound ON sched.attempt_log IS 'Bounds the log of a task.';

-- sched.archive_tasks(status, after, max): moves finished tasks of a status that ended at or after a time, and longer ago than the setting
-- archive_after_seconds, with their logged attempts. seen: looked at; last: end of the last of them, where to go on from. A task whose
-- unique key still holds although it ended (as River's clients ask by default) stays for as long as River would keep it: 24 hours, 7
-- days if it was discarded.
-- Lock order: river_job rows in the order of their ids, none waited for; then attempt_log, task_archive.
-- Bounds: max rows looked at, which an index finds in the order of their end.
-- +goose StatementBegin
CREATE FUNCTION sched.archive_tasks(
    status sched.river_job_state, after timestamptz, max integer, OUT moved integer, OUT seen integer, OUT last timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    horizon timestamptz := clock_timestamp() - make_interval(
        secs => coalesce((SELECT s.value::text::integer FROM sched.setting AS s WHERE s.key = 'archive_after_seconds'), 900)
    );
    guarded timestamptz := clock_timestamp() - CASE archive_tasks.status WHEN 'discarded' THEN interval '7 days' ELSE interval '24 hours' END;
    ids     bigint[];
BEGIN
    SELECT count(*), max(s.finalized_at), array_agg(s.id) FILTER (WHERE NOT s.holds) INTO seen, last, ids
    FROM (
        SELECT
            j.id, j.finalized_at,
            j.unique_key IS NOT NULL AND j.unique_states IS NOT NULL AND j.finalized_at > guarded
            AND sched.river_job_state_in_bitmask(j.unique_states, j.state) AS holds
        FROM sched.river_job AS j
        WHERE j.state = archive_tasks.status AND j.finalized_at >= archive_tasks.after AND j.finalized_at <= horizon
        ORDER BY j.finalized_at
        LIMIT least(greatest(archive_tasks.max, 1), 10000)
    ) AS s;
    IF ids IS NULL THEN
        moved := 0;
        RETURN;
    END IF;
    -- The ids reach the statements through arrays: the planner then has no join to get wrong, however stale the statistics are.
    WITH held AS MATERIALIZED (
        SELECT j.id
        FROM sched.river_job AS j
        WHERE j.id = ANY (ids) AND j.state = archive_tasks.status AND j.finalized_at <= horizon
        ORDER BY j.id
        FOR UPDATE SKIP LOCKED
    ),

    gone AS (
        DELETE FROM sched.river_job AS j WHERE j.id = ANY (ARRAY(SELECT h.id FROM held AS h)) RETURNING j.*
    ),

    logged AS (
        DELETE FROM sched.attempt_log AS l WHERE l.task_id = ANY (ARRAY(SELECT h.id FROM held AS h)) RETURNING l.*
    ),

    story AS (
        SELECT
            l.task_id,
            bool_or(l.started_at = g.attempted_at) AS last_logged,
            jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                'attempt', l.attempt, 'worker_id', l.worker_id, 'host', w.hostname, 'started_at', l.started_at, 'ended_at', l.ended_at,
                'outcome', l.outcome, 'error', l.error, 'skipped', nullif(l.skipped, 0)
            )) ORDER BY l.started_at) AS attempts
        FROM logged AS l
        JOIN gone AS g ON g.id = l.task_id
        LEFT JOIN sched.worker AS w ON w.id = l.worker_id
        GROUP BY l.task_id
    ),

    kept AS (
        INSERT INTO sched.task_archive (
            id, kind, queue, status, start_time, end_time, worker_id, host, attempt, max_attempts, priority, run_at, created_at, last_logged,
            args, metadata, errors, attempts, attempted_by, tags, unique_key, unique_states
        )
        SELECT
            g.id, g.kind, g.queue, g.state, g.attempted_at, g.finalized_at, g.attempted_by[cardinality(g.attempted_by)], w.hostname, g.attempt,
            g.max_attempts, g.priority, g.scheduled_at, g.created_at, coalesce(s.last_logged, false),
            g.args, g.metadata, g.errors, s.attempts, g.attempted_by, g.tags, g.unique_key, g.unique_states
        FROM gone AS g
        LEFT JOIN story AS s ON s.task_id = g.id
        LEFT JOIN sched.worker AS w ON w.id = g.attempted_by[cardinality(g.attempted_by)]
        ORDER BY g.finalized_at
        RETURNING 1
    )

    SELECT count(*) INTO moved FROM kept;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.archive_tasks(sched.river_job_state, timestamptz, integer) IS 'Internal: moves finished tasks from river_job to the archive. By the leader.';

-- sched.archive_months(): makes the archive''s partitions from last month to two months ahead, and drops one that is older than the setting
-- archive_keep_days as a whole, or what is older of the default partition. A month of which the default partition has tasks stays there.
-- waiting: what was in use was left for the next call.
-- Lock order: task_archive, then its partitions. A lock is waited for 250 ms at most: whoever reads the archive goes first, and nobody waits behind.
-- Bounds: four partitions made, one dropped, 10,000 tasks of the default partition deleted.
-- +goose StatementBegin
CREATE FUNCTION sched.archive_months(OUT made integer, OUT dropped integer, OUT waiting boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '250ms'
AS $$
#variable_conflict use_column
DECLARE
    this_month timestamp := date_trunc('month', now() AT TIME ZONE 'UTC');
    horizon    timestamptz := now() - make_interval(
        days => coalesce((SELECT s.value::text::integer FROM sched.setting AS s WHERE s.key = 'archive_keep_days'), 90)
    );
    month      timestamp;
    name       text;
    from_time  timestamptz;
    to_time    timestamptz;
BEGIN
    made := 0;
    dropped := 0;
    waiting := false;
    FOR month IN SELECT g FROM generate_series(this_month - interval '1 month', this_month + interval '2 months', interval '1 month') AS g LOOP
        name := 'task_archive_' || to_char(month, 'YYYY_MM');
        from_time := month AT TIME ZONE 'UTC';
        to_time := (month + interval '1 month') AT TIME ZONE 'UTC';
        CONTINUE WHEN to_regclass('sched.' || name) IS NOT NULL OR to_time <= horizon;
        BEGIN
            -- One at a time; enqueues, claims and the archive itself go on.
            LOCK TABLE sched.task_archive IN SHARE UPDATE EXCLUSIVE MODE;
            CONTINUE WHEN to_regclass('sched.' || name) IS NOT NULL
                OR EXISTS (SELECT FROM sched.task_archive_default AS d WHERE d.end_time >= from_time AND d.end_time < to_time);
            EXECUTE format('CREATE TABLE sched.%I (LIKE sched.task_archive INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', name);
            EXECUTE format('COMMENT ON TABLE sched.%I IS %L', name, 'Archived tasks that ended in ' || to_char(month, 'YYYY-MM') || ' (UTC).');
            EXECUTE format('ALTER TABLE sched.task_archive ATTACH PARTITION sched.%I FOR VALUES FROM (%L) TO (%L)', name, from_time, to_time);
            made := made + 1;
        EXCEPTION WHEN lock_not_available THEN
            waiting := true;
        END;
    END LOOP;

    SELECT c.relname INTO name
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'sched.task_archive'::regclass AND c.relname ~ '^task_archive_[0-9]{4}_[0-9]{2}$'
        AND (to_timestamp(right(c.relname, 7), 'YYYY_MM')::timestamp + interval '1 month') AT TIME ZONE 'UTC' <= horizon
    ORDER BY c.relname LIMIT 1;
    IF name IS NOT NULL THEN
        BEGIN
            EXECUTE format('DROP TABLE sched.%I', name);
            dropped := 1;
        EXCEPTION WHEN lock_not_available THEN
            waiting := true;
        END;
    END IF;
    DELETE FROM sched.task_archive_default AS d
    WHERE d.ctid = ANY (ARRAY(SELECT o.ctid FROM sched.task_archive_default AS o WHERE o.end_time < horizon LIMIT 10000 FOR UPDATE SKIP LOCKED));
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.archive_months() IS 'Internal: makes partitions of the archive ahead, and drops those that are too old. By the leader.';

-- sched.unarchive_task(task_id): brings an archived task back into river_job as it was, with its logged attempts. Its unique
-- key holds nothing yet, since somebody may have it by now: what is returned is its unique_states, for the caller to set.
-- Lock order: the archived row, then river_job (insert), attempt_log.
-- Bounds: one task.
-- +goose StatementBegin
CREATE FUNCTION sched.unarchive_task(task_id bigint) RETURNS bit
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    states bit(8);
BEGIN
    WITH back AS (
        DELETE FROM sched.task_archive AS a WHERE a.id = unarchive_task.task_id RETURNING a.*
    ),

    logged AS (
        INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error, skipped)
        SELECT b.id, e.attempt, e.worker_id, e.started_at, e.ended_at, e.outcome, e.error, coalesce(e.skipped, 0)
        FROM back AS b
        CROSS JOIN LATERAL jsonb_to_recordset(b.attempts) AS e (
            attempt smallint, worker_id text, started_at timestamptz, ended_at timestamptz, outcome text, error text, skipped integer
        )
        ON CONFLICT DO NOTHING
    ),

    inserted AS (
        INSERT INTO sched.river_job (
            id, state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority, args, attempted_by, errors, kind,
            metadata, queue, tags, unique_key
        )
        SELECT
            b.id, b.status, b.attempt, b.max_attempts, b.start_time, b.created_at, b.end_time, b.run_at, b.priority, b.args, b.attempted_by,
            b.errors, b.kind, b.metadata, b.queue, b.tags, b.unique_key
        FROM back AS b
    )

    SELECT b.unique_states INTO states FROM back AS b;
    RETURN states;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.unarchive_task(bigint) IS 'Internal: brings an archived task back.';

CREATE OR REPLACE VIEW sched.task AS
SELECT
    j.id,
    j.kind,
    j.queue,
    j.state AS status,
    j.attempted_at AS start_time,
    j.finalized_at AS end_time,
    j.attempted_by[cardinality(j.attempted_by)] AS worker_id,
    j.attempt::integer AS attempt,
    j.max_attempts::integer AS max_attempts,
    j.priority::integer AS priority,
    j.scheduled_at AS run_at,
    j.created_at,
    j.args,
    j.metadata -> 'output' AS output,
    CASE WHEN j.state <> 'completed' THEN j.errors[cardinality(j.errors)] ->> 'error' END AS error,
    CASE WHEN jsonb_typeof(j.metadata -> 'sched:selector') = 'object' THEN j.metadata -> 'sched:selector' ELSE '{}' END AS selector,
    coalesce(j.metadata ->> 'sched:protocol', 'any') AS protocol,
    j.metadata ->> 'sched:batch' AS batch,
    j.metadata ->> 'sched:key' AS unique_key,
    CASE WHEN jsonb_typeof(j.metadata -> 'sched:headers') = 'object' THEN j.metadata -> 'sched:headers' ELSE '{}' END AS headers,
    CASE WHEN j.metadata ->> 'sched:lost' ~ '^[0-9]{1,9}$' THEN (j.metadata ->> 'sched:lost')::integer ELSE 0 END AS lost,
    CASE WHEN j.metadata ->> 'snoozes' ~ '^[0-9]{1,9}$' THEN (j.metadata ->> 'snoozes')::integer ELSE 0 END AS snoozes,
    j.metadata #>> '{sched:by,user}' AS enqueued_by,
    nullif(j.metadata #>> '{sched:by,app}', '') AS enqueued_app,
    CASE
        WHEN j.metadata ->> 'sched:timeout_ms' ~ '^[0-9]{1,12}$'
            THEN (j.metadata ->> 'sched:timeout_ms')::bigint * interval '1 millisecond'
    END AS timeout,
    (SELECT w.hostname FROM sched.worker AS w WHERE w.id = j.attempted_by[cardinality(j.attempted_by)]) AS host,
    coalesce(cardinality(j.attempted_by), 0) AS claims,
    false AS archived
FROM sched.river_job AS j
UNION ALL
SELECT
    a.id,
    a.kind,
    a.queue,
    a.status,
    a.start_time,
    a.end_time,
    a.worker_id,
    a.attempt::integer,
    a.max_attempts::integer,
    a.priority::integer,
    a.run_at,
    a.created_at,
    a.args,
    a.metadata -> 'output',
    CASE WHEN a.status <> 'completed' THEN a.errors[cardinality(a.errors)] ->> 'error' END,
    CASE WHEN jsonb_typeof(a.metadata -> 'sched:selector') = 'object' THEN a.metadata -> 'sched:selector' ELSE '{}' END,
    coalesce(a.metadata ->> 'sched:protocol', 'any'),
    a.metadata ->> 'sched:batch',
    a.metadata ->> 'sched:key',
    CASE WHEN jsonb_typeof(a.metadata -> 'sched:headers') = 'object' THEN a.metadata -> 'sched:headers' ELSE '{}' END,
    CASE WHEN a.metadata ->> 'sched:lost' ~ '^[0-9]{1,9}$' THEN (a.metadata ->> 'sched:lost')::integer ELSE 0 END,
    CASE WHEN a.metadata ->> 'snoozes' ~ '^[0-9]{1,9}$' THEN (a.metadata ->> 'snoozes')::integer ELSE 0 END,
    a.metadata #>> '{sched:by,user}',
    nullif(a.metadata #>> '{sched:by,app}', ''),
    CASE
        WHEN a.metadata ->> 'sched:timeout_ms' ~ '^[0-9]{1,12}$'
            THEN (a.metadata ->> 'sched:timeout_ms')::bigint * interval '1 millisecond'
    END,
    a.host,
    coalesce(cardinality(a.attempted_by), 0),
    true
FROM sched.task_archive AS a;
COMMENT ON VIEW sched.task IS 'One row per task, archived or not. id, status = ... with or without a bound on start_time, and batch = ..., are served by indexes; so is a bound on end_time together with status IN (completed, cancelled, discarded).';
COMMENT ON COLUMN sched.task.host IS 'Machine of that worker; NULL if it is not known any more.';
COMMENT ON COLUMN sched.task.claims IS 'Times it was claimed, snoozes and hand-backs included; counted up to 100. Above 1: it ran more than once.';
COMMENT ON COLUMN sched.task.archived IS 'Whether it has left the hot table for the archive.';

CREATE OR REPLACE VIEW sched.attempt AS
SELECT
    l.task_id,
    l.attempt::integer AS attempt,
    l.worker_id,
    l.started_at AS start_time,
    l.ended_at AS end_time,
    l.outcome,
    l.error,
    l.skipped AS skipped,
    (SELECT w.hostname FROM sched.worker AS w WHERE w.id = l.worker_id) AS host
FROM sched.attempt_log AS l
UNION ALL
SELECT
    j.id,
    j.attempt::integer,
    j.attempted_by[cardinality(j.attempted_by)],
    j.attempted_at,
    j.finalized_at,
    CASE j.state
        WHEN 'running' THEN NULL
        -- A River client that works tasks by itself keeps no log: this is what its last attempt came to.
        WHEN 'retryable' THEN 'retry'
        WHEN 'scheduled' THEN 'snooze'
        WHEN 'available' THEN 'handback'
        ELSE j.state::text
    END,
    CASE
        WHEN j.state <> 'completed' AND (j.errors[cardinality(j.errors)] ->> 'attempt') = j.attempt::text
            THEN j.errors[cardinality(j.errors)] ->> 'error'
    END,
    0,
    (SELECT w.hostname FROM sched.worker AS w WHERE w.id = j.attempted_by[cardinality(j.attempted_by)])
FROM sched.river_job AS j
WHERE j.attempted_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM sched.attempt_log AS l WHERE l.task_id = j.id AND l.started_at = j.attempted_at)
UNION ALL
SELECT
    a.id,
    a.attempt::integer,
    a.worker_id,
    a.start_time,
    a.end_time,
    a.status::text,
    CASE
        WHEN a.status <> 'completed' AND (a.errors[cardinality(a.errors)] ->> 'attempt') = a.attempt::text
            THEN a.errors[cardinality(a.errors)] ->> 'error'
    END,
    0,
    a.host
FROM sched.task_archive AS a
WHERE a.start_time IS NOT NULL AND NOT a.last_logged
UNION ALL
SELECT a.id, e.attempt, e.worker_id, e.started_at, e.ended_at, e.outcome, e.error, coalesce(e.skipped, 0), e.host
FROM sched.task_archive AS a
CROSS JOIN LATERAL jsonb_to_recordset(a.attempts) AS e (
    attempt integer, worker_id text, started_at timestamptz, ended_at timestamptz, outcome text, error text, skipped integer, host text
)
WHERE a.attempts IS NOT NULL;
COMMENT ON VIEW sched.attempt IS 'Every attempt of every task, archived or not: earlier ones from the log, the latest from the task itself. By task_id it reads primary keys.';
COMMENT ON COLUMN sched.attempt.skipped IS 'Attempts between the one before and this one that were not kept: of a task with more than 100, the first and the last 50 are.';
COMMENT ON COLUMN sched.attempt.host IS 'Machine of that worker; NULL if it is not known any more.';

CREATE OR REPLACE VIEW sched.batch AS
SELECT
    b.batch,
    b.total,
    b.available,
    b.scheduled,
    b.running,
    b.retryable,
    b.pending,
    b.completed,
    b.cancelled,
    b.discarded,
    b.completed + b.cancelled + b.discarded AS finished,
    ((b.completed + b.cancelled + b.discarded)::double precision / b.total)::real AS progress,
    b.first_created,
    b.last_ended
FROM (
    SELECT
        u.batch,
        count(*) AS total,
        count(*) FILTER (WHERE u.state = 'available') AS available,
        count(*) FILTER (WHERE u.state = 'scheduled') AS scheduled,
        count(*) FILTER (WHERE u.state = 'running') AS running,
        count(*) FILTER (WHERE u.state = 'retryable') AS retryable,
        count(*) FILTER (WHERE u.state = 'pending') AS pending,
        count(*) FILTER (WHERE u.state = 'completed') AS completed,
        count(*) FILTER (WHERE u.state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE u.state = 'discarded') AS discarded,
        min(u.created_at) AS first_created,
        max(u.finalized_at) AS last_ended
    FROM (
        SELECT j.metadata ->> 'sched:batch' AS batch, j.state, j.created_at, j.finalized_at
        FROM sched.river_job AS j
        UNION ALL
        SELECT a.metadata ->> 'sched:batch', a.status, a.created_at, a.end_time
        FROM sched.task_archive AS a
    ) AS u
    WHERE u.batch IS NOT NULL
    GROUP BY u.batch
) AS b;
COMMENT ON VIEW sched.batch IS 'Progress of each batch, its archived tasks included. batch = ... is served by an index.';

REVOKE ALL ON sched.task_archive, sched.task_archive_default FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

-- The views first, as above.
ALTER VIEW sched.task RESET (security_barrier);
ALTER VIEW sched.attempt RESET (security_barrier);
ALTER VIEW sched.batch RESET (security_barrier);
LOCK TABLE sched.setting, sched.attempt_log IN ACCESS EXCLUSIVE MODE;

-- A view can't lose columns while others may depend on it: they stay, and say nothing.
CREATE OR REPLACE VIEW sched.batch AS
SELECT
    b.batch,
    b.total,
    b.available,
    b.scheduled,
    b.running,
    b.retryable,
    b.pending,
    b.completed,
    b.cancelled,
    b.discarded,
    b.completed + b.cancelled + b.discarded AS finished,
    ((b.completed + b.cancelled + b.discarded)::double precision / b.total)::real AS progress,
    b.first_created,
    b.last_ended
FROM (
    SELECT
        j.metadata ->> 'sched:batch' AS batch,
        count(*) AS total,
        count(*) FILTER (WHERE j.state = 'available') AS available,
        count(*) FILTER (WHERE j.state = 'scheduled') AS scheduled,
        count(*) FILTER (WHERE j.state = 'running') AS running,
        count(*) FILTER (WHERE j.state = 'retryable') AS retryable,
        count(*) FILTER (WHERE j.state = 'pending') AS pending,
        count(*) FILTER (WHERE j.state = 'completed') AS completed,
        count(*) FILTER (WHERE j.state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE j.state = 'discarded') AS discarded,
        min(j.created_at) AS first_created,
        max(j.finalized_at) AS last_ended
    FROM sched.river_job AS j
    WHERE j.metadata ->> 'sched:batch' IS NOT NULL
    GROUP BY j.metadata ->> 'sched:batch'
) AS b;

CREATE OR REPLACE VIEW sched.attempt AS
SELECT
    l.task_id,
    l.attempt::integer AS attempt,
    l.worker_id,
    l.started_at AS start_time,
    l.ended_at AS end_time,
    l.outcome,
    l.error,
    0 AS skipped,
    (SELECT w.hostname FROM sched.worker AS w WHERE w.id = l.worker_id) AS host
FROM sched.attempt_log AS l
UNION ALL
SELECT
    j.id,
    j.attempt::integer,
    j.attempted_by[cardinality(j.attempted_by)],
    j.attempted_at,
    j.finalized_at,
    CASE j.state
        WHEN 'running' THEN NULL
        -- A River client that works tasks by itself keeps no log: this is what its last attempt came to.
        WHEN 'retryable' THEN 'retry'
        WHEN 'scheduled' THEN 'snooze'
        WHEN 'available' THEN 'handback'
        ELSE j.state::text
    END,
    CASE
        WHEN j.state <> 'completed' AND (j.errors[cardinality(j.errors)] ->> 'attempt') = j.attempt::text
            THEN j.errors[cardinality(j.errors)] ->> 'error'
    END,
    0,
    (SELECT w.hostname FROM sched.worker AS w WHERE w.id = j.attempted_by[cardinality(j.attempted_by)])
FROM sched.river_job AS j
WHERE j.attempted_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM sched.attempt_log AS l WHERE l.task_id = j.id AND l.started_at = j.attempted_at);

CREATE OR REPLACE VIEW sched.task AS
SELECT
    j.id,
    j.kind,
    j.queue,
    j.state AS status,
    j.attempted_at AS start_time,
    j.finalized_at AS end_time,
    j.attempted_by[cardinality(j.attempted_by)] AS worker_id,
    j.attempt::integer AS attempt,
    j.max_attempts::integer AS max_attempts,
    j.priority::integer AS priority,
    j.scheduled_at AS run_at,
    j.created_at,
    j.args,
    j.metadata -> 'output' AS output,
    CASE WHEN j.state <> 'completed' THEN j.errors[cardinality(j.errors)] ->> 'error' END AS error,
    CASE WHEN jsonb_typeof(j.metadata -> 'sched:selector') = 'object' THEN j.metadata -> 'sched:selector' ELSE '{}' END AS selector,
    coalesce(j.metadata ->> 'sched:protocol', 'any') AS protocol,
    j.metadata ->> 'sched:batch' AS batch,
    j.metadata ->> 'sched:key' AS unique_key,
    CASE WHEN jsonb_typeof(j.metadata -> 'sched:headers') = 'object' THEN j.metadata -> 'sched:headers' ELSE '{}' END AS headers,
    CASE WHEN j.metadata ->> 'sched:lost' ~ '^[0-9]{1,9}$' THEN (j.metadata ->> 'sched:lost')::integer ELSE 0 END AS lost,
    CASE WHEN j.metadata ->> 'snoozes' ~ '^[0-9]{1,9}$' THEN (j.metadata ->> 'snoozes')::integer ELSE 0 END AS snoozes,
    j.metadata #>> '{sched:by,user}' AS enqueued_by,
    nullif(j.metadata #>> '{sched:by,app}', '') AS enqueued_app,
    CASE
        WHEN j.metadata ->> 'sched:timeout_ms' ~ '^[0-9]{1,12}$'
            THEN (j.metadata ->> 'sched:timeout_ms')::bigint * interval '1 millisecond'
    END AS timeout,
    (SELECT w.hostname FROM sched.worker AS w WHERE w.id = j.attempted_by[cardinality(j.attempted_by)]) AS host,
    coalesce(cardinality(j.attempted_by), 0) AS claims,
    false AS archived
FROM sched.river_job AS j;

-- A unique key that somebody else has by now is not taken from them.
INSERT INTO sched.river_job (
    id, state, attempt, max_attempts, attempted_at, created_at, finalized_at, scheduled_at, priority, args, attempted_by, errors, kind,
    metadata, queue, tags, unique_key, unique_states
)
SELECT
    a.id, a.status, a.attempt, a.max_attempts, a.start_time, a.created_at, a.end_time, a.run_at, a.priority, a.args, a.attempted_by, a.errors, a.kind,
    a.metadata, a.queue, a.tags, a.unique_key, CASE WHEN sched.river_job_state_in_bitmask(a.unique_states, a.status) THEN NULL ELSE a.unique_states END
FROM sched.task_archive AS a
ON CONFLICT DO NOTHING;
DROP TRIGGER attempt_log_bound ON sched.attempt_log;
DROP FUNCTION sched.attempt_log_bound();
INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
SELECT a.id, e.attempt, e.worker_id, e.started_at, e.ended_at, e.outcome, e.error
FROM sched.task_archive AS a
CROSS JOIN LATERAL jsonb_to_recordset(a.attempts) AS e (
    attempt smallint, worker_id text, started_at timestamptz, ended_at timestamptz, outcome text, error text
)
WHERE a.attempts IS NOT NULL
ON CONFLICT DO NOTHING;
DROP FUNCTION sched.unarchive_task(bigint);
DROP FUNCTION sched.archive_months();
DROP FUNCTION sched.archive_tasks(sched.river_job_state, timestamptz, integer);
DROP TABLE sched.task_archive;
ALTER TABLE sched.attempt_log DROP COLUMN skipped;
-- What somebody set stays: it is read again after the next upgrade.
DELETE FROM sched.setting AS s
USING (VALUES ('archive_after_seconds', '900'::jsonb), ('archive_keep_days', '90')) AS d (key, value)
WHERE s.key = d.key AND s.value = d.value;
ALTER TABLE sched.setting DROP CONSTRAINT setting_archive_fits;
