-- Locking: ACCESS EXCLUSIVE on setting for a catalog change only (the check reads the few rows there are); then a few rows.
--
-- Each setting has a row, so that people see it and UPDATE finds it. A missing row still means the default.

-- +goose Up

LOCK TABLE sched.setting IN ACCESS EXCLUSIVE MODE;

-- A whole share, and not a trace of one: what a file can say, the table takes, and the other way round.
ALTER TABLE sched.setting DROP CONSTRAINT setting_routing_fits;
ALTER TABLE sched.setting ADD CONSTRAINT setting_routing_fits CHECK (
    CASE
        WHEN key IN ('pending_yellow', 'pending_red', 'load_yellow', 'load_red') THEN
            jsonb_typeof(value) = 'number' AND value::text::float8 >= 0.01 AND value::text::float8 <= 1
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
COMMENT ON CONSTRAINT setting_routing_fits ON sched.setting IS 'A value that the leader or an enqueue could not use would stop it.';

INSERT INTO sched.setting AS s (key, value, description) VALUES
    ('max_pending', '1000', 'Tasks waiting and due that count as full, of the fleet and of each queue without its own max_pending (1 to 1000000).'),
    ('pending_yellow', '0.7', 'Part of max_pending from which pressure is yellow (0.01 to 1).'),
    ('pending_red', '0.9', 'Part of max_pending from which pressure is red (0.01 to 1).'),
    ('load_yellow', '0.68', 'Mean running / ceiling of the workers from which pressure is yellow (0.01 to 1).'),
    ('load_red', '0.85', 'Mean running / ceiling of the workers from which pressure is red (0.01 to 1).'),
    ('pressure_hysteresis', '0.05', 'How far below a threshold pressure must fall before its level goes down (0 to 0.5).'),
    ('admission_delay_yellow_ms', '500', 'How much later a task becomes due that is enqueued at yellow into a queue with admission delay, in milliseconds (0 to 3600000).'),
    ('admission_delay_red_ms', '2000', 'How much later a task becomes due that is enqueued at red into a queue with admission delay, in milliseconds (0 to 3600000).'),
    ('busy_polls_per_second', '500', 'How often a second a busy queue is looked at, by all of its workers together (1 to 10000).'),
    ('priority_ageing_seconds', '60', 'How long a task waits for each step of priority before it starts ahead of younger tasks of a higher one, in seconds (0 to 604800; 0: never).'),
    ('decision_keep_days', '30', 'How long decisions are kept, in days (1 to 36500).'),
    ('topology_keep_days', '7', 'How long changes of the topology are kept, in days (1 to 36500).'),
    ('operator_action_keep_days', '365', 'How long actions of operators are kept, in days (1 to 36500).')
ON CONFLICT (key) DO UPDATE SET description = excluded.description;

-- +goose Down

-- What somebody set stays: the release before reads it, too.
LOCK TABLE sched.setting IN ACCESS EXCLUSIVE MODE;
DELETE FROM sched.setting AS s
USING (VALUES
    ('max_pending', '1000'::jsonb), ('pending_yellow', '0.7'), ('pending_red', '0.9'), ('load_yellow', '0.68'), ('load_red', '0.85'),
    ('pressure_hysteresis', '0.05'), ('admission_delay_yellow_ms', '500'), ('admission_delay_red_ms', '2000'),
    ('busy_polls_per_second', '500'), ('priority_ageing_seconds', '60'), ('decision_keep_days', '30'), ('topology_keep_days', '7'),
    ('operator_action_keep_days', '365')
) AS d (key, value)
WHERE s.key = d.key AND s.value = d.value;
ALTER TABLE sched.setting DROP CONSTRAINT setting_routing_fits;
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
