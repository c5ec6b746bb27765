-- Locking: creates new tables only; nothing that is in use gets locked.

-- +goose Up

CREATE TABLE sched.contract (
    singleton  boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    version    integer NOT NULL CHECK (version > 0),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE sched.contract IS 'One row: the version of the contract between this schema and the programs on it. A program refuses to start outside its own range.';
COMMENT ON COLUMN sched.contract.singleton IS 'Always true: keeps the table at one row.';
COMMENT ON COLUMN sched.contract.version IS 'Raised by a migration that changes what programs may rely on.';
COMMENT ON COLUMN sched.contract.updated_at IS 'When the version last changed.';
INSERT INTO sched.contract (version) VALUES (1);

CREATE TABLE sched.setting (
    key         text PRIMARY KEY,
    value       jsonb NOT NULL,
    description text NOT NULL DEFAULT '',
    updated_at  timestamptz NOT NULL DEFAULT now(),
    updated_by  text NOT NULL DEFAULT session_user,
    CONSTRAINT setting_value_fits CHECK (
        CASE key
            WHEN 'notify' THEN jsonb_typeof(value) = 'boolean'
            -- 255 MB is what a jsonb value can hold; a million tasks is what one call should ever carry.
            WHEN 'max_args_bytes' THEN jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]{1,9}$' AND value::text::integer BETWEEN 2 AND 267386880
            WHEN 'max_enqueue_many' THEN jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]{1,7}$' AND value::text::integer BETWEEN 1 AND 1000000
            ELSE true
        END
    )
);
COMMENT ON TABLE sched.setting IS 'Settings that every sidecar and every enqueue must agree on. Change one with UPDATE sched.setting SET value = ... WHERE key = ...; it holds from the next call on.';
COMMENT ON COLUMN sched.setting.key IS 'Name of the setting.';
COMMENT ON COLUMN sched.setting.value IS 'Its value as JSON.';
COMMENT ON COLUMN sched.setting.description IS 'What it does, in which unit and range.';
COMMENT ON COLUMN sched.setting.updated_at IS 'When the value was last changed.';
COMMENT ON COLUMN sched.setting.updated_by IS 'Login role that last changed it.';
COMMENT ON CONSTRAINT setting_value_fits ON sched.setting IS 'A value that enqueue could not read would stop every enqueue.';
INSERT INTO sched.setting (key, value, description) VALUES
    ('notify', 'true', 'Whether enqueueing a task wakes a sidecar at once with NOTIFY (true or false). Off, tasks start at the next poll.'),
    ('max_args_bytes', '1048576', 'Largest args of a task and largest output of sched.complete, in bytes of JSON text (2 to 267386880).'),
    ('max_enqueue_many', '100000', 'Most tasks in one call of sched.enqueue_many (1 to 1000000).');

CREATE TABLE sched.queue (
    name       text PRIMARY KEY CHECK (char_length(name) BETWEEN 1 AND 127),
    base       text NOT NULL,
    selector   jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(selector) = 'object'),
    protocol   text NOT NULL DEFAULT 'any' CHECK (protocol IN ('any', 'http', 'grpc', 'exec')),
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE sched.queue IS 'One row per queue that ever held a task: what a worker must offer to serve it.';
COMMENT ON COLUMN sched.queue.name IS 'Name as in river_job.queue: sched.queue_name(base, selector, protocol).';
COMMENT ON COLUMN sched.queue.base IS 'Name that enqueue was given.';
COMMENT ON COLUMN sched.queue.selector IS 'Label pairs that a worker must all carry; empty for any worker.';
COMMENT ON COLUMN sched.queue.protocol IS 'Protocol that a worker must speak; any for no demand.';
COMMENT ON COLUMN sched.queue.created_at IS 'When the queue was first used.';

-- Load rows change each second: half of each page stays free, and no changing column is indexed, so that updates are
-- heap-only.
CREATE TABLE sched.worker (
    id            text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 127),
    client_id     text NOT NULL,
    hostname      text NOT NULL DEFAULT '',
    pid           integer NOT NULL DEFAULT 0,
    version       text NOT NULL DEFAULT '',
    app_url       text NOT NULL DEFAULT '',
    labels        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    queues        text[],
    kinds         text[],
    protocols     text[] NOT NULL DEFAULT '{http}',
    state         text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'active', 'draining', 'done', 'evicted')),
    state_version bigint NOT NULL DEFAULT 0,
    started_at    timestamptz NOT NULL DEFAULT now(),
    heartbeat_at  timestamptz NOT NULL DEFAULT now(),
    heartbeat_seq bigint NOT NULL DEFAULT 0,
    ended_at      timestamptz,
    reason        text,
    running       integer NOT NULL DEFAULT 0,
    slots         integer NOT NULL DEFAULT 0,
    ceiling       integer NOT NULL DEFAULT 0,
    cpu           real NOT NULL DEFAULT 0,
    mem           real NOT NULL DEFAULT 0,
    load_percent  real NOT NULL DEFAULT 0,
    rtt_ms        real NOT NULL DEFAULT 0,
    polling       boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
COMMENT ON TABLE sched.worker IS 'One row per registration of a sidecar: who it is, what it serves, and how loaded it is now.';
COMMENT ON COLUMN sched.worker.id IS 'Random id of this registration (w- and 12 characters); the first part of a lease.';
COMMENT ON COLUMN sched.worker.client_id IS 'Id of the process, also its River client id; the same after a new registration.';
COMMENT ON COLUMN sched.worker.hostname IS 'Machine that the sidecar runs on.';
COMMENT ON COLUMN sched.worker.pid IS 'Process id of the sidecar on that machine.';
COMMENT ON COLUMN sched.worker.version IS 'Version of the sidecar.';
COMMENT ON COLUMN sched.worker.app_url IS 'Where the sidecar reaches its app.';
COMMENT ON COLUMN sched.worker.labels IS 'Labels that selectors are matched with.';
COMMENT ON COLUMN sched.worker.queues IS 'Base names of the queues it serves; NULL for all.';
COMMENT ON COLUMN sched.worker.kinds IS 'Kinds it claims; NULL for all.';
COMMENT ON COLUMN sched.worker.protocols IS 'Protocols that its app speaks.';
COMMENT ON COLUMN sched.worker.state IS 'pending, active, draining, done or evicted; moves one way.';
COMMENT ON COLUMN sched.worker.state_version IS 'Raised by one with each change of state: compare and swap.';
COMMENT ON COLUMN sched.worker.started_at IS 'When it registered.';
COMMENT ON COLUMN sched.worker.heartbeat_at IS 'Last heartbeat, by the clock of the database.';
COMMENT ON COLUMN sched.worker.heartbeat_seq IS 'Raised by one with each heartbeat: a leader sees it move or stand still without comparing clocks.';
COMMENT ON COLUMN sched.worker.ended_at IS 'When it ended or was evicted; NULL while it lives.';
COMMENT ON COLUMN sched.worker.reason IS 'Why it is in this state.';
COMMENT ON COLUMN sched.worker.running IS 'Tasks that it runs now.';
COMMENT ON COLUMN sched.worker.slots IS 'Tasks that it may run at once now.';
COMMENT ON COLUMN sched.worker.ceiling IS 'Configured maximum of slots.';
COMMENT ON COLUMN sched.worker.cpu IS 'CPU use of the app, 0 to 1.';
COMMENT ON COLUMN sched.worker.mem IS 'Memory use of the app, 0 to 1.';
COMMENT ON COLUMN sched.worker.load_percent IS 'Resource load of the app, 0 to 100.';
COMMENT ON COLUMN sched.worker.rtt_ms IS 'Round trip to the database in milliseconds.';
COMMENT ON COLUMN sched.worker.polling IS 'Whether it polls by itself at present, so that an enqueue need not wake it.';

CREATE TABLE sched.attempt_log (
    task_id    bigint NOT NULL,
    attempt    smallint NOT NULL,
    worker_id  text,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz,
    outcome    text NOT NULL CHECK (outcome IN ('retry', 'snooze', 'handback', 'rescued', 'completed', 'cancelled', 'discarded')),
    error      text,
    PRIMARY KEY (task_id, started_at)
);
COMMENT ON TABLE sched.attempt_log IS 'Attempts that were not the last of their task; the last one is in the task''s own row. Read it through sched.attempt.';
COMMENT ON COLUMN sched.attempt_log.task_id IS 'Id of the task. No foreign key: tasks are deleted before their log is swept.';
COMMENT ON COLUMN sched.attempt_log.attempt IS 'Number of the attempt, from 1; a snooze or hand-back does not spend it, so a number can occur again.';
COMMENT ON COLUMN sched.attempt_log.worker_id IS 'Worker that held the task.';
COMMENT ON COLUMN sched.attempt_log.started_at IS 'When the task was claimed (attempted_at).';
COMMENT ON COLUMN sched.attempt_log.ended_at IS 'When the attempt was settled.';
COMMENT ON COLUMN sched.attempt_log.outcome IS 'retry, snooze, handback or rescued; completed, cancelled or discarded when somebody ran an ended task again with sched.retry.';
COMMENT ON COLUMN sched.attempt_log.error IS 'What went wrong, if anything did.';

-- sched.contract_version(): the contract version of this schema. Reads one row, locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.contract_version() RETURNS integer
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT c.version FROM sched.contract AS c);
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.contract_version() IS 'Contract version of this schema; a program compares it with the range it works with.';

-- sched.setting_stamp(): keeps updated_at and updated_by of a setting true. Runs per changed row, locks nothing.
-- +goose StatementBegin
CREATE FUNCTION sched.setting_stamp() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.updated_at := clock_timestamp();
    NEW.updated_by := session_user;
    RETURN NEW;
END;
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.setting_stamp() IS 'Trigger of sched.setting: who changed a value, and when.';
CREATE TRIGGER setting_stamp BEFORE UPDATE ON sched.setting FOR EACH ROW EXECUTE FUNCTION sched.setting_stamp();
COMMENT ON TRIGGER setting_stamp ON sched.setting IS 'Stamps updated_at and updated_by.';

-- Tables are open to nobody but their owner, functions to everybody; neither is left to default privileges.
REVOKE ALL ON ALL TABLES IN SCHEMA sched FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

DROP TABLE sched.attempt_log;
DROP TABLE sched.worker;
DROP TABLE sched.queue;
DROP TABLE sched.setting;
DROP FUNCTION sched.setting_stamp();
DROP FUNCTION sched.contract_version();
DROP TABLE sched.contract;
