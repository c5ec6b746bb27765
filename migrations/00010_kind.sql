-- Locking: creates a table of its own; nothing that is in use gets locked.

-- +goose Up

CREATE TABLE sched.kind (
    kind         text PRIMARY KEY,
    description  text,
    queue        text,
    selector     jsonb,
    protocol     text,
    priority     smallint,
    timeout      interval,
    max_attempts integer,
    retry_base   interval,
    retry_cap    interval,
    retry_factor real,
    retry_jitter real,
    pinned       boolean NOT NULL DEFAULT false,
    updated_at   timestamptz NOT NULL DEFAULT now(),
    updated_by   text NOT NULL DEFAULT session_user,
    -- The ranges are those of enqueue's arguments: a default that enqueue refused would stop every enqueue of the kind.
    CONSTRAINT kind_kind_check CHECK (
        char_length(kind) >= 1 AND char_length(kind) <= 127 AND kind COLLATE "C" ~ '^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.\u00b7:+]*$'
    ),
    CONSTRAINT kind_description_check CHECK (char_length(description) BETWEEN 1 AND 1000),
    CONSTRAINT kind_queue_check CHECK (
        char_length(queue) >= 1 AND char_length(queue) <= 100 AND queue COLLATE "C" ~ '^[a-z0-9]+(?:[_-][a-z0-9]+)*$'
    ),
    CONSTRAINT kind_selector_check CHECK (
        CASE jsonb_typeof(selector)
            WHEN 'object' THEN
                jsonb_array_length(jsonb_path_query_array(selector, '$.keyvalue()')) <= 64
                AND NOT jsonb_path_exists(
                    selector,
                    '$.keyvalue() ? (@.value.type() != "string"
                        || !(@.key like_regex "^.{1,63}$" flag "s") || !(@.value like_regex "^.{0,255}$" flag "s"))'
                )
                -- No control characters. JSON text has most of them as escapes, which are told from an escaped backslash.
                AND replace(selector::text, '\\', '') COLLATE "C" !~ '\\[bfnrtu]|[\u007f-\u009f]'
            ELSE selector IS NULL
        END
    ),
    CONSTRAINT kind_protocol_check CHECK (protocol IN ('any', 'http', 'grpc', 'exec')),
    CONSTRAINT kind_priority_check CHECK (priority BETWEEN 1 AND 4),
    CONSTRAINT kind_timeout_check CHECK (timeout > interval '0' AND timeout <= interval '7 days'),
    CONSTRAINT kind_max_attempts_check CHECK (max_attempts BETWEEN 1 AND 32767),
    CONSTRAINT kind_retry_base_check CHECK (retry_base >= interval '1 millisecond' AND retry_base <= interval '7 days'),
    CONSTRAINT kind_retry_cap_check CHECK (
        retry_cap >= interval '1 millisecond' AND retry_cap <= interval '7 days' AND retry_cap >= coalesce(retry_base, retry_cap)
    ),
    -- The upper bounds refuse NaN and infinity too.
    CONSTRAINT kind_retry_factor_check CHECK (retry_factor >= 1 AND retry_factor <= 100),
    CONSTRAINT kind_retry_jitter_check CHECK (retry_jitter >= 0 AND retry_jitter < 1)
);
COMMENT ON TABLE sched.kind IS 'Defaults of a kind of task: what an enqueue leaves out is taken from here. A change holds from the next enqueue on; retry delays, from the next failure on. NULL in a column: not set.';
COMMENT ON COLUMN sched.kind.kind IS 'Kind of task.';
COMMENT ON COLUMN sched.kind.description IS 'What it is, for people.';
COMMENT ON COLUMN sched.kind.queue IS 'Queue (base name) of its tasks.';
COMMENT ON COLUMN sched.kind.selector IS 'Labels that its workers must carry, as an object of strings.';
COMMENT ON COLUMN sched.kind.protocol IS 'Protocol that its workers must speak: any, http, grpc or exec.';
COMMENT ON COLUMN sched.kind.priority IS 'Priority of its tasks: 1 starts first, 4 last.';
COMMENT ON COLUMN sched.kind.timeout IS 'Time that an attempt may take; above 0, up to 7 days.';
COMMENT ON COLUMN sched.kind.max_attempts IS 'Attempts after which a failing task is discarded, 1 to 32767.';
COMMENT ON COLUMN sched.kind.retry_base IS 'Wait after the first failure; 1 millisecond to 7 days.';
COMMENT ON COLUMN sched.kind.retry_cap IS 'Longest wait between attempts; 1 millisecond to 7 days, not under retry_base.';
COMMENT ON COLUMN sched.kind.retry_factor IS 'What each further failure multiplies the wait with; 1 to 100.';
COMMENT ON COLUMN sched.kind.retry_jitter IS 'Part of the wait by which it may be shorter or longer; 0 to under 1.';
COMMENT ON COLUMN sched.kind.pinned IS 'An operator''s row: sched apply never changes it.';
COMMENT ON COLUMN sched.kind.updated_at IS 'When the row was last changed.';
COMMENT ON COLUMN sched.kind.updated_by IS 'Login role that last changed it.';

CREATE TRIGGER kind_stamp BEFORE INSERT OR UPDATE ON sched.kind FOR EACH ROW EXECUTE FUNCTION sched.setting_stamp();
COMMENT ON TRIGGER kind_stamp ON sched.kind IS 'Stamps updated_at and updated_by.';
COMMENT ON FUNCTION sched.setting_stamp() IS 'Trigger of sched.setting and sched.kind: who changed a row, and when.';

REVOKE ALL ON ALL TABLES IN SCHEMA sched FROM PUBLIC;

-- +goose Down

DROP TABLE sched.kind;
COMMENT ON FUNCTION sched.setting_stamp() IS 'Trigger of sched.setting: who changed a value, and when.';
