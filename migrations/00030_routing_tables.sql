-- Locking: ACCESS EXCLUSIVE on queue, kind, worker and setting for catalog changes: each new column is NULL or has a
-- constant default, but for queue.direct, which has the table written anew, and the checks read their rows: ten thousand at most. All four at once and in the order
-- in which an enqueue takes them, or the two would wait for each other. New tables lock nothing. The program gives up after a
-- moment and asks again (see locks.go).
--
-- What routing, backpressure and limits remember. Configuration and state of a queue share a row, since every enqueue reads
-- both: configuration is what sched apply and operators write; state is written by the leader alone, at most once a second
-- and only when it changed, and never waited for.

-- +goose Up

LOCK TABLE sched.setting, sched.kind, sched.queue, sched.worker IN ACCESS EXCLUSIVE MODE;

ALTER TABLE sched.queue
    ADD COLUMN strategy text NOT NULL DEFAULT 'least_loaded' CONSTRAINT queue_strategy_check CHECK (strategy IN ('least_loaded', 'round_robin')),
    ADD COLUMN admission text NOT NULL DEFAULT 'accept' CONSTRAINT queue_admission_check CHECK (admission IN ('accept', 'delay', 'reject')),
    ADD COLUMN max_pending integer CONSTRAINT queue_max_pending_check CHECK (max_pending BETWEEN 1 AND 1000000),
    ADD COLUMN max_running integer CONSTRAINT queue_max_running_check CHECK (max_running BETWEEN 0 AND 1000000),
    ADD COLUMN rate real CONSTRAINT queue_rate_check CHECK (rate >= 0.001 AND rate <= 1000000),
    ADD COLUMN burst integer CONSTRAINT queue_burst_check CHECK (burst BETWEEN 1 AND 1000000),
    ADD COLUMN pressure text NOT NULL DEFAULT 'green' CONSTRAINT queue_pressure_check CHECK (pressure IN ('green', 'yellow', 'red')),
    ADD COLUMN pressure_reason text,
    ADD COLUMN pending integer NOT NULL DEFAULT 0,
    ADD COLUMN load real NOT NULL DEFAULT 0,
    ADD COLUMN workers integer NOT NULL DEFAULT 0,
    ADD COLUMN weight_total bigint NOT NULL DEFAULT 0,
    ADD COLUMN free_slots integer NOT NULL DEFAULT 0,
    ADD COLUMN wake text[],
    ADD COLUMN unroutable text,
    ADD COLUMN state_at timestamptz;
ALTER TABLE sched.queue
    ADD COLUMN direct boolean NOT NULL GENERATED ALWAYS AS (
        coalesce(cardinality(wake) = 0, false) AND (pressure = 'green' OR admission = 'accept')
        AND name = base AND char_length(name) <= 100 AND name COLLATE "C" ~ '^[a-z0-9]+(?:[_-][a-z0-9]+)*$'
    ) STORED;
ALTER TABLE sched.queue SET (fillfactor = 50);
COMMENT ON COLUMN sched.queue.strategy IS 'How work spreads over its workers: least_loaded (the lowest running / ceiling first) or round_robin (each in turn).';
COMMENT ON COLUMN sched.queue.admission IS 'What enqueue does under pressure: accept; delay (yellow 0.5 s, red 2 s); or reject (at red, SQLSTATE SC429).';
COMMENT ON COLUMN sched.queue.max_pending IS 'Tasks waiting and due that count as full, 1 to 1000000. NULL: the setting max_pending.';
COMMENT ON COLUMN sched.queue.max_running IS 'Most tasks of it that run at once in the whole fleet, 0 to 1000000. NULL: no limit.';
COMMENT ON COLUMN sched.queue.rate IS 'Most tasks of it that are claimed a second in the whole fleet, 0.001 to 1000000. NULL: no limit.';
COMMENT ON COLUMN sched.queue.burst IS 'Tasks that may be claimed at once after a pause, above rate; 1 to 1000000. NULL: a twentieth of a second of rate, at least 1.';
COMMENT ON COLUMN sched.queue.pressure IS 'How close it is to its limits: green, yellow or red. Written by the leader, as the columns below.';
COMMENT ON COLUMN sched.queue.pressure_reason IS 'Why it is not green, in words. NULL: it is.';
COMMENT ON COLUMN sched.queue.pending IS 'Tasks available and due, counted up to max_pending.';
COMMENT ON COLUMN sched.queue.load IS 'Mean running / ceiling of its workers, 0 to 1.';
COMMENT ON COLUMN sched.queue.workers IS 'Workers assigned to it.';
COMMENT ON COLUMN sched.queue.weight_total IS 'Sum of their weights.';
COMMENT ON COLUMN sched.queue.free_slots IS 'Sum of their free slots.';
COMMENT ON COLUMN sched.queue.wake IS 'Whom an enqueue wakes: one of these workers. Empty: nobody, since a worker polls by itself or all are full. NULL: not known, so everybody.';
COMMENT ON COLUMN sched.queue.unroutable IS 'The pair (or protocol) that no live worker offers. NULL: somebody serves it, or nobody lives.';
COMMENT ON COLUMN sched.queue.state_at IS 'When the leader last changed these columns.';
COMMENT ON COLUMN sched.queue.direct IS 'An enqueue into it has nothing to look at but this: its door is open, nobody has to be woken, and its name is one that enqueue takes.';

ALTER TABLE sched.kind
    ADD COLUMN rate real CONSTRAINT kind_rate_check CHECK (rate >= 0.001 AND rate <= 1000000),
    ADD COLUMN burst integer CONSTRAINT kind_burst_check CHECK (burst BETWEEN 1 AND 1000000);
COMMENT ON COLUMN sched.kind.rate IS 'Most tasks of it that are claimed a second in the whole fleet, 0.001 to 1000000. NULL: no limit.';
COMMENT ON COLUMN sched.kind.burst IS 'Tasks that may be claimed at once after a pause, above rate; 1 to 1000000. NULL: a twentieth of a second of rate, at least 1.';

ALTER TABLE sched.worker
    ADD COLUMN health text NOT NULL DEFAULT 'good' CONSTRAINT worker_health_check CHECK (health IN ('good', 'strained', 'overloaded')),
    ADD COLUMN load_at timestamptz;
COMMENT ON COLUMN sched.worker.health IS 'good; strained (load_percent above 70: less weight, a hint to scale out); overloaded (above 85 on three beats: no claims, no assignments).';
COMMENT ON COLUMN sched.worker.load_at IS 'When its load was last written, at a heartbeat or between two.';

CREATE TABLE sched.fleet (
    singleton        boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    pressure         text NOT NULL DEFAULT 'green' CHECK (pressure IN ('green', 'yellow', 'red')),
    pressure_reason  text,
    pending          integer NOT NULL DEFAULT 0,
    load             real NOT NULL DEFAULT 0,
    workers          integer NOT NULL DEFAULT 0,
    slots            integer NOT NULL DEFAULT 0,
    running          integer NOT NULL DEFAULT 0,
    topology_version bigint NOT NULL DEFAULT 0,
    policy_version   bigint NOT NULL DEFAULT 0,
    leader           text,
    computed_at      timestamptz
) WITH (fillfactor = 10);
INSERT INTO sched.fleet DEFAULT VALUES;
COMMENT ON TABLE sched.fleet IS 'The fleet as the leader saw it last: one row, written each second.';
COMMENT ON COLUMN sched.fleet.singleton IS 'There is one row.';
COMMENT ON COLUMN sched.fleet.pressure IS 'How close the fleet is to its limits: green, yellow or red.';
COMMENT ON COLUMN sched.fleet.pressure_reason IS 'Why it is not green, in words. NULL: it is.';
COMMENT ON COLUMN sched.fleet.pending IS 'Tasks available and due over all queues, counted up to the setting max_pending.';
COMMENT ON COLUMN sched.fleet.load IS 'Mean running / ceiling of all workers that take tasks, 0 to 1.';
COMMENT ON COLUMN sched.fleet.workers IS 'Workers that live.';
COMMENT ON COLUMN sched.fleet.slots IS 'Sum of their slots.';
COMMENT ON COLUMN sched.fleet.running IS 'Sum of what they run.';
COMMENT ON COLUMN sched.fleet.topology_version IS 'Version of the newest topology.';
COMMENT ON COLUMN sched.fleet.policy_version IS 'Grows when the leader changed what workers have to obey: who serves what, canaries, who polls by itself.';
COMMENT ON COLUMN sched.fleet.leader IS 'Worker that leads and wrote this.';
COMMENT ON COLUMN sched.fleet.computed_at IS 'When. Older than some seconds: nobody leads now, and pressure counts as green.';

CREATE TABLE sched.assignment (
    queue      text NOT NULL,
    worker_id  text NOT NULL,
    weight     integer NOT NULL CHECK (weight > 0),
    reason     text NOT NULL,
    version    bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue, worker_id)
) WITH (fillfactor = 70);
CREATE INDEX assignment_worker_index ON sched.assignment (worker_id);
COMMENT ON INDEX sched.assignment_worker_index IS 'What a worker serves.';
COMMENT ON TABLE sched.assignment IS 'Who serves which queue, and how much of it: the answer of the routing layer, written by the leader.';
COMMENT ON COLUMN sched.assignment.queue IS 'Queue.';
COMMENT ON COLUMN sched.assignment.worker_id IS 'Worker that serves it.';
COMMENT ON COLUMN sched.assignment.weight IS 'Its share among the queue''s workers, above 0: with least_loaded its slots (half of them while it is strained), with round_robin the same for all.';
COMMENT ON COLUMN sched.assignment.reason IS 'Why it serves the queue, and with this weight, in words.';
COMMENT ON COLUMN sched.assignment.version IS 'Version of the topology at which the row became what it is.';
COMMENT ON COLUMN sched.assignment.updated_at IS 'When that was.';

CREATE TABLE sched.topology_snapshot (
    version     bigint PRIMARY KEY,
    taken_at    timestamptz NOT NULL,
    taken_at_ns bigint NOT NULL,
    sha256      text NOT NULL,
    reason      text NOT NULL,
    topology    jsonb NOT NULL
);
COMMENT ON TABLE sched.topology_snapshot IS 'The fleet as a whole at a version: the last three.';
COMMENT ON COLUMN sched.topology_snapshot.version IS 'Counts up by one with each change.';
COMMENT ON COLUMN sched.topology_snapshot.taken_at IS 'When, by the database''s clock.';
COMMENT ON COLUMN sched.topology_snapshot.taken_at_ns IS 'The same in nanoseconds since 1970.';
COMMENT ON COLUMN sched.topology_snapshot.sha256 IS 'SHA-256 of the text of topology, in hex.';
COMMENT ON COLUMN sched.topology_snapshot.reason IS 'What brought it about: join, leave, change or interval.';
COMMENT ON COLUMN sched.topology_snapshot.topology IS 'Workers by id, with labels, state, health, slots and queues.';

CREATE TABLE sched.topology_change (
    version   bigint NOT NULL,
    worker_id text NOT NULL,
    at        timestamptz NOT NULL,
    what      text NOT NULL CHECK (what IN ('join', 'leave', 'change')),
    before    jsonb,
    after     jsonb,
    PRIMARY KEY (version, worker_id)
);
CREATE INDEX topology_change_at_index ON sched.topology_change (at);
COMMENT ON INDEX sched.topology_change_at_index IS 'The topology as of a time, and what is old.';
COMMENT ON TABLE sched.topology_change IS 'What changed in the fleet from version to version: enough to tell what it was at any time kept.';
COMMENT ON COLUMN sched.topology_change.version IS 'Version that the change led to.';
COMMENT ON COLUMN sched.topology_change.worker_id IS 'Worker that changed.';
COMMENT ON COLUMN sched.topology_change.at IS 'When the leader saw it.';
COMMENT ON COLUMN sched.topology_change.what IS 'join, leave or change.';
COMMENT ON COLUMN sched.topology_change.before IS 'The worker''s entry before it; NULL for a join.';
COMMENT ON COLUMN sched.topology_change.after IS 'The worker''s entry after it; NULL for a leave.';

CREATE TABLE sched.flow (
    scope        text NOT NULL CHECK (scope IN ('queue', 'kind')),
    name         text NOT NULL,
    tokens       double precision NOT NULL DEFAULT 0,
    refilled_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    warm_from    timestamptz NOT NULL DEFAULT clock_timestamp(),
    granted      bigint NOT NULL DEFAULT 0,
    paused_until timestamptz,
    pause_reason text,
    paused_by    text,
    PRIMARY KEY (scope, name)
) WITH (fillfactor = 10);
COMMENT ON TABLE sched.flow IS 'State of the flow limits and timed pauses of queues and kinds. A row is locked by the claim that takes from it.';
COMMENT ON COLUMN sched.flow.scope IS 'queue or kind.';
COMMENT ON COLUMN sched.flow.name IS 'Which one.';
COMMENT ON COLUMN sched.flow.tokens IS 'Tasks that might be claimed now; below 0 never.';
COMMENT ON COLUMN sched.flow.refilled_at IS 'When tokens was right.';
COMMENT ON COLUMN sched.flow.warm_from IS 'When it began to warm up: a third of the rate then, all of it 30 s later.';
COMMENT ON COLUMN sched.flow.granted IS 'Tasks claimed under it so far.';
COMMENT ON COLUMN sched.flow.paused_until IS 'Nothing of it is claimed until then: its app said so with Retry-After. NULL or past: not paused.';
COMMENT ON COLUMN sched.flow.pause_reason IS 'What the app answered.';
COMMENT ON COLUMN sched.flow.paused_by IS 'Worker whose app it was.';

CREATE TABLE sched.canary (
    queue               text PRIMARY KEY,
    percent             real NOT NULL DEFAULT 0 CHECK (percent BETWEEN 0 AND 100),
    state               text NOT NULL DEFAULT 'off' CHECK (state IN ('off', 'rising', 'held', 'full', 'rolled_back')),
    steps               real[] NOT NULL DEFAULT '{5,15,30,50,75,100}',
    hold                interval NOT NULL DEFAULT interval '3 minutes' CHECK (hold > interval '0' AND hold <= interval '7 days'),
    max_p95_ms          real NOT NULL DEFAULT 15 CHECK (max_p95_ms >= 0),
    max_error_points    real NOT NULL DEFAULT 0.1 CHECK (max_error_points BETWEEN 0 AND 100),
    max_cpu_points      real NOT NULL DEFAULT 10 CHECK (max_cpu_points BETWEEN 0 AND 100),
    abort_error_percent real NOT NULL DEFAULT 0.5 CHECK (abort_error_percent BETWEEN 0 AND 100),
    step_at             timestamptz NOT NULL DEFAULT now(),
    reason              text,
    workers             integer NOT NULL DEFAULT 0
);
COMMENT ON TABLE sched.canary IS 'What share of a queue''s tasks goes to workers with the label track=canary, and how it rises.';
COMMENT ON COLUMN sched.canary.queue IS 'Queue.';
COMMENT ON COLUMN sched.canary.percent IS 'Share of its tasks, by id, that canary workers alone claim, while one lives; 0 to 100.';
COMMENT ON COLUMN sched.canary.state IS 'off; rising; held (an operator set percent); full (100 reached); rolled_back (back to 0 for errors).';
COMMENT ON COLUMN sched.canary.steps IS 'The shares it rises through, in order.';
COMMENT ON COLUMN sched.canary.hold IS 'How long the measures must be good for at a step before the next.';
COMMENT ON COLUMN sched.canary.max_p95_ms IS 'Most by which the canary''s 95th percentile of run time may differ from the others'', in milliseconds.';
COMMENT ON COLUMN sched.canary.max_error_points IS 'Most by which its error rate may be above the others'', in percentage points.';
COMMENT ON COLUMN sched.canary.max_cpu_points IS 'Most by which its cpu may be above the others'', in percentage points.';
COMMENT ON COLUMN sched.canary.abort_error_percent IS 'Error rate of the canary above which it goes back to 0, in percent.';
COMMENT ON COLUMN sched.canary.step_at IS 'Since when the measures of this step have been good.';
COMMENT ON COLUMN sched.canary.reason IS 'Why it is where it is.';
COMMENT ON COLUMN sched.canary.workers IS 'Canary workers assigned to the queue now; 0: its tasks go to the others at once.';

CREATE TABLE sched.decision (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    what       text NOT NULL,
    subject    text NOT NULL,
    who        text NOT NULL,
    from_value text,
    to_value   text,
    reason     text NOT NULL,
    signals    jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX decision_at_index ON sched.decision (at);
COMMENT ON INDEX sched.decision_at_index IS 'Decisions of a time, and what is old.';
CREATE INDEX decision_subject_index ON sched.decision (subject, at);
COMMENT ON INDEX sched.decision_subject_index IS 'Decisions about one subject.';
COMMENT ON TABLE sched.decision IS 'What sched decided by itself, and why. Kept for the setting decision_keep_days.';
COMMENT ON COLUMN sched.decision.id IS 'Counts up.';
COMMENT ON COLUMN sched.decision.at IS 'When.';
COMMENT ON COLUMN sched.decision.what IS 'Kind of decision: assignment, pressure, health, evict, canary, slots, pause, unroutable …';
COMMENT ON COLUMN sched.decision.subject IS 'What it is about: a queue, worker or kind; or fleet.';
COMMENT ON COLUMN sched.decision.who IS 'Worker that decided.';
COMMENT ON COLUMN sched.decision.from_value IS 'What was.';
COMMENT ON COLUMN sched.decision.to_value IS 'What is now.';
COMMENT ON COLUMN sched.decision.reason IS 'Why, in words.';
COMMENT ON COLUMN sched.decision.signals IS 'The measures it was made from.';

CREATE TABLE sched.operator_action (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    action           text NOT NULL,
    object_type      text NOT NULL,
    object           text NOT NULL,
    before           jsonb,
    after            jsonb,
    db_user          text NOT NULL DEFAULT session_user,
    application_name text NOT NULL DEFAULT current_setting('application_name')
);
CREATE INDEX operator_action_at_index ON sched.operator_action (at);
COMMENT ON INDEX sched.operator_action_at_index IS 'Interventions of a time, and what is old.';
CREATE INDEX operator_action_object_index ON sched.operator_action (object, at);
COMMENT ON INDEX sched.operator_action_object_index IS 'Interventions on one object.';
COMMENT ON TABLE sched.operator_action IS 'Who intervened: pauses, changed limits, settings and kinds, cancels, retries, drains. Also those made by plain UPDATE.';
COMMENT ON COLUMN sched.operator_action.id IS 'Counts up.';
COMMENT ON COLUMN sched.operator_action.at IS 'When.';
COMMENT ON COLUMN sched.operator_action.action IS 'What was done: insert, update, delete, pause, resume, cancel, retry, drain.';
COMMENT ON COLUMN sched.operator_action.object_type IS 'To what: setting, kind, queue, canary, schedule, task or worker.';
COMMENT ON COLUMN sched.operator_action.object IS 'Its name or id.';
COMMENT ON COLUMN sched.operator_action.before IS 'What changed, before it.';
COMMENT ON COLUMN sched.operator_action.after IS 'What changed, after it.';
COMMENT ON COLUMN sched.operator_action.db_user IS 'Login role.';
COMMENT ON COLUMN sched.operator_action.application_name IS 'Its application_name.';

ALTER TABLE sched.setting ADD CONSTRAINT setting_routing_fits CHECK (
    CASE
        WHEN key IN ('pending_yellow', 'pending_red', 'load_yellow', 'load_red') THEN
            jsonb_typeof(value) = 'number' AND value::text::float8 > 0 AND value::text::float8 <= 1
        WHEN key = 'pressure_hysteresis' THEN jsonb_typeof(value) = 'number' AND value::text::float8 >= 0 AND value::text::float8 <= 0.5
        WHEN key = 'max_pending' THEN jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]{1,7}$' AND value::text::integer BETWEEN 1 AND 1000000
        WHEN key = 'busy_polls_per_second' THEN jsonb_typeof(value) = 'number' AND value::text::float8 >= 1 AND value::text::float8 <= 10000
        WHEN key = 'priority_ageing_seconds' THEN jsonb_typeof(value) = 'number' AND value::text::float8 >= 0 AND value::text::float8 <= 604800
        WHEN key IN ('admission_delay_yellow_ms', 'admission_delay_red_ms') THEN
            jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]{1,7}$' AND value::text::integer <= 3600000
        WHEN key IN ('decision_keep_days', 'topology_keep_days', 'operator_action_keep_days') THEN
            jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]{1,5}$' AND value::text::integer BETWEEN 1 AND 36500
        ELSE true
    END
);

-- Up to here enqueue takes args without a look at the setting.
ALTER TABLE sched.setting DROP CONSTRAINT setting_value_fits;
ALTER TABLE sched.setting DISABLE TRIGGER setting_stamp; -- nobody changed the value
UPDATE sched.setting AS s
SET description = 'Largest args of a task and largest output of sched.complete, in bytes of JSON text (8192 to 267386880).'
WHERE s.key = 'max_args_bytes';
ALTER TABLE sched.setting ENABLE TRIGGER setting_stamp;
UPDATE sched.setting AS s SET value = '8192' WHERE s.key = 'max_args_bytes' AND s.value::text::integer < 8192;
ALTER TABLE sched.setting ADD CONSTRAINT setting_value_fits CHECK (
    CASE key
        WHEN 'notify' THEN jsonb_typeof(value) = 'boolean'
        WHEN 'max_args_bytes' THEN jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]{1,9}$' AND value::text::integer BETWEEN 8192 AND 267386880
        WHEN 'max_enqueue_many' THEN jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]{1,7}$' AND value::text::integer BETWEEN 1 AND 1000000
        ELSE true
    END
);
COMMENT ON CONSTRAINT setting_value_fits ON sched.setting IS 'A value that enqueue could not read would stop every enqueue.';

REVOKE ALL ON ALL TABLES IN SCHEMA sched FROM PUBLIC;

-- +goose Down

LOCK TABLE sched.setting, sched.kind, sched.queue, sched.worker IN ACCESS EXCLUSIVE MODE;

ALTER TABLE sched.setting DROP CONSTRAINT setting_value_fits;
ALTER TABLE sched.setting ADD CONSTRAINT setting_value_fits CHECK (
    CASE key
        WHEN 'notify' THEN jsonb_typeof(value) = 'boolean'
        WHEN 'max_args_bytes' THEN jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]{1,9}$' AND value::text::integer BETWEEN 2 AND 267386880
        WHEN 'max_enqueue_many' THEN jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]{1,7}$' AND value::text::integer BETWEEN 1 AND 1000000
        ELSE true
    END
);
COMMENT ON CONSTRAINT setting_value_fits ON sched.setting IS 'A value that enqueue could not read would stop every enqueue.';
UPDATE sched.setting AS s
SET description = 'Largest args of a task and largest output of sched.complete, in bytes of JSON text (2 to 267386880).'
WHERE s.key = 'max_args_bytes';
ALTER TABLE sched.setting DROP CONSTRAINT setting_routing_fits;
DROP TABLE sched.operator_action;
DROP TABLE sched.decision;
DROP TABLE sched.canary;
DROP TABLE sched.flow;
DROP TABLE sched.topology_change;
DROP TABLE sched.topology_snapshot;
DROP TABLE sched.assignment;
DROP TABLE sched.fleet;
ALTER TABLE sched.worker DROP COLUMN load_at, DROP COLUMN health;
ALTER TABLE sched.kind DROP COLUMN burst, DROP COLUMN rate;
ALTER TABLE sched.queue RESET (fillfactor);
ALTER TABLE sched.queue
    DROP COLUMN direct, DROP COLUMN state_at, DROP COLUMN unroutable, DROP COLUMN wake, DROP COLUMN free_slots, DROP COLUMN weight_total,
    DROP COLUMN workers, DROP COLUMN load, DROP COLUMN pending, DROP COLUMN pressure_reason, DROP COLUMN pressure,
    DROP COLUMN burst, DROP COLUMN rate, DROP COLUMN max_running, DROP COLUMN max_pending, DROP COLUMN admission, DROP COLUMN strategy;
