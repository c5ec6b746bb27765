-- Locking: ACCESS EXCLUSIVE on setting for a catalog change only (the check reads the few rows there are); then a few rows.
--
-- What operators move about how sidecars size themselves. A row each, so that people see it and UPDATE finds it; a missing row
-- means the default.

-- +goose Up

LOCK TABLE sched.setting IN ACCESS EXCLUSIVE MODE;

-- CASE within CASE: a text that is no number must be refused, and not cast.
ALTER TABLE sched.setting ADD CONSTRAINT setting_elastic_fits CHECK (
    CASE
        WHEN key = 'elastic_profile' THEN value IN ('"default"', '"compute"', '"memory"', '"realtime"')
        WHEN key = 'elastic_weights' THEN
            CASE
                WHEN value = '"profile"' THEN true
                WHEN jsonb_typeof(value) = 'string' AND value #>> '{}' ~ '^(0|1|0\.[0-9]{1,6}|1\.0{1,6})(/(0|1|0\.[0-9]{1,6}|1\.0{1,6})){2}$' THEN
                    abs(split_part(value #>> '{}', '/', 1)::numeric + split_part(value #>> '{}', '/', 2)::numeric
                        + split_part(value #>> '{}', '/', 3)::numeric - 1) <= 0.001
                ELSE false
            END
        WHEN key = 'elastic_preset' THEN value IN ('"default"', '"steady"', '"warm"', '"fast"')
        WHEN key = 'elastic_alpha' THEN CASE WHEN jsonb_typeof(value) = 'number' THEN value::text::numeric BETWEEN 0 AND 1 ELSE false END
        WHEN key = 'elastic_threshold' THEN CASE WHEN jsonb_typeof(value) = 'number' THEN value::text::numeric BETWEEN 0.01 AND 1 ELSE false END
        WHEN key = 'elastic_min' THEN CASE WHEN value::text ~ '^[0-9]{1,4}$' THEN value::text::integer BETWEEN 1 AND 5000 ELSE false END
        WHEN key IN ('elastic_cooldown_seconds', 'elastic_drain_seconds') THEN
            CASE WHEN jsonb_typeof(value) = 'number' THEN value::text::numeric BETWEEN 1 AND 3600 ELSE false END
        ELSE true
    END
);
COMMENT ON CONSTRAINT setting_elastic_fits ON sched.setting IS 'Weights are 0 or more and together 1 (0.001 more or less); the other elastic settings are in their ranges.';

INSERT INTO sched.setting AS s (key, value, description) VALUES
    ('elastic_profile', '"default"', 'What counts in the joint score, cpu/memory/waiting: default 0.4/0.3/0.3, compute 0.6/0.2/0.2, memory 0.2/0.6/0.2, realtime 0.25/0.25/0.5.'),
    ('elastic_weights', '"profile"', 'Weights of its own instead of the profile''s, cpu/memory/waiting, such as 0.5/0.1/0.4; together 1. profile: those of elastic_profile.'),
    ('elastic_preset', '"default"', 'How fast the forecast of arrivals follows: steady (alpha 0.2), warm (0.6), default (0.7) or fast (0.9).'),
    ('elastic_alpha', '0', 'Smoothing of the forecast of its own instead of the preset''s (0 to 1; 0: that of elastic_preset).'),
    ('elastic_threshold', '0.75', 'Joint score above which slots grow, or the fleet is to scale out (0.01 to 1).'),
    ('elastic_min', '2', 'Least slots of a sidecar that sizes itself (1 to 5000; never more than its ceiling).'),
    ('elastic_cooldown_seconds', '10', 'How long fewer slots must have been enough before any are given up, in seconds (1 to 3600).'),
    ('elastic_drain_seconds', '5', 'In what time a backlog should be gone, in seconds (1 to 3600).')
ON CONFLICT (key) DO UPDATE SET description = excluded.description;

-- +goose Down

-- What somebody set stays: it is read again after the next upgrade.
LOCK TABLE sched.setting IN ACCESS EXCLUSIVE MODE;
DELETE FROM sched.setting AS s
USING (VALUES
    ('elastic_profile', '"default"'::jsonb), ('elastic_weights', '"profile"'), ('elastic_preset', '"default"'), ('elastic_alpha', '0'),
    ('elastic_threshold', '0.75'), ('elastic_min', '2'), ('elastic_cooldown_seconds', '10'), ('elastic_drain_seconds', '5')
) AS d (key, value)
WHERE s.key = d.key AND s.value = d.value;
ALTER TABLE sched.setting DROP CONSTRAINT setting_elastic_fits;
