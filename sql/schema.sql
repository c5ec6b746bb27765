-- Code generated from the migrations by internal/schemadump ("make generate"). DO NOT EDIT.
-- The schema sched as sched migrate up makes it, without roles and grants.

CREATE SCHEMA sched;

-- Types

CREATE TYPE sched.river_job_state AS ENUM (
    'available',
    'cancelled',
    'completed',
    'discarded',
    'pending',
    'retryable',
    'running',
    'scheduled'
);

CREATE TYPE sched.new_task AS (
    fault text[],
    queue text,
    priority smallint,
    max_attempts smallint,
    state sched.river_job_state,
    scheduled_at timestamp with time zone,
    metadata jsonb,
    unique_key bytea,
    base text,
    selector jsonb,
    protocol text
);

-- Sequences

CREATE SEQUENCE sched.river_job_id_seq AS bigint;
CREATE SEQUENCE sched.river_notification_id_seq AS bigint;

-- Tables

CREATE TABLE sched.assignment (
    queue text NOT NULL,
    worker_id text NOT NULL,
    weight integer NOT NULL,
    reason text NOT NULL,
    version bigint NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT assignment_pkey PRIMARY KEY (queue, worker_id),
    CONSTRAINT assignment_weight_check CHECK ((weight > 0))
) WITH (fillfactor=70);

CREATE TABLE sched.attempt_log (
    task_id bigint NOT NULL,
    attempt smallint NOT NULL,
    worker_id text,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    outcome text NOT NULL,
    error text,
    skipped integer DEFAULT 0 NOT NULL,
    CONSTRAINT attempt_log_pkey PRIMARY KEY (task_id, started_at),
    CONSTRAINT attempt_log_outcome_check CHECK ((outcome = ANY (ARRAY['retry'::text, 'snooze'::text, 'handback'::text, 'rescued'::text, 'completed'::text, 'cancelled'::text, 'discarded'::text])))
);

CREATE TABLE sched.canary (
    queue text NOT NULL,
    percent real DEFAULT 0 NOT NULL,
    state text DEFAULT 'off'::text NOT NULL,
    steps real[] DEFAULT '{5,15,30,50,75,100}'::real[] NOT NULL,
    hold interval DEFAULT '00:03:00'::interval NOT NULL,
    max_p95_ms real DEFAULT 15 NOT NULL,
    max_error_points real DEFAULT 0.1 NOT NULL,
    max_cpu_points real DEFAULT 10 NOT NULL,
    abort_error_percent real DEFAULT 0.5 NOT NULL,
    step_at timestamp with time zone DEFAULT now() NOT NULL,
    reason text,
    workers integer DEFAULT 0 NOT NULL,
    CONSTRAINT canary_pkey PRIMARY KEY (queue),
    CONSTRAINT canary_abort_error_percent_check CHECK (((abort_error_percent >= (0)::double precision) AND (abort_error_percent <= (100)::double precision))),
    CONSTRAINT canary_hold_check CHECK (((hold > '00:00:00'::interval) AND (hold <= '7 days'::interval))),
    CONSTRAINT canary_max_cpu_points_check CHECK (((max_cpu_points >= (0)::double precision) AND (max_cpu_points <= (100)::double precision))),
    CONSTRAINT canary_max_error_points_check CHECK (((max_error_points >= (0)::double precision) AND (max_error_points <= (100)::double precision))),
    CONSTRAINT canary_max_p95_ms_check CHECK ((max_p95_ms >= (0)::double precision)),
    CONSTRAINT canary_percent_check CHECK (((percent >= (0)::double precision) AND (percent <= (100)::double precision))),
    CONSTRAINT canary_state_check CHECK ((state = ANY (ARRAY['off'::text, 'rising'::text, 'held'::text, 'full'::text, 'rolled_back'::text])))
);

CREATE TABLE sched.contract (
    singleton boolean DEFAULT true NOT NULL,
    version integer NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT contract_pkey PRIMARY KEY (singleton),
    CONSTRAINT contract_singleton_check CHECK (singleton),
    CONSTRAINT contract_version_check CHECK ((version > 0))
);

CREATE TABLE sched.decision (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    what text NOT NULL,
    subject text NOT NULL,
    who text NOT NULL,
    from_value text,
    to_value text,
    reason text NOT NULL,
    signals jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT decision_pkey PRIMARY KEY (id)
);

CREATE TABLE sched.fleet (
    singleton boolean DEFAULT true NOT NULL,
    pressure text DEFAULT 'green'::text NOT NULL,
    pressure_reason text,
    pending integer DEFAULT 0 NOT NULL,
    load real DEFAULT 0 NOT NULL,
    workers integer DEFAULT 0 NOT NULL,
    slots integer DEFAULT 0 NOT NULL,
    running integer DEFAULT 0 NOT NULL,
    topology_version bigint DEFAULT 0 NOT NULL,
    policy_version bigint DEFAULT 0 NOT NULL,
    leader text,
    computed_at timestamp with time zone,
    CONSTRAINT fleet_pkey PRIMARY KEY (singleton),
    CONSTRAINT fleet_pressure_check CHECK ((pressure = ANY (ARRAY['green'::text, 'yellow'::text, 'red'::text]))),
    CONSTRAINT fleet_singleton_check CHECK (singleton)
) WITH (fillfactor=10);

CREATE TABLE sched.flow (
    scope text NOT NULL,
    name text NOT NULL,
    tokens double precision DEFAULT 0 NOT NULL,
    refilled_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    warm_from timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    granted bigint DEFAULT 0 NOT NULL,
    paused_until timestamp with time zone,
    pause_reason text,
    paused_by text,
    CONSTRAINT flow_pkey PRIMARY KEY (scope, name),
    CONSTRAINT flow_scope_check CHECK ((scope = ANY (ARRAY['queue'::text, 'kind'::text])))
) WITH (fillfactor=10);

CREATE TABLE sched.goose_db_version (
    id integer GENERATED BY DEFAULT AS IDENTITY NOT NULL,
    version_id bigint NOT NULL,
    is_applied boolean NOT NULL,
    tstamp timestamp without time zone DEFAULT now() NOT NULL,
    CONSTRAINT goose_db_version_pkey PRIMARY KEY (id)
);

CREATE TABLE sched.kind (
    kind text NOT NULL,
    description text,
    queue text,
    selector jsonb,
    protocol text,
    priority smallint,
    timeout interval,
    max_attempts integer,
    retry_base interval,
    retry_cap interval,
    retry_factor real,
    retry_jitter real,
    pinned boolean DEFAULT false NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_by text DEFAULT SESSION_USER NOT NULL,
    rate real,
    burst integer,
    CONSTRAINT kind_pkey PRIMARY KEY (kind),
    CONSTRAINT kind_burst_check CHECK (((burst >= 1) AND (burst <= 1000000))),
    CONSTRAINT kind_description_check CHECK (((char_length(description) >= 1) AND (char_length(description) <= 1000))),
    CONSTRAINT kind_kind_check CHECK (((char_length(kind) >= 1) AND (char_length(kind) <= 127) AND ((kind COLLATE "C") ~ '^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.\u00b7:+]*$'::text))),
    CONSTRAINT kind_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 32767))),
    CONSTRAINT kind_priority_check CHECK (((priority >= 1) AND (priority <= 4))),
    CONSTRAINT kind_protocol_check CHECK ((protocol = ANY (ARRAY['any'::text, 'http'::text, 'grpc'::text, 'exec'::text]))),
    CONSTRAINT kind_queue_check CHECK (((char_length(queue) >= 1) AND (char_length(queue) <= 100) AND ((queue COLLATE "C") ~ '^[a-z0-9]+(?:[_-][a-z0-9]+)*$'::text))),
    CONSTRAINT kind_rate_check CHECK (((rate >= (0.001)::double precision) AND (rate <= (1000000)::double precision))),
    CONSTRAINT kind_retry_base_check CHECK (((retry_base >= '00:00:00.001'::interval) AND (retry_base <= '7 days'::interval))),
    CONSTRAINT kind_retry_cap_check CHECK (((retry_cap >= '00:00:00.001'::interval) AND (retry_cap <= '7 days'::interval) AND (retry_cap >= COALESCE(retry_base, retry_cap)))),
    CONSTRAINT kind_retry_factor_check CHECK (((retry_factor >= (1)::double precision) AND (retry_factor <= (100)::double precision))),
    CONSTRAINT kind_retry_jitter_check CHECK (((retry_jitter >= (0)::double precision) AND (retry_jitter < (1)::double precision))),
    CONSTRAINT kind_selector_check CHECK (
CASE jsonb_typeof(selector)
    WHEN 'object'::text THEN ((jsonb_array_length(jsonb_path_query_array(selector, '$.keyvalue()'::jsonpath)) <= 64) AND (NOT jsonb_path_exists(selector, '$.keyvalue()?((@."value".type() != "string" || !(@."key" like_regex "^.{1,63}$" flag "s")) || !(@."value" like_regex "^.{0,255}$" flag "s"))'::jsonpath)) AND ((replace((selector)::text, '\\'::text, ''::text) COLLATE "C") !~ '\\[bfnrtu]|[\u007f-\u009f]'::text))
    ELSE (selector IS NULL)
END),
    CONSTRAINT kind_timeout_check CHECK (((timeout > '00:00:00'::interval) AND (timeout <= '7 days'::interval)))
);

CREATE TABLE sched.operator_action (
    id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    action text NOT NULL,
    object_type text NOT NULL,
    object text NOT NULL,
    before jsonb,
    after jsonb,
    db_user text DEFAULT SESSION_USER NOT NULL,
    application_name text DEFAULT current_setting('application_name'::text) NOT NULL,
    CONSTRAINT operator_action_pkey PRIMARY KEY (id)
);

CREATE TABLE sched.queue (
    name text NOT NULL,
    base text NOT NULL,
    selector jsonb DEFAULT '{}'::jsonb NOT NULL,
    protocol text DEFAULT 'any'::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    description text,
    pinned boolean DEFAULT false NOT NULL,
    strategy text DEFAULT 'least_loaded'::text NOT NULL,
    admission text DEFAULT 'accept'::text NOT NULL,
    max_pending integer,
    max_running integer,
    rate real,
    burst integer,
    pressure text DEFAULT 'green'::text NOT NULL,
    pressure_reason text,
    pending integer DEFAULT 0 NOT NULL,
    load real DEFAULT 0 NOT NULL,
    workers integer DEFAULT 0 NOT NULL,
    weight_total bigint DEFAULT 0 NOT NULL,
    free_slots integer DEFAULT 0 NOT NULL,
    wake text[],
    unroutable text,
    state_at timestamp with time zone,
    direct boolean GENERATED ALWAYS AS ((COALESCE((cardinality(wake) = 0), false) AND ((pressure = 'green'::text) OR (admission = 'accept'::text)) AND (name = base) AND (char_length(name) <= 100) AND ((name COLLATE "C") ~ '^[a-z0-9]+(?:[_-][a-z0-9]+)*$'::text))) STORED NOT NULL,
    config_xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT queue_pkey PRIMARY KEY (name),
    CONSTRAINT queue_admission_check CHECK ((admission = ANY (ARRAY['accept'::text, 'delay'::text, 'reject'::text]))),
    CONSTRAINT queue_burst_check CHECK (((burst >= 1) AND (burst <= 1000000))),
    CONSTRAINT queue_description_check CHECK (((char_length(description) >= 1) AND (char_length(description) <= 1000))),
    CONSTRAINT queue_max_pending_check CHECK (((max_pending >= 1) AND (max_pending <= 1000000))),
    CONSTRAINT queue_max_running_check CHECK (((max_running >= 0) AND (max_running <= 1000000))),
    CONSTRAINT queue_name_check CHECK (((char_length(name) >= 1) AND (char_length(name) <= 127))),
    CONSTRAINT queue_pressure_check CHECK ((pressure = ANY (ARRAY['green'::text, 'yellow'::text, 'red'::text]))),
    CONSTRAINT queue_protocol_check CHECK ((protocol = ANY (ARRAY['any'::text, 'http'::text, 'grpc'::text, 'exec'::text]))),
    CONSTRAINT queue_rate_check CHECK (((rate >= (0.001)::double precision) AND (rate <= (1000000)::double precision))),
    CONSTRAINT queue_selector_check CHECK ((jsonb_typeof(selector) = 'object'::text)),
    CONSTRAINT queue_strategy_check CHECK ((strategy = ANY (ARRAY['least_loaded'::text, 'round_robin'::text])))
) WITH (fillfactor=50);

CREATE TABLE sched.river_job (
    id bigint DEFAULT nextval('sched.river_job_id_seq'::regclass) NOT NULL,
    state sched.river_job_state DEFAULT 'available'::sched.river_job_state NOT NULL,
    attempt smallint DEFAULT 0 NOT NULL,
    max_attempts smallint DEFAULT 25 NOT NULL,
    attempted_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    finalized_at timestamp with time zone,
    scheduled_at timestamp with time zone DEFAULT now() NOT NULL,
    priority smallint DEFAULT 1 NOT NULL,
    args jsonb NOT NULL,
    attempted_by text[],
    errors jsonb[],
    kind text NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    queue text DEFAULT 'default'::text NOT NULL,
    tags character varying(255)[] DEFAULT '{}'::character varying[] NOT NULL,
    unique_key bytea,
    unique_states bit(8),
    CONSTRAINT river_job_pkey PRIMARY KEY (id),
    CONSTRAINT finalized_or_finalized_at_null CHECK ((((finalized_at IS NULL) AND (state <> ALL (ARRAY['cancelled'::sched.river_job_state, 'completed'::sched.river_job_state, 'discarded'::sched.river_job_state]))) OR ((finalized_at IS NOT NULL) AND (state = ANY (ARRAY['cancelled'::sched.river_job_state, 'completed'::sched.river_job_state, 'discarded'::sched.river_job_state]))))),
    CONSTRAINT kind_length CHECK (((char_length(kind) > 0) AND (char_length(kind) < 128))),
    CONSTRAINT max_attempts_is_positive CHECK ((max_attempts > 0)),
    CONSTRAINT priority_in_range CHECK (((priority >= 1) AND (priority <= 4))),
    CONSTRAINT queue_length CHECK (((char_length(queue) > 0) AND (char_length(queue) < 128)))
);

CREATE UNLOGGED TABLE sched.river_leader (
    elected_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    leader_id text NOT NULL,
    name text DEFAULT 'default'::text NOT NULL,
    CONSTRAINT river_leader_pkey PRIMARY KEY (name),
    CONSTRAINT leader_id_length CHECK (((char_length(leader_id) > 0) AND (char_length(leader_id) < 128))),
    CONSTRAINT name_length CHECK ((name = 'default'::text))
);

CREATE TABLE sched.river_migration (
    line text NOT NULL,
    version bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT river_migration_pkey1 PRIMARY KEY (line, version),
    CONSTRAINT line_length CHECK (((char_length(line) > 0) AND (char_length(line) < 128))),
    CONSTRAINT version_gte_1 CHECK ((version >= 1))
);

CREATE TABLE sched.river_notification (
    id bigint DEFAULT nextval('sched.river_notification_id_seq'::regclass) NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    payload text NOT NULL,
    topic text NOT NULL,
    CONSTRAINT river_notification_pkey PRIMARY KEY (id),
    CONSTRAINT topic_length CHECK (((length(topic) > 0) AND (length(topic) < 128)))
);

CREATE TABLE sched.river_queue (
    name text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    paused_at timestamp with time zone,
    updated_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    CONSTRAINT river_queue_pkey PRIMARY KEY (name)
);

CREATE TABLE sched.schedule (
    name text NOT NULL,
    description text,
    cron text NOT NULL,
    timezone text DEFAULT 'UTC'::text NOT NULL,
    kind text NOT NULL,
    args jsonb DEFAULT '{}'::jsonb NOT NULL,
    queue text,
    selector jsonb,
    protocol text,
    priority smallint,
    timeout interval,
    max_attempts integer,
    overlap boolean DEFAULT true NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    pinned boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_by text DEFAULT SESSION_USER NOT NULL,
    next_run_at timestamp with time zone,
    last_due_at timestamp with time zone,
    last_run_at timestamp with time zone,
    last_task_id bigint,
    waiting_since timestamp with time zone,
    waiting_reason text,
    error text,
    CONSTRAINT schedule_pkey PRIMARY KEY (name),
    CONSTRAINT schedule_cron_check CHECK (((char_length(cron) >= 1) AND (char_length(cron) <= 200))),
    CONSTRAINT schedule_description_check CHECK (((char_length(description) >= 1) AND (char_length(description) <= 1000))),
    CONSTRAINT schedule_kind_check CHECK (((char_length(kind) >= 1) AND (char_length(kind) <= 127) AND ((kind COLLATE "C") ~ '^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.\u00b7:+]*$'::text))),
    CONSTRAINT schedule_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 32767))),
    CONSTRAINT schedule_name_check CHECK (((char_length(name) >= 1) AND (char_length(name) <= 100) AND ((name COLLATE "C") ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$'::text))),
    CONSTRAINT schedule_priority_check CHECK (((priority >= 1) AND (priority <= 4))),
    CONSTRAINT schedule_protocol_check CHECK ((protocol = ANY (ARRAY['any'::text, 'http'::text, 'grpc'::text, 'exec'::text]))),
    CONSTRAINT schedule_queue_check CHECK (((char_length(queue) >= 1) AND (char_length(queue) <= 100) AND ((queue COLLATE "C") ~ '^[a-z0-9]+(?:[_-][a-z0-9]+)*$'::text))),
    CONSTRAINT schedule_selector_check CHECK (
CASE jsonb_typeof(selector)
    WHEN 'object'::text THEN ((jsonb_array_length(jsonb_path_query_array(selector, '$.keyvalue()'::jsonpath)) <= 64) AND (NOT jsonb_path_exists(selector, '$.keyvalue()?((@."value".type() != "string" || !(@."key" like_regex "^.{1,63}$" flag "s")) || !(@."value" like_regex "^.{0,255}$" flag "s"))'::jsonpath)) AND ((replace((selector)::text, '\\'::text, ''::text) COLLATE "C") !~ '\\[bfnrtu]|[\u007f-\u009f]'::text))
    ELSE (selector IS NULL)
END),
    CONSTRAINT schedule_timeout_check CHECK (((timeout > '00:00:00'::interval) AND (timeout <= '7 days'::interval))),
    CONSTRAINT schedule_timezone_check CHECK (((char_length(timezone) >= 1) AND (char_length(timezone) <= 100)))
) WITH (fillfactor=50);

CREATE TABLE sched.setting (
    key text NOT NULL,
    value jsonb NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_by text DEFAULT SESSION_USER NOT NULL,
    pinned boolean DEFAULT false NOT NULL,
    CONSTRAINT setting_pkey PRIMARY KEY (key),
    CONSTRAINT setting_archive_fits CHECK (
CASE
    WHEN (key = 'archive_after_seconds'::text) THEN
    CASE
        WHEN ((jsonb_typeof(value) = 'number'::text) AND ((value)::text ~ '^[0-9]{1,7}$'::text)) THEN ((((value)::text)::integer >= 10) AND (((value)::text)::integer <= 2592000))
        ELSE false
    END
    WHEN (key = 'archive_keep_days'::text) THEN
    CASE
        WHEN ((jsonb_typeof(value) = 'number'::text) AND ((value)::text ~ '^[0-9]{1,5}$'::text)) THEN ((((value)::text)::integer >= 1) AND (((value)::text)::integer <= 36500))
        ELSE false
    END
    ELSE true
END),
    CONSTRAINT setting_elastic_fits CHECK (
CASE
    WHEN (key = 'elastic_profile'::text) THEN (value = ANY (ARRAY['"default"'::jsonb, '"compute"'::jsonb, '"memory"'::jsonb, '"realtime"'::jsonb]))
    WHEN (key = 'elastic_weights'::text) THEN
    CASE
        WHEN (value = '"profile"'::jsonb) THEN true
        WHEN ((jsonb_typeof(value) = 'string'::text) AND ((value #>> '{}'::text[]) ~ '^(0|1|0\.[0-9]{1,6}|1\.0{1,6})(/(0|1|0\.[0-9]{1,6}|1\.0{1,6})){2}$'::text)) THEN (abs(((((split_part((value #>> '{}'::text[]), '/'::text, 1))::numeric + (split_part((value #>> '{}'::text[]), '/'::text, 2))::numeric) + (split_part((value #>> '{}'::text[]), '/'::text, 3))::numeric) - (1)::numeric)) <= 0.001)
        ELSE false
    END
    WHEN (key = 'elastic_preset'::text) THEN (value = ANY (ARRAY['"default"'::jsonb, '"steady"'::jsonb, '"warm"'::jsonb, '"fast"'::jsonb]))
    WHEN (key = 'elastic_alpha'::text) THEN
    CASE
        WHEN (jsonb_typeof(value) = 'number'::text) THEN ((((value)::text)::numeric >= (0)::numeric) AND (((value)::text)::numeric <= (1)::numeric))
        ELSE false
    END
    WHEN (key = 'elastic_threshold'::text) THEN
    CASE
        WHEN (jsonb_typeof(value) = 'number'::text) THEN ((((value)::text)::numeric >= 0.01) AND (((value)::text)::numeric <= (1)::numeric))
        ELSE false
    END
    WHEN (key = 'elastic_min'::text) THEN
    CASE
        WHEN ((value)::text ~ '^[0-9]{1,4}$'::text) THEN ((((value)::text)::integer >= 1) AND (((value)::text)::integer <= 5000))
        ELSE false
    END
    WHEN (key = ANY (ARRAY['elastic_cooldown_seconds'::text, 'elastic_drain_seconds'::text])) THEN
    CASE
        WHEN (jsonb_typeof(value) = 'number'::text) THEN ((((value)::text)::numeric >= (1)::numeric) AND (((value)::text)::numeric <= (3600)::numeric))
        ELSE false
    END
    ELSE true
END),
    CONSTRAINT setting_routing_fits CHECK (
CASE
    WHEN (key = ANY (ARRAY['pending_yellow'::text, 'pending_red'::text, 'load_yellow'::text, 'load_red'::text])) THEN ((jsonb_typeof(value) = 'number'::text) AND (((value)::text)::double precision >= (0.01)::double precision) AND (((value)::text)::double precision <= (1)::double precision))
    WHEN (key = 'pressure_hysteresis'::text) THEN ((jsonb_typeof(value) = 'number'::text) AND (((value)::text)::double precision >= (0)::double precision) AND (((value)::text)::double precision <= (0.5)::double precision))
    WHEN (key = 'max_pending'::text) THEN ((jsonb_typeof(value) = 'number'::text) AND ((value)::text ~ '^[0-9]{1,7}$'::text) AND ((((value)::text)::integer >= 1) AND (((value)::text)::integer <= 1000000)))
    WHEN (key = 'busy_polls_per_second'::text) THEN ((jsonb_typeof(value) = 'number'::text) AND (((value)::text)::double precision >= (1)::double precision) AND (((value)::text)::double precision <= (10000)::double precision))
    WHEN (key = 'priority_ageing_seconds'::text) THEN ((jsonb_typeof(value) = 'number'::text) AND (((value)::text)::double precision >= (0)::double precision) AND (((value)::text)::double precision <= (604800)::double precision))
    WHEN (key = ANY (ARRAY['admission_delay_yellow_ms'::text, 'admission_delay_red_ms'::text])) THEN ((jsonb_typeof(value) = 'number'::text) AND ((value)::text ~ '^[0-9]{1,7}$'::text) AND (((value)::text)::integer <= 3600000))
    WHEN (key = ANY (ARRAY['decision_keep_days'::text, 'topology_keep_days'::text, 'operator_action_keep_days'::text])) THEN ((jsonb_typeof(value) = 'number'::text) AND ((value)::text ~ '^[0-9]{1,5}$'::text) AND ((((value)::text)::integer >= 1) AND (((value)::text)::integer <= 36500)))
    ELSE true
END),
    CONSTRAINT setting_value_fits CHECK (
CASE key
    WHEN 'notify'::text THEN (jsonb_typeof(value) = 'boolean'::text)
    WHEN 'max_args_bytes'::text THEN ((jsonb_typeof(value) = 'number'::text) AND ((value)::text ~ '^[0-9]{1,9}$'::text) AND ((((value)::text)::integer >= 8192) AND (((value)::text)::integer <= 267386880)))
    WHEN 'max_enqueue_many'::text THEN ((jsonb_typeof(value) = 'number'::text) AND ((value)::text ~ '^[0-9]{1,7}$'::text) AND ((((value)::text)::integer >= 1) AND (((value)::text)::integer <= 1000000)))
    ELSE true
END)
);

CREATE TABLE sched.task_archive (
    id bigint NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    status sched.river_job_state NOT NULL,
    start_time timestamp with time zone,
    end_time timestamp with time zone NOT NULL,
    worker_id text,
    host text,
    attempt smallint NOT NULL,
    max_attempts smallint NOT NULL,
    priority smallint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_logged boolean NOT NULL,
    args jsonb NOT NULL,
    metadata jsonb NOT NULL,
    errors jsonb[],
    attempts jsonb,
    attempted_by text[],
    tags character varying(255)[] NOT NULL,
    unique_key bytea,
    unique_states bit(8),
    CONSTRAINT task_archive_pkey PRIMARY KEY (id, end_time)
) PARTITION BY RANGE (end_time);

CREATE TABLE sched.topology_change (
    version bigint NOT NULL,
    worker_id text NOT NULL,
    at timestamp with time zone NOT NULL,
    what text NOT NULL,
    before jsonb,
    after jsonb,
    CONSTRAINT topology_change_pkey PRIMARY KEY (version, worker_id),
    CONSTRAINT topology_change_what_check CHECK ((what = ANY (ARRAY['join'::text, 'leave'::text, 'change'::text])))
);

CREATE TABLE sched.topology_snapshot (
    version bigint NOT NULL,
    taken_at timestamp with time zone NOT NULL,
    taken_at_ns bigint NOT NULL,
    sha256 text NOT NULL,
    reason text NOT NULL,
    topology jsonb NOT NULL,
    CONSTRAINT topology_snapshot_pkey PRIMARY KEY (version)
);

CREATE TABLE sched.worker (
    id text NOT NULL,
    client_id text NOT NULL,
    hostname text DEFAULT ''::text NOT NULL,
    pid integer DEFAULT 0 NOT NULL,
    version text DEFAULT ''::text NOT NULL,
    app_url text DEFAULT ''::text NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    queues text[],
    kinds text[],
    protocols text[] DEFAULT '{http}'::text[] NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    state_version bigint DEFAULT 0 NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    heartbeat_at timestamp with time zone DEFAULT now() NOT NULL,
    heartbeat_seq bigint DEFAULT 0 NOT NULL,
    ended_at timestamp with time zone,
    reason text,
    running integer DEFAULT 0 NOT NULL,
    slots integer DEFAULT 0 NOT NULL,
    ceiling integer DEFAULT 0 NOT NULL,
    cpu real DEFAULT 0 NOT NULL,
    mem real DEFAULT 0 NOT NULL,
    load_percent real DEFAULT 0 NOT NULL,
    rtt_ms real DEFAULT 0 NOT NULL,
    polling boolean DEFAULT false NOT NULL,
    skipped_kinds text[] DEFAULT '{}'::text[] NOT NULL,
    holds text[] DEFAULT '{}'::text[] NOT NULL,
    health text DEFAULT 'good'::text NOT NULL,
    load_at timestamp with time zone,
    demand real,
    arrivals real,
    forecast real,
    score real,
    scale_out boolean DEFAULT false NOT NULL,
    elastic_reason text,
    score_cpu real,
    score_mem real,
    score_pending real,
    CONSTRAINT worker_pkey PRIMARY KEY (id),
    CONSTRAINT worker_health_check CHECK ((health = ANY (ARRAY['good'::text, 'strained'::text, 'overloaded'::text]))),
    CONSTRAINT worker_id_check CHECK (((char_length(id) >= 1) AND (char_length(id) <= 127))),
    CONSTRAINT worker_labels_check CHECK ((jsonb_typeof(labels) = 'object'::text)),
    CONSTRAINT worker_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'active'::text, 'draining'::text, 'done'::text, 'evicted'::text])))
) WITH (fillfactor=50);

-- Partitions

CREATE TABLE sched.task_archive_default PARTITION OF sched.task_archive DEFAULT;

-- Sequences belong to their columns

ALTER SEQUENCE sched.river_job_id_seq OWNED BY sched.river_job.id;
ALTER SEQUENCE sched.river_notification_id_seq OWNED BY sched.river_notification.id;

-- Functions

CREATE OR REPLACE FUNCTION sched.add_queue(name text, base text, selector jsonb, protocol text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('sched.queue:' || (hashtext(add_queue.name) & 255), 0)) THEN
        RETURN false;
    END IF;
    INSERT INTO sched.queue (name, base, selector, protocol)
    VALUES (add_queue.name, add_queue.base, add_queue.selector, add_queue.protocol)
    ON CONFLICT DO NOTHING;
    INSERT INTO sched.river_queue (name, updated_at) VALUES (add_queue.name, now()) ON CONFLICT DO NOTHING;
    RETURN true;
EXCEPTION WHEN serialization_failure THEN
    -- Repeatable read: the row was committed after this transaction's snapshot, so it is there.
    RETURN true;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.admit(caller text, task sched.new_task)
 RETURNS sched.new_task
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    admission text;
    door      record;
BEGIN
    SELECT q.admission INTO admission FROM sched.queue AS q WHERE q.name = task.queue;
    door := sched.pressure_of(task.queue);
    IF admission = 'reject' AND door.level = 'red' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC429',
            MESSAGE = format('%s: queue %s takes no new tasks now, its pressure is red: %s',
                admit.caller, task.queue, coalesce(door.reason, 'it is close to its limits')),
            DETAIL = format('retry after %s seconds', greatest(ceil(extract(epoch FROM door.retry_after)), 1)),
            HINT = 'roll back and try again after that time, or ask sched.pressure(queue) before you enqueue; an operator can set the '
                || 'queue''s admission to delay or accept';
    ELSIF admission = 'delay' AND door.retry_after > interval '0' THEN
        IF task.scheduled_at < clock_timestamp() + door.retry_after THEN
            -- For sched.explain.
            task.metadata := task.metadata || jsonb_build_object('sched:door', format('by %s s, since pressure was %s%s',
                round(extract(epoch FROM door.retry_after), 3), door.level, coalesce(' (' || left(door.reason, 200) || ')', '')));
        END IF;
        task.state := 'scheduled';
        task.scheduled_at := greatest(task.scheduled_at, clock_timestamp() + door.retry_after);
    END IF;
    RETURN task;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.archive_months(OUT made integer, OUT dropped integer, OUT waiting boolean)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET lock_timeout TO '250ms'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.archive_tasks(status sched.river_job_state, after timestamp with time zone, max integer, OUT moved integer, OUT seen integer, OUT last timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.attempt_log_bound()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET jit TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.canary_share(task_id bigint)
 RETURNS real
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE STRICT
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$ SELECT ((abs(task_id % 2147483647) * 889516852 % 2147483647) * 1000000 / 2147483647)::real / 10000 $function$;

CREATE OR REPLACE FUNCTION sched.cancel(task_id bigint)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    task record;
BEGIN
    SELECT j.state, j.queue INTO task FROM sched.river_job AS j WHERE j.id = cancel.task_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        SELECT a.status INTO task.state FROM sched.task_archive AS a WHERE a.id = cancel.task_id;
        IF FOUND THEN
            RETURN task.state;
        END IF;
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.cancel: there is no task %s', coalesce(cancel.task_id::text, 'NULL')),
            HINT = 'pass the id that enqueue returned; tasks are deleted when they are older than the setting archive_keep_days';
    END IF;
    IF task.state IN ('completed', 'cancelled', 'discarded') THEN
        RETURN task.state;
    END IF;
    UPDATE sched.river_job AS j
    SET state = CASE WHEN j.state = 'running' THEN j.state ELSE 'cancelled' END,
        finalized_at = CASE WHEN j.state = 'running' THEN NULL ELSE clock_timestamp() END,
        metadata = j.metadata || jsonb_build_object('cancel_attempted_at', clock_timestamp())
    WHERE j.id = cancel.task_id;
    INSERT INTO sched.operator_action (action, object_type, object, before)
    VALUES ('cancel', 'task', cancel.task_id::text, jsonb_build_object('status', task.state));
    IF task.state = 'running' THEN
        PERFORM pg_notify('sched.river_control', json_build_object('action', 'cancel', 'job_id', cancel.task_id, 'queue', task.queue)::text);
        RETURN 'running';
    END IF;
    RETURN 'cancelled';
END;
$function$;

CREATE OR REPLACE FUNCTION sched.claim_lanes(worker_id text, max_tasks integer, kinds text[], skip_kinds text[], ageing double precision, window_rows integer, budget_ms integer, queues text[], priorities integer[], lane_kinds text[], from_us bigint[], from_ids bigint[], to_us bigint[], to_ids bigint[], lows real[], highs real[], OUT tid tid, OUT id bigint, OUT kind text, OUT queue text, OUT priority smallint, OUT attempt smallint, OUT max_attempts smallint, OUT args jsonb, OUT metadata jsonb, OUT created_at timestamp with time zone, OUT scheduled_at timestamp with time zone, OUT attempted_at timestamp with time zone, OUT report jsonb)
 RETURNS SETOF record
 LANGUAGE plpgsql
 ROWS 100
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.complete(task_id bigint, lease text, output jsonb DEFAULT NULL::jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    claim     record;
    max_bytes integer;
BEGIN
    claim := sched.parse_lease(complete.lease);
    IF complete.task_id IS NULL OR claim.worker_id IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = '22023',
            MESSAGE = format('sched.complete: %s', CASE
                WHEN complete.task_id IS NULL THEN 'task_id is NULL'
                ELSE format('lease %s is not of the form <worker id>.<microseconds>', coalesce(quote_literal(left(complete.lease, 127)), 'NULL'))
            END),
            HINT = 'pass the id and the lease of the request unchanged (headers ce-id and Sched-Lease)';
    END IF;
    IF complete.output IS NOT NULL THEN
        SELECT coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_args_bytes'), 1048576) INTO max_bytes;
        IF octet_length(complete.output::text) > max_bytes THEN
            RAISE EXCEPTION USING
                ERRCODE = '54000',
                MESSAGE = format('sched.complete: output has %s bytes of JSON text; at most %s are allowed', octet_length(complete.output::text), max_bytes),
                HINT = 'store the data elsewhere and pass a reference, or raise the setting max_args_bytes in sched.setting';
        END IF;
    END IF;

    UPDATE sched.river_job AS j
    SET state = 'completed',
        -- The moment of the call, not of the transaction's start: an attempt can't end before it began.
        finalized_at = greatest(clock_timestamp(), j.attempted_at),
        metadata = CASE
            WHEN complete.output IS NULL THEN j.metadata
            ELSE j.metadata || jsonb_build_object('output', complete.output)
        END
    WHERE j.id = complete.task_id AND j.state = 'running'
        AND j.attempted_at = claim.attempted_at AND j.attempted_by[cardinality(j.attempted_by)] = claim.worker_id;
    IF NOT FOUND THEN
        PERFORM sched.refuse_lease(complete.task_id, complete.lease);
    END IF;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.config_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    PERFORM pg_notify('sched.config', TG_TABLE_NAME);
    RETURN NULL;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.contract_version()
 RETURNS integer
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    RETURN (SELECT c.version FROM sched.contract AS c);
END;
$function$;

CREATE OR REPLACE FUNCTION sched.count_waiting(after text, default_max integer, budget integer, largest integer, OUT queue text, OUT waiting integer)
 RETURNS SETOF record
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER ROWS 10
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    last text := after;
    most integer;
    seen integer;
BEGIN
    WHILE count_waiting.budget > 0 LOOP
        SELECT j.queue INTO last FROM sched.river_job AS j
        WHERE j.state = 'available' AND j.queue > last ORDER BY j.queue LIMIT 1;
        IF NOT FOUND THEN
            count_waiting.queue := NULL;
            count_waiting.waiting := NULL;
            RETURN NEXT;
            RETURN;
        END IF;
        SELECT q.max_pending INTO most FROM sched.queue AS q WHERE q.name = last;
        most := coalesce(most, count_waiting.default_max);
        count_waiting.queue := last;
        count_waiting.waiting := NULL;
        seen := 0;
        IF most <= count_waiting.largest THEN
            SELECT count(*), count(*) FILTER (WHERE counted.scheduled_at <= now()) INTO seen, count_waiting.waiting
            FROM (
                SELECT j.scheduled_at FROM sched.river_job AS j
                WHERE j.state = 'available' AND j.queue = last
                ORDER BY j.queue, j.priority, j.scheduled_at, j.id LIMIT most
            ) AS counted;
        END IF;
        count_waiting.budget := count_waiting.budget - 20 - seen;
        RETURN NEXT;
    END LOOP;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.discover_queues(OUT name text, OUT base text, OUT selector jsonb, OUT protocol text, OUT added boolean)
 RETURNS SETOF record
 LANGUAGE plpgsql
 SECURITY DEFINER ROWS 10
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    last  text := '';
    found_queues integer := 0;
    meta  jsonb;
BEGIN
    FOR step IN 1..10000 LOOP
        SELECT j.queue, j.metadata INTO last, meta FROM sched.river_job AS j
        WHERE j.state = 'available' AND j.queue > last ORDER BY j.queue LIMIT 1;
        EXIT WHEN NOT FOUND OR found_queues = 1000;
        CONTINUE WHEN EXISTS (SELECT FROM sched.queue AS q WHERE q.name = last);
        discover_queues.name := last;
        discover_queues.base := split_part(last, '|', 1);
        discover_queues.selector := CASE WHEN jsonb_typeof(meta -> 'sched:selector') = 'object' THEN meta -> 'sched:selector' ELSE '{}' END;
        discover_queues.protocol := CASE WHEN meta ->> 'sched:protocol' IN ('http', 'grpc', 'exec') THEN meta ->> 'sched:protocol' ELSE 'any' END;
        IF sched.queue_name(discover_queues.base, discover_queues.selector, discover_queues.protocol) <> last THEN
            CONTINUE WHEN last ~ '\|[0-9a-f]{12}$';
            discover_queues.selector := '{}';
            discover_queues.protocol := 'any';
        END IF;
        discover_queues.added := sched.add_queue(
            discover_queues.name, discover_queues.base, discover_queues.selector, discover_queues.protocol);
        found_queues := found_queues + 1;
        RETURN NEXT;
    END LOOP;

    -- River's rows: made anew where a cleaner took one away, touched where they grow old.
    WITH stale AS (
        SELECT r.name FROM sched.river_queue AS r JOIN sched.queue AS q ON q.name = r.name
        WHERE r.updated_at < now() - interval '10 minutes'
        ORDER BY r.name LIMIT 1000
        FOR NO KEY UPDATE OF r SKIP LOCKED
    )
    UPDATE sched.river_queue AS r SET updated_at = now() FROM stale WHERE r.name = stale.name;
    PERFORM sched.add_queue(q.name, q.base, q.selector, q.protocol)
    FROM sched.queue AS q
    WHERE NOT EXISTS (SELECT FROM sched.river_queue AS r WHERE r.name = q.name)
    ORDER BY q.name LIMIT 1000;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.drain_worker(worker_id text)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    was    text;
    now_is text;
BEGIN
    -- What it was is read under the lock that the update takes.
    UPDATE sched.worker AS w
    SET state = 'draining', state_version = w.state_version + 1, reason = 'drained by ' || session_user
    FROM (SELECT o.id, o.state FROM sched.worker AS o WHERE o.id = drain_worker.worker_id FOR NO KEY UPDATE) AS before
    WHERE w.id = before.id AND w.state IN ('pending', 'active')
    RETURNING before.state, w.state INTO was, now_is;
    IF FOUND THEN
        INSERT INTO sched.operator_action (action, object_type, object, before, after)
        VALUES ('drain', 'worker', drain_worker.worker_id, jsonb_build_object('state', was), jsonb_build_object('state', now_is));
    ELSE
        SELECT w.state INTO now_is FROM sched.worker AS w WHERE w.id = drain_worker.worker_id;
    END IF;
    IF now_is IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.drain_worker: there is no worker %s', coalesce(quote_literal(left(drain_worker.worker_id, 127)), 'NULL')),
            HINT = 'pass the id of a row in sched.worker; a sidecar gets a new one at each start and after an eviction';
    END IF;
    RETURN now_is;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.enqueue(kind text, args jsonb DEFAULT '{}'::jsonb, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, selector jsonb DEFAULT NULL::jsonb, protocol text DEFAULT NULL::text, unique_key text DEFAULT NULL::text, max_attempts integer DEFAULT NULL::integer, timeout interval DEFAULT NULL::interval, batch text DEFAULT NULL::text, headers jsonb DEFAULT NULL::jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    task       sched.new_task;
    notify     boolean;
    max_bytes  integer;
    has_preset boolean;  -- the kind has a row
    known      text;     -- name of the queue, if it has a row
    admission  text;
    pressure   text;
    wake       text[];
    preset     record;
    task_id    bigint;
BEGIN
    -- A plain task of a queue that is known and open and whose workers look for tasks by themselves: while a fleet is busy nearly all
    -- are. Anything else, and all that is wrong, adds nothing here and goes on below. Each operator, each column and each subquery costs
    -- a measurable part of it: hence the column direct, the subscript, the object made of an array, and a limit that the setting can't be below.
    IF coalesce(unique_key, protocol, batch) IS NULL AND run_at IS NULL AND coalesce(selector, headers) IS NULL AND timeout IS NULL
        AND max_attempts IS NULL
    THEN
        INSERT INTO sched.river_job (kind, args, queue, priority, metadata)
        SELECT
            enqueue.kind, enqueue.args, q.name,
            -- NULL outside of 1 to 4; a cast could fail before the conditions are looked at.
            ('{1, 2, 3, 4}'::smallint[])[coalesce(enqueue.priority, 1)],
            jsonb_build_object('sched:by', jsonb_object(ARRAY['user', session_user::text, 'app', current_setting('application_name')]))
        FROM sched.queue AS q
        WHERE q.name = coalesce(enqueue.queue, 'default')
            AND q.direct
            AND NOT EXISTS (SELECT FROM sched.kind AS k WHERE k.kind = enqueue.kind)
            AND char_length(enqueue.kind) <= 127 AND enqueue.kind COLLATE "C" ~ '^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.\u00b7:+]*$'
            AND ('{1, 2, 3, 4}'::smallint[])[coalesce(enqueue.priority, 1)] IS NOT NULL
            AND octet_length(enqueue.args::text) <= 8192
        RETURNING id INTO task_id;
        IF task_id IS NOT NULL THEN
            RETURN task_id;
        END IF;
    END IF;

    SELECT
        coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_args_bytes'), 1048576),
        EXISTS (SELECT FROM sched.kind AS k WHERE k.kind = enqueue.kind)
    INTO notify, max_bytes, has_preset;
    IF has_preset THEN
        SELECT k.queue, k.priority, k.selector, k.protocol, k.max_attempts, k.timeout INTO preset
        FROM sched.kind AS k WHERE k.kind = enqueue.kind;
        queue := coalesce(queue, preset.queue);
        priority := coalesce(priority, preset.priority);
        selector := coalesce(selector, preset.selector);
        protocol := coalesce(protocol, preset.protocol);
        max_attempts := coalesce(max_attempts, preset.max_attempts);
        timeout := coalesce(timeout, preset.timeout);
    END IF;
    task := sched.new_task(
        kind, args, queue, priority, run_at, selector, protocol, unique_key, max_attempts, timeout, batch, headers);
    IF task.fault IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'sched.enqueue: ' || task.fault[1], HINT = task.fault[2];
    END IF;
    IF octet_length(args::text) > max_bytes THEN
        RAISE EXCEPTION USING
            ERRCODE = '54000',
            MESSAGE = format('sched.enqueue: args has %s bytes of JSON text; at most %s are allowed', octet_length(args::text), max_bytes),
            HINT = 'store the data elsewhere and pass a reference, or raise the setting max_args_bytes in sched.setting';
    END IF;
    SELECT q.name, q.admission, q.pressure, q.wake INTO known, admission, pressure, wake FROM sched.queue AS q WHERE q.name = task.queue;

    IF task.unique_key IS NULL THEN
        IF pressure <> 'green' AND admission <> 'accept' THEN
            task := sched.admit('sched.enqueue', task);
        END IF;
        INSERT INTO sched.river_job (kind, args, queue, priority, max_attempts, state, scheduled_at, metadata)
        VALUES (enqueue.kind, enqueue.args, task.queue, task.priority, task.max_attempts, task.state, task.scheduled_at, task.metadata)
        RETURNING id INTO task_id;
    ELSE
        FOR round IN 1..10 LOOP
            -- Looking first spares the insert's wait for a transaction that is completing the task with this key.
            SELECT j.id INTO task_id
            FROM sched.river_job AS j
            WHERE j.unique_key = task.unique_key AND j.unique_states IS NOT NULL
                AND sched.river_job_state_in_bitmask(j.unique_states, j.state);
            IF FOUND THEN
                RETURN task_id;
            END IF;
            -- The door is for what is new.
            IF round = 1 AND pressure <> 'green' AND admission <> 'accept' THEN
                task := sched.admit('sched.enqueue', task);
            END IF;
            INSERT INTO sched.river_job (
                kind, args, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, unique_states)
            VALUES (
                enqueue.kind, enqueue.args, task.queue, task.priority, task.max_attempts, task.state, task.scheduled_at,
                task.metadata, task.unique_key, B'11110001')
            ON CONFLICT (unique_key)
                WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL
                    AND sched.river_job_state_in_bitmask(unique_states, state)
                DO NOTHING
            RETURNING id INTO task_id;
            EXIT WHEN FOUND;
        END LOOP;
        IF task_id IS NULL THEN
            RAISE EXCEPTION USING
                ERRCODE = '40001',
                MESSAGE = format('sched.enqueue: tasks with unique_key %L keep coming and going', unique_key),
                HINT = 'run the transaction again';
        END IF;
    END IF;

    IF known IS NULL THEN
        PERFORM sched.add_queue(task.queue, task.base, task.selector, task.protocol);
    END IF;
    IF notify AND task.state = 'available' THEN
        IF wake IS NULL OR wake <> '{}' THEN
            PERFORM sched.notify_insert(task.queue, wake, task_id);
        END IF;
    ELSIF notify AND run_at < clock_timestamp() + interval '2 seconds' THEN
        -- The time asked for: one that pressure gave is left to the leader, which looks each second. A NOTIFY for each task is the
        -- last thing that a database under pressure needs.
        PERFORM pg_notify('sched.due', ceil(extract(epoch FROM run_at) * 1000)::bigint::text);
    END IF;
    RETURN task_id;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.enqueue_alike(tasks jsonb)
 RETURNS bigint[]
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    notify    boolean;
    max_bytes integer;
    max_tasks integer;
    common    jsonb;
    new       sched.new_task;
    ids       bigint[];
BEGIN
    IF jsonb_typeof(tasks) IS DISTINCT FROM 'array' OR jsonb_typeof(tasks -> 0) IS DISTINCT FROM 'object' THEN
        RETURN NULL;
    END IF;
    SELECT
        coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_args_bytes'), 1048576),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_enqueue_many'), 100000)
    INTO notify, max_bytes, max_tasks;
    common := (tasks -> 0) - 'args';
    IF jsonb_array_length(tasks) > max_tasks OR common ->> 'unique_key' IS NOT NULL OR EXISTS (
        SELECT FROM jsonb_array_elements(tasks) AS t (task)
        WHERE CASE
            WHEN jsonb_typeof(t.task) = 'object' THEN t.task - 'args' <> common OR octet_length((t.task -> 'args')::text) > max_bytes
            ELSE true
        END
    ) THEN
        RETURN NULL;
    END IF;
    new := sched.new_task_of(common, (SELECT k FROM sched.kind AS k WHERE k.kind = common ->> 'kind'));
    IF new.fault IS NOT NULL OR EXISTS (
        SELECT FROM sched.queue AS q WHERE q.name = new.queue AND q.pressure <> 'green' AND q.admission <> 'accept'
    ) THEN
        RETURN NULL;
    END IF;

    WITH added AS (
        INSERT INTO sched.river_job (id, kind, args, queue, priority, max_attempts, state, scheduled_at, metadata)
        SELECT nextval('sched.river_job_id_seq'), common ->> 'kind', t.args, new.queue, new.priority, new.max_attempts, new.state,
            new.scheduled_at, new.metadata
        FROM (
            SELECT coalesce(e.task -> 'args', '{}') AS args
            FROM jsonb_array_elements(tasks) WITH ORDINALITY AS e (task, ord) ORDER BY e.ord
        ) AS t
        RETURNING id
    )
    SELECT array_agg(a.id ORDER BY a.id) INTO ids FROM added AS a; -- ids ascend in the order given

    IF NOT EXISTS (SELECT FROM sched.queue AS known WHERE known.name = new.queue) THEN
        PERFORM sched.add_queue(new.queue, new.base, new.selector, new.protocol);
    END IF;
    IF notify AND new.state = 'available' THEN
        PERFORM sched.wake_queue(new.queue);
    ELSIF notify AND new.scheduled_at < clock_timestamp() + interval '2 seconds' THEN
        PERFORM pg_notify('sched.due', ceil(extract(epoch FROM new.scheduled_at) * 1000)::bigint::text);
    END IF;
    RETURN ids;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.enqueue_many(tasks jsonb)
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
    ids bigint[] := sched.enqueue_alike(tasks);
BEGIN
    IF ids IS NULL THEN
        RETURN QUERY SELECT m.id FROM sched.enqueue_many_mixed(tasks) WITH ORDINALITY AS m (id, ord) ORDER BY m.ord;
        RETURN;
    END IF;
    RETURN QUERY SELECT u.id FROM unnest(ids) WITH ORDINALITY AS u (id, ord) ORDER BY u.ord;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.enqueue_many_mixed(tasks jsonb)
 RETURNS SETOF bigint
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    notify    boolean;
    max_bytes integer;
    max_tasks integer;
    total     integer;
    new       sched.new_task[];
    ids       bigint[];   -- by position in tasks; NULL while a unique key is open
    fault     text[];
    place     integer;
    closed    text[];     -- queues under pressure whose door is not simply open
BEGIN
    IF tasks IS NULL OR jsonb_typeof(tasks) <> 'array' THEN
        RAISE EXCEPTION USING
            ERRCODE = '22023',
            MESSAGE = format('sched.enqueue_many: tasks is %s, not a JSON array', coalesce('a JSON ' || jsonb_typeof(tasks), 'NULL')),
            HINT = 'pass an array of objects with the names of sched.enqueue''s arguments, e.g. [{"kind": "send_mail"}]';
    END IF;
    SELECT
        coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_args_bytes'), 1048576),
        coalesce((SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_enqueue_many'), 100000)
    INTO notify, max_bytes, max_tasks;
    total := jsonb_array_length(tasks);
    IF total > max_tasks THEN
        RAISE EXCEPTION USING
            ERRCODE = '54000',
            MESSAGE = format('sched.enqueue_many: %s tasks in one call; at most %s are allowed', total, max_tasks),
            HINT = 'split them over several calls, in one transaction if need be, or raise the setting max_enqueue_many in sched.setting';
    ELSIF total = 0 THEN
        RETURN;
    END IF;

    SELECT array_agg(sched.new_task_of(t.task, k) ORDER BY t.ord) INTO new
    FROM jsonb_array_elements(tasks) WITH ORDINALITY AS t (task, ord)
    LEFT JOIN sched.kind AS k ON k.kind = t.task ->> 'kind';
    SELECT n.fault, n.ord - 1 INTO fault, place
    FROM unnest(new) WITH ORDINALITY AS n (
        fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
    WHERE n.fault IS NOT NULL ORDER BY n.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = '22023',
            MESSAGE = format('sched.enqueue_many: tasks[%s]: %s', place, fault[1]),
            DETAIL = 'Tasks are counted from 0. None of them was added.',
            HINT = fault[2];
    END IF;
    SELECT octet_length((t.task -> 'args')::text), t.ord - 1 INTO total, place
    FROM jsonb_array_elements(tasks) WITH ORDINALITY AS t (task, ord)
    WHERE octet_length((t.task -> 'args')::text) > max_bytes ORDER BY t.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = '54000',
            MESSAGE = format('sched.enqueue_many: tasks[%s]: args has %s bytes of JSON text; at most %s are allowed', place, total, max_bytes),
            DETAIL = 'Tasks are counted from 0. None of them was added.',
            HINT = 'store the data elsewhere and pass a reference, or raise the setting max_args_bytes in sched.setting';
    END IF;

    SELECT array_agg(q.name) INTO closed FROM sched.queue AS q
    WHERE q.pressure <> 'green' AND q.admission <> 'accept' AND q.name IN (SELECT n.queue FROM unnest(new) AS n);
    IF closed IS NOT NULL THEN
        -- The door is for what is new: a task that is there already passes as it is.
        SELECT array_agg(CASE
            WHEN t.queue <> ALL (closed) OR EXISTS (
                SELECT FROM sched.river_job AS j
                WHERE j.unique_key = t.unique_key AND j.unique_states IS NOT NULL
                    AND sched.river_job_state_in_bitmask(j.unique_states, j.state)
            ) THEN t.task
            ELSE sched.admit('sched.enqueue_many', t.task)
        END ORDER BY t.ord) INTO new
        FROM (
            SELECT n.queue, n.unique_key, n.ord, ROW(
                n.fault, n.queue, n.priority, n.max_attempts, n.state, n.scheduled_at, n.metadata, n.unique_key, n.base, n.selector,
                n.protocol)::sched.new_task AS task
            FROM unnest(new) WITH ORDINALITY AS n (
                fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
        ) AS t;
    END IF;

    ids := sched.insert_many(tasks, new);

    -- Queues and wake-ups of what was added; a task that was there already has had both.
    PERFORM sched.add_queue(q.name, q.base, q.selector, q.protocol)
    FROM (
        SELECT DISTINCT n.queue AS name, n.base, n.selector, n.protocol FROM unnest(new) AS n
        WHERE NOT EXISTS (SELECT FROM sched.queue AS known WHERE known.name = n.queue)
        ORDER BY name LIMIT 100
    ) AS q;
    IF notify THEN
        PERFORM sched.wake_queue(q.name)
        FROM (SELECT DISTINCT n.queue AS name FROM unnest(new) AS n WHERE n.state = 'available') AS q;
        PERFORM pg_notify('sched.due', ceil(extract(epoch FROM d.next) * 1000)::bigint::text)
        FROM (SELECT min(n.scheduled_at) AS next FROM unnest(new) AS n WHERE n.state = 'scheduled') AS d
        WHERE d.next < clock_timestamp() + interval '2 seconds';
    END IF;
    RETURN QUERY SELECT u.id FROM unnest(ids) WITH ORDINALITY AS u (id, ord) ORDER BY u.ord;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.explain(task_id bigint)
 RETURNS SETOF text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER ROWS 10
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
            HINT = 'pass the id that enqueue returned; a task exists once its transaction has committed, and is deleted when it is older than the setting archive_keep_days';
    END IF;
    SELECT left(m.metadata ->> 'cancel_attempted_at', 40) INTO asked
    FROM (
        SELECT j.metadata FROM sched.river_job AS j WHERE j.id = explain.task_id
        UNION ALL SELECT a.metadata FROM sched.task_archive AS a WHERE a.id = explain.task_id
    ) AS m;
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
    IF task.archived THEN
        RETURN NEXT 'It is in the archive; sched.retry brings it back.';
    END IF;
    RETURN NEXT format('It was enqueued at %s by %s.', sched.explain_time(task.created_at), CASE
        WHEN task.enqueued_by IS NULL THEN 'a River client'
        ELSE task.enqueued_by || coalesce(' (' || task.enqueued_app || ')', '')
    END);
END;
$function$;

CREATE OR REPLACE FUNCTION sched.explain_attempts(id bigint)
 RETURNS SETOF text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.explain_canary(id bigint, queue text)
 RETURNS SETOF text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.explain_door(id bigint, queue text)
 RETURNS SETOF text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.explain_error(error text)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    RETURN regexp_replace(left(error, 500), '\s+', ' ', 'g');
END;
$function$;

CREATE OR REPLACE FUNCTION sched.explain_limits(kind text, queue text, ahead bigint)
 RETURNS SETOF text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.explain_routing(id bigint, queue text)
 RETURNS SETOF text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.explain_run(id bigint)
 RETURNS SETOF text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.explain_service(task_kind text, task_queue text, selector jsonb, protocol text)
 RETURNS SETOF text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.explain_taken(id bigint, queue text, worker_id text)
 RETURNS SETOF text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.explain_time(moment timestamp with time zone)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.explain_wait(id bigint)
 RETURNS SETOF text
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.explain_workers(task_kind text, base text, selector jsonb, protocol text, OUT id text, OUT hostname text, OUT app_url text, OUT state text, OUT heartbeat_at timestamp with time zone, OUT running integer, OUT slots integer, OUT up boolean, OUT silent boolean, OUT missing text[], OUT speaks boolean, OUT takes_queue boolean, OUT takes_kind boolean, OUT matches boolean, OUT serves boolean, OUT skips boolean, OUT held text, OUT lacks text, OUT health text, OUT load_percent real, OUT track text)
 RETURNS SETOF record
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.insert_many(tasks jsonb, new sched.new_task[])
 RETURNS bigint[]
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    ids     bigint[];
    keys    bytea[];    -- distinct keys, sorted
    firsts  integer[];  -- where each first occurs
    key_ids bigint[];   -- the id each has come to; NULL while open
BEGIN
    SELECT array_agg(nextval('sched.river_job_id_seq') ORDER BY n.ord) INTO ids
    FROM (SELECT ord FROM generate_series(1, cardinality(new)) AS ord ORDER BY ord) AS n;

    SELECT array_agg(k.key ORDER BY k.key), array_agg(k.first ORDER BY k.key), array_agg(NULL::bigint) INTO keys, firsts, key_ids
    FROM (
        SELECT n.unique_key AS key, min(n.ord)::integer AS first
        FROM unnest(new) WITH ORDINALITY AS n (
            fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
        WHERE n.unique_key IS NOT NULL GROUP BY n.unique_key
    ) AS k;
    FOR round IN 1..10 LOOP
        EXIT WHEN keys IS NULL OR array_position(key_ids, NULL) IS NULL;
        -- Looking first spares the insert's wait for a transaction that is completing a task with such a key.
        SELECT array_agg(coalesce(k.id, found.id) ORDER BY k.key) INTO key_ids
        FROM unnest(keys, key_ids) AS k (key, id)
        LEFT JOIN LATERAL (
            SELECT j.id FROM sched.river_job AS j
            WHERE k.id IS NULL AND j.unique_key = k.key AND j.unique_states IS NOT NULL
                AND sched.river_job_state_in_bitmask(j.unique_states, j.state)
            LIMIT 1
        ) AS found ON true;
        WITH added AS (
            INSERT INTO sched.river_job (
                id, kind, args, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, unique_states)
            SELECT
                z.id, z.task ->> 'kind', coalesce(z.task -> 'args', '{}'), z.queue, z.priority, z.max_attempts, z.state,
                z.scheduled_at, z.metadata, z.unique_key, B'11110001'
            FROM ROWS FROM (jsonb_array_elements(tasks), unnest(ids), unnest(new)) WITH ORDINALITY AS z (
                task, id, fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
            JOIN unnest(firsts, key_ids) AS k (first, id) ON k.first = z.ord
            WHERE k.id IS NULL
            ORDER BY z.unique_key
            ON CONFLICT (unique_key)
                WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL
                    AND sched.river_job_state_in_bitmask(unique_states, state)
                DO NOTHING
            RETURNING id, unique_key
        )
        SELECT array_agg(coalesce(k.id, a.id) ORDER BY k.key) INTO key_ids
        FROM unnest(keys, key_ids) AS k (key, id) LEFT JOIN added AS a ON a.unique_key = k.key;
    END LOOP;
    IF array_position(key_ids, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = '40001',
            MESSAGE = 'sched.enqueue_many: tasks with the same unique keys keep coming and going',
            HINT = 'run the transaction again';
    END IF;

    INSERT INTO sched.river_job (id, kind, args, queue, priority, max_attempts, state, scheduled_at, metadata)
    SELECT z.id, z.task ->> 'kind', coalesce(z.task -> 'args', '{}'), z.queue, z.priority, z.max_attempts, z.state, z.scheduled_at, z.metadata
    FROM ROWS FROM (jsonb_array_elements(tasks), unnest(ids), unnest(new)) WITH ORDINALITY AS z (
        task, id, fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
    WHERE z.unique_key IS NULL
    ORDER BY z.ord;
    IF keys IS NULL THEN
        RETURN ids;
    END IF;
    RETURN (
        SELECT array_agg(coalesce(k.id, z.id) ORDER BY z.ord)
        FROM ROWS FROM (unnest(ids), unnest(new)) WITH ORDINALITY AS z (
            id, fault, queue, priority, max_attempts, state, scheduled_at, metadata, unique_key, base, selector, protocol, ord)
        LEFT JOIN unnest(keys, key_ids) AS k (key, id) ON k.key = z.unique_key
    );
END;
$function$;

CREATE OR REPLACE FUNCTION sched.limit_moved()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    PERFORM FROM sched.flow AS f WHERE f.scope = 'queue' AND f.name = NEW.name FOR NO KEY UPDATE;
    RETURN NULL;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.look_at_tasks(probe boolean, OUT waiting boolean, OUT next_due_ms double precision)
 RETURNS SETOF record
 LANGUAGE plpgsql
 STABLE ROWS 1
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
AS $function$
DECLARE
    due timestamptz;
BEGIN
    IF NOT probe THEN
        waiting := true;
        next_due_ms := 0;
        RETURN NEXT;
        RETURN;
    END IF;
    PERFORM FROM sched.river_job AS j WHERE j.state = 'available' ORDER BY j.queue, j.priority, j.scheduled_at, j.id LIMIT 1;
    waiting := FOUND;
    SELECT j.scheduled_at INTO due FROM sched.river_job AS j
    WHERE j.state IN ('retryable', 'scheduled') ORDER BY j.scheduled_at, j.id LIMIT 1;
    next_due_ms := CASE
        WHEN due <= clock_timestamp() THEN 0
        WHEN isfinite(due) THEN least(extract(EPOCH FROM due - clock_timestamp()) * 1000, 3600000)
        ELSE 3600000
    END;
    RETURN NEXT;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.mark_schedule(name text, cron text, timezone text, due timestamp with time zone, next timestamp with time zone, waiting text, error text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
BEGIN
    UPDATE sched.schedule AS s
    SET next_run_at = mark_schedule.next,
        waiting_since = CASE WHEN mark_schedule.waiting IS NOT NULL THEN coalesce(s.waiting_since, clock_timestamp()) END,
        waiting_reason = mark_schedule.waiting,
        error = mark_schedule.error
    FROM (
        SELECT l.name FROM sched.schedule AS l
        WHERE l.name = mark_schedule.name AND l.cron = mark_schedule.cron AND l.timezone = mark_schedule.timezone
            AND l.next_run_at IS NOT DISTINCT FROM mark_schedule.due AND NOT l.paused AND l.error IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS locked
    WHERE s.name = locked.name;
    RETURN FOUND;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.new_task(kind text, args jsonb, queue text, priority integer, run_at timestamp with time zone, selector jsonb, protocol text, unique_key text, max_attempts integer, timeout interval, batch text, headers jsonb)
 RETURNS sched.new_task
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
    task sched.new_task;
    meta jsonb;
BEGIN
    queue := coalesce(queue, 'default');
    priority := coalesce(priority, 1);
    protocol := coalesce(protocol, 'any');
    max_attempts := coalesce(max_attempts, 25);
    task.fault := sched.task_fault(
        kind, args, queue, priority, run_at, selector, protocol, unique_key, max_attempts, timeout, batch, headers);
    IF task.fault IS NOT NULL THEN
        RETURN task;
    END IF;

    meta := jsonb_build_object('sched:by', jsonb_build_object('user', session_user, 'app', current_setting('application_name')));
    selector := coalesce(selector, '{}');
    IF selector <> '{}' THEN
        meta := meta || jsonb_build_object('sched:selector', selector);
    END IF;
    IF protocol <> 'any' THEN
        meta := meta || jsonb_build_object('sched:protocol', protocol);
    END IF;
    IF timeout IS NOT NULL THEN
        meta := meta || jsonb_build_object('sched:timeout_ms', ceil(extract(epoch FROM timeout) * 1000)::bigint);
    END IF;
    IF batch IS NOT NULL THEN
        meta := meta || jsonb_build_object('sched:batch', batch);
    END IF;
    IF headers <> '{}' THEN
        meta := meta || jsonb_build_object('sched:headers', headers);
    END IF;
    IF unique_key IS NOT NULL THEN
        meta := meta || jsonb_build_object('sched:key', unique_key);
        task.unique_key := sha256(convert_to('sched', 'UTF8') || '\x00' || convert_to(kind, 'UTF8') || '\x00' || convert_to(unique_key, 'UTF8'));
    END IF;

    task.queue := CASE WHEN selector = '{}' AND protocol = 'any' THEN queue ELSE sched.queue_name(queue, selector, protocol) END;
    task.priority := priority;
    task.max_attempts := max_attempts;
    task.state := CASE WHEN run_at > clock_timestamp() THEN 'scheduled'::sched.river_job_state ELSE 'available'::sched.river_job_state END;
    task.scheduled_at := greatest(run_at, now());
    task.metadata := meta;
    task.base := queue;
    task.selector := selector;
    task.protocol := protocol;
    RETURN task;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.new_task_of(task jsonb)
 RETURNS sched.new_task
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    RETURN sched.new_task_of(task, NULL::sched.kind);
END;
$function$;

CREATE OR REPLACE FUNCTION sched.new_task_of(task jsonb, preset sched.kind)
 RETURNS sched.new_task
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
    known constant text[] := '{kind,args,queue,priority,run_at,selector,protocol,unique_key,max_attempts,timeout,batch,headers}';
    texts constant text[] := '{kind,queue,protocol,unique_key,batch,run_at,timeout}';
    result  sched.new_task;
    name    text;
    run_at  timestamptz;
    timeout interval;
BEGIN
    IF jsonb_typeof(task) <> 'object' THEN
        result.fault := ARRAY[
            format('it is a JSON %s, not an object', jsonb_typeof(task)),
            'pass each task as an object with the names of sched.enqueue''s arguments, e.g. {"kind": "send_mail"}'];
        RETURN result;
    END IF;
    IF task - known <> '{}' THEN
        SELECT k INTO name FROM jsonb_object_keys(task - known) AS k ORDER BY k LIMIT 1;
        result.fault := ARRAY[format('it has an unknown key %L', left(name, 63)), 'known keys: ' || array_to_string(known, ', ')];
        RETURN result;
    END IF;
    -- One expression for the usual task, the loops only to say what is wrong.
    IF jsonb_typeof(task -> 'kind') NOT IN ('string', 'null') OR jsonb_typeof(task -> 'queue') NOT IN ('string', 'null')
        OR jsonb_typeof(task -> 'protocol') NOT IN ('string', 'null') OR jsonb_typeof(task -> 'unique_key') NOT IN ('string', 'null')
        OR jsonb_typeof(task -> 'batch') NOT IN ('string', 'null') OR jsonb_typeof(task -> 'run_at') NOT IN ('string', 'null')
        OR jsonb_typeof(task -> 'timeout') NOT IN ('string', 'null') THEN
        FOREACH name IN ARRAY texts LOOP
            CONTINUE WHEN coalesce(jsonb_typeof(task -> name), 'null') IN ('string', 'null');
            result.fault := ARRAY[
                format('%s is a JSON %s, not a string', name, jsonb_typeof(task -> name)),
                format('pass %s as a JSON string, or leave it out', name)];
            RETURN result;
        END LOOP;
    END IF;
    IF jsonb_typeof(task -> 'priority') NOT IN ('number', 'null') OR task ->> 'priority' !~ '^-?[0-9]{1,9}$'
        OR jsonb_typeof(task -> 'max_attempts') NOT IN ('number', 'null') OR task ->> 'max_attempts' !~ '^-?[0-9]{1,9}$' THEN
        FOREACH name IN ARRAY '{priority,max_attempts}'::text[] LOOP
            CONTINUE WHEN jsonb_typeof(task -> name) = 'number' AND task ->> name ~ '^-?[0-9]{1,9}$' OR task ->> name IS NULL;
            result.fault := ARRAY[
                format('%s %s is not a whole number in range', name, left(task ->> name, 63)),
                format('pass %s as a JSON number, or leave it out', name)];
            RETURN result;
        END LOOP;
    END IF;
    IF task ->> 'run_at' IS NOT NULL OR task ->> 'timeout' IS NOT NULL THEN
        BEGIN
            name := 'run_at';
            run_at := (task ->> 'run_at')::timestamptz;
            name := 'timeout';
            timeout := (task ->> 'timeout')::interval;
        EXCEPTION WHEN data_exception THEN
            result.fault := ARRAY[
                format('%s %L can''t be read', name, left(task ->> name, 63)),
                CASE name
                    WHEN 'run_at' THEN 'pass a time with its offset, e.g. 2030-01-31T12:00:00Z'
                    ELSE 'pass an interval such as 30 seconds'
                END];
            RETURN result;
        END;
    END IF;
    RETURN sched.new_task(
        task ->> 'kind', coalesce(task -> 'args', '{}'), coalesce(task ->> 'queue', preset.queue),
        coalesce((task ->> 'priority')::integer, preset.priority), run_at,
        coalesce(nullif(task -> 'selector', 'null'), preset.selector), coalesce(task ->> 'protocol', preset.protocol),
        task ->> 'unique_key', coalesce((task ->> 'max_attempts')::integer, preset.max_attempts),
        coalesce(timeout, preset.timeout), task ->> 'batch', nullif(task -> 'headers', 'null'));
END;
$function$;

CREATE OR REPLACE FUNCTION sched.notify_insert(queue text, names text[], task_id bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
    -- Modulo first: a double has 53 bits, and the fraction needs some of them.
    turn   double precision := (task_id % 16777216) * 0.6180339887498949::float8;
    chosen text := names[1 + floor(cardinality(names) * (turn - floor(turn)))::integer];
BEGIN
    PERFORM pg_notify('sched.river_insert', '{"queue":' || to_json(queue)
        || CASE WHEN chosen IS NULL THEN '' ELSE ',"worker":' || to_json(chosen) END || '}');
END;
$function$;

CREATE OR REPLACE FUNCTION sched.open_flow(scope text, name text, want integer, OUT quota integer, OUT blocked text, OUT retry_ms double precision, OUT tokens double precision, OUT rate_now double precision, OUT batch double precision, OUT at timestamp with time zone, OUT warm_from timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.operator_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
    was  jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    now_ jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
    what text := lower(TG_OP);
BEGIN
    IF TG_TABLE_NAME = 'river_queue' THEN
        what := CASE WHEN now_ ->> 'paused_at' IS NULL THEN 'resume' ELSE 'pause' END;
    END IF;
    INSERT INTO sched.operator_action (action, object_type, object, before, after)
    SELECT
        what, TG_ARGV[0], coalesce(now_, was) ->> TG_ARGV[1],
        jsonb_object_agg(c.name, was -> c.name) FILTER (WHERE was IS NOT NULL AND (now_ IS NOT NULL OR was ->> c.name IS NOT NULL)),
        jsonb_object_agg(c.name, now_ -> c.name) FILTER (WHERE now_ IS NOT NULL AND (was IS NOT NULL OR now_ ->> c.name IS NOT NULL))
    FROM unnest(string_to_array(TG_ARGV[2], ',')) AS c (name)
    WHERE (was -> c.name) IS DISTINCT FROM (now_ -> c.name);
    PERFORM pg_notify('sched.config', TG_TABLE_NAME);
    RETURN NULL;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.pairs_fault(argument text, pairs jsonb, key_rule text, max_key integer, max_value integer)
 RETURNS text[]
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
    control constant text := '[\u0001-\u001f\u007f-\u009f]';
    shape constant text := 'pass ' || argument || ' as a JSON object whose values are strings, e.g. {"name": "value"}';
    total integer;
    bad   integer;
    pair  record;
BEGIN
    IF jsonb_typeof(pairs) <> 'object' THEN
        RETURN ARRAY[format('%s is a JSON %s, not an object', argument, jsonb_typeof(pairs)), shape];
    END IF;
    SELECT count(*), count(*) FILTER (
        WHERE jsonb_typeof(e.value) <> 'string' OR char_length(e.key) NOT BETWEEN 1 AND max_key OR e.key COLLATE "C" !~ key_rule
            OR char_length(e.value #>> '{}') > max_value OR (e.value #>> '{}') COLLATE "C" ~ control)
    INTO total, bad FROM jsonb_each(pairs) AS e;
    IF total > 64 THEN
        RETURN ARRAY[format('%s has %s pairs; at most 64 are allowed', argument, total), 'move data into args'];
    ELSIF bad = 0 THEN
        RETURN NULL;
    END IF;
    FOR pair IN SELECT e.key, jsonb_typeof(e.value) AS type, e.value #>> '{}' AS value FROM jsonb_each(pairs) AS e LOOP
        IF pair.type <> 'string' THEN
            RETURN ARRAY[format('%s %L is a JSON %s, not a string', argument, left(pair.key, 63), pair.type), shape];
        ELSIF char_length(pair.key) NOT BETWEEN 1 AND max_key OR pair.key COLLATE "C" !~ key_rule THEN
            RETURN ARRAY[
                format('%s has a bad name %L', argument, left(pair.key, 63)),
                format('names have 1 to %s characters and match %s', max_key, key_rule)];
        ELSIF char_length(pair.value) > max_value THEN
            RETURN ARRAY[
                format('%s %L has %s characters; at most %s are allowed', argument, pair.key, char_length(pair.value), max_value),
                'move data into args'];
        ELSIF pair.value COLLATE "C" ~ control THEN
            RETURN ARRAY[format('%s %L has a control character in its value', argument, pair.key), 'use printable characters only'];
        END IF;
    END LOOP;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.parse_lease(lease text, OUT worker_id text, OUT attempted_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
    parts  text[] := regexp_match(lease COLLATE "C", '^([A-Za-z0-9_-]{1,127})\.([0-9]{1,17})$');
    micros bigint := parts[2]::bigint;
BEGIN
    worker_id := parts[1];
    attempted_at := timestamptz '1970-01-01 00:00:00+00'
        + make_interval(hours => (micros / 3600000000)::integer) + (micros % 3600000000) * interval '1 microsecond';
END;
$function$;

CREATE OR REPLACE FUNCTION sched.pause_kind(kind text, until timestamp with time zone, reason text, worker_id text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.pressure()
 RETURNS TABLE(level text, reason text, pending integer, max_pending integer, load real, workers integer, retry_after interval, age interval)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER ROWS 1
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    RETURN QUERY SELECT p.* FROM sched.pressure_of(NULL) AS p;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.pressure(queue text)
 RETURNS TABLE(level text, reason text, pending integer, max_pending integer, load real, workers integer, retry_after interval, age interval)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER ROWS 1
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    RETURN QUERY SELECT p.* FROM sched.pressure_of(coalesce(pressure.queue, 'default')) AS p;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.pressure_of(queue text, OUT level text, OUT reason text, OUT pending integer, OUT max_pending integer, OUT load real, OUT workers integer, OUT retry_after interval, OUT age interval)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
BEGIN
    SELECT
        CASE WHEN pressure_of.queue IS NULL THEN f.pressure ELSE coalesce(q.pressure, 'green') END,
        CASE WHEN pressure_of.queue IS NULL THEN f.pressure_reason ELSE q.pressure_reason END,
        CASE WHEN pressure_of.queue IS NULL THEN f.pending ELSE coalesce(q.pending, 0) END,
        coalesce(q.max_pending, (SELECT s.value::integer FROM sched.setting AS s WHERE s.key = 'max_pending'), 1000),
        CASE WHEN pressure_of.queue IS NULL THEN f.load ELSE coalesce(q.load, 0) END,
        CASE WHEN pressure_of.queue IS NULL THEN f.workers ELSE coalesce(q.workers, 0) END,
        CASE WHEN f.computed_at IS NOT NULL THEN greatest(clock_timestamp() - f.computed_at, interval '0') END
    INTO level, reason, pending, max_pending, load, workers, age
    FROM sched.fleet AS f LEFT JOIN sched.queue AS q ON q.name = pressure_of.queue;
    IF age IS NULL OR age > interval '5 seconds' THEN
        level := 'green';
        reason := CASE
            WHEN age IS NULL THEN 'not computed: no sidecar has led this fleet yet'
            ELSE format('not computed for %s s: no sidecar leads, so nothing is delayed or refused', floor(extract(epoch FROM age)))
        END;
    END IF;
    retry_after := CASE level
        WHEN 'red' THEN make_interval(secs => coalesce((
            SELECT s.value::float8 FROM sched.setting AS s WHERE s.key = 'admission_delay_red_ms'), 2000) / 1000)
        WHEN 'yellow' THEN make_interval(secs => coalesce((
            SELECT s.value::float8 FROM sched.setting AS s WHERE s.key = 'admission_delay_yellow_ms'), 500) / 1000)
        ELSE interval '0'
    END;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.pressure_of_tasks(tasks jsonb)
 RETURNS TABLE(queue text, level text, reason text, retry_after interval)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER ROWS 1
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
BEGIN
    IF jsonb_typeof(tasks) <> 'array' OR NOT EXISTS (SELECT FROM sched.queue AS q WHERE q.pressure <> 'green')
        OR (sched.pressure_of(NULL)).age > interval '5 seconds' THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT q.name, p.level, p.reason, p.retry_after
    FROM sched.queue AS q CROSS JOIN LATERAL sched.pressure_of(q.name) AS p
    WHERE q.pressure <> 'green' AND p.level <> 'green' AND q.name IN (
        SELECT (sched.new_task_of(t.task, k)).queue
        FROM jsonb_array_elements(pressure_of_tasks.tasks) AS t (task) LEFT JOIN sched.kind AS k ON k.kind = t.task ->> 'kind'
    )
    ORDER BY p.level = 'red' DESC, q.name;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.queue_name(base text, selector jsonb, protocol text)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    IF coalesce(selector, '{}') = '{}' AND coalesce(protocol, 'any') = 'any' THEN
        RETURN base;
    END IF;
    RETURN base || '|' || left(md5(coalesce(selector, '{}')::text || '|' || coalesce(protocol, 'any')), 12);
END;
$function$;

CREATE OR REPLACE FUNCTION sched.queue_reconfigured()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    NEW.config_xid := pg_current_xact_id();
    RETURN NEW;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.refuse_lease(task_id bigint, lease text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    claim record;
    task  record;
    story text;
BEGIN
    claim := sched.parse_lease(refuse_lease.lease);
    SELECT t.status AS state, t.start_time AS attempted_at, t.end_time AS finalized_at, t.worker_id INTO task
    FROM sched.task AS t WHERE t.id = refuse_lease.task_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.complete: there is no task %s', refuse_lease.task_id),
            HINT = 'roll back; check that the task id is that of the request, and that this is the database the task was enqueued in';
    END IF;
    story := CASE
        WHEN task.state = 'completed' AND task.attempted_at = claim.attempted_at AND task.worker_id = claim.worker_id
            THEN format('this attempt was completed already, at %s', task.finalized_at)
        WHEN task.state IN ('completed', 'cancelled', 'discarded') THEN format('the task is %s since %s', task.state, task.finalized_at)
        WHEN task.state = 'running' THEN format('another attempt, begun at %s, runs on worker %s', task.attempted_at, task.worker_id)
        WHEN EXISTS (
            SELECT FROM sched.worker AS w WHERE w.id = claim.worker_id AND w.state = 'evicted'
        ) THEN format('worker %s was evicted and the task taken from it; it is %s', claim.worker_id, task.state)
        ELSE format('the attempt has ended; the task is %s', task.state)
    END;
    RAISE EXCEPTION USING
        ERRCODE = 'SC409',
        MESSAGE = format('sched.complete: lease %L does not own task %s: %s', refuse_lease.lease, refuse_lease.task_id, story),
        HINT = 'roll back and answer with an error: the effect of this attempt must not be kept';
END;
$function$;

CREATE OR REPLACE FUNCTION sched.retry(task_id bigint)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    task   record;
    states bit(8);
    other  bigint;
BEGIN
    SELECT j.* INTO task FROM sched.river_job AS j WHERE j.id = retry.task_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        states := sched.unarchive_task(retry.task_id);
        -- Looked for again in any case: another may just have brought it back.
        SELECT j.* INTO task FROM sched.river_job AS j WHERE j.id = retry.task_id FOR NO KEY UPDATE;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.retry: there is no task %s', coalesce(retry.task_id::text, 'NULL')),
            HINT = 'pass the id that enqueue returned; tasks are deleted when they are older than the setting archive_keep_days';
    ELSIF task.state = 'running' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC423',
            MESSAGE = format('sched.retry: task %s is running', retry.task_id),
            DETAIL = format('Attempt %s runs on worker %s since %s.', task.attempt, task.attempted_by[cardinality(task.attempted_by)], task.attempted_at),
            HINT = 'wait for its end, or end it with sched.cancel and retry it then';
    ELSIF task.state = 'available' AND task.scheduled_at <= now() THEN
        RETURN 'available';
    ELSIF task.attempt = 32767 THEN
        RAISE EXCEPTION USING
            ERRCODE = '22023',
            MESSAGE = format('sched.retry: task %s has had 32767 attempts, which is all a task can have', retry.task_id),
            HINT = 'enqueue a new task';
    END IF;

    BEGIN
        UPDATE sched.river_job AS j
        SET state = 'available',
            max_attempts = greatest(j.max_attempts, j.attempt + 1),
            finalized_at = NULL,
            scheduled_at = now(),
            unique_states = coalesce(states, j.unique_states),
            metadata = j.metadata - '{cancel_attempted_at,sched:lost,output}'::text[]
        WHERE j.id = retry.task_id;
    EXCEPTION WHEN unique_violation THEN
        SELECT j.id INTO other FROM sched.river_job AS j
        WHERE j.unique_key = task.unique_key AND j.unique_states IS NOT NULL
            AND sched.river_job_state_in_bitmask(j.unique_states, j.state);
        RAISE EXCEPTION USING
            ERRCODE = 'SC410',
            MESSAGE = format('sched.retry: another unfinished task has the unique key of task %s', retry.task_id),
            DETAIL = format('Task %s of kind %s has it.', coalesce(other::text, '(just ended)'), task.kind),
            HINT = 'let that task do the work, or cancel it and retry this one then';
    END;
    IF task.attempted_at IS NOT NULL THEN
        INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
        SELECT
            task.id, task.attempt, task.attempted_by[cardinality(task.attempted_by)], task.attempted_at, task.finalized_at,
            CASE task.state WHEN 'retryable' THEN 'retry' WHEN 'scheduled' THEN 'snooze' WHEN 'available' THEN 'handback' ELSE task.state::text END,
            CASE WHEN (e.last ->> 'attempt') = task.attempt::text AND task.state <> 'completed' THEN e.last ->> 'error' END
        FROM (SELECT task.errors[cardinality(task.errors)] AS last) AS e
        -- Logged already if it had ended in a retry, snooze or hand-back.
        ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO sched.operator_action (action, object_type, object, before)
    VALUES ('retry', 'task', retry.task_id::text, jsonb_build_object('status', task.state));
    IF coalesce((SELECT s.value::boolean FROM sched.setting AS s WHERE s.key = 'notify'), true) THEN
        PERFORM sched.wake_queue(task.queue, task.id);
    END IF;
    RETURN 'available';
END;
$function$;

CREATE OR REPLACE FUNCTION sched.river_job_state_in_bitmask(bitmask bit, state sched.river_job_state)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT CASE state
        WHEN 'available' THEN get_bit(bitmask, 7)
        WHEN 'cancelled' THEN get_bit(bitmask, 6)
        WHEN 'completed' THEN get_bit(bitmask, 5)
        WHEN 'discarded' THEN get_bit(bitmask, 4)
        WHEN 'pending'   THEN get_bit(bitmask, 3)
        WHEN 'retryable' THEN get_bit(bitmask, 2)
        WHEN 'running'   THEN get_bit(bitmask, 1)
        WHEN 'scheduled' THEN get_bit(bitmask, 0)
        ELSE 0
    END = 1;
$function$;

CREATE OR REPLACE FUNCTION sched.run_due_schedule(name text, cron text, timezone text, due timestamp with time zone, next timestamp with time zone, OUT outcome text, OUT task_id bigint)
 RETURNS record
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    s   sched.schedule;
    red record;
BEGIN
    SELECT l.* INTO s FROM sched.schedule AS l
    WHERE l.name = run_due_schedule.name AND l.cron = run_due_schedule.cron AND l.timezone = run_due_schedule.timezone
        AND l.next_run_at = run_due_schedule.due AND NOT l.paused AND l.error IS NULL
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        outcome := 'passed';
        RETURN;
    END IF;
    -- An old level says nothing: nobody leads.
    SELECT q.name, q.pressure_reason INTO red
    FROM sched.queue AS q, sched.fleet AS f
    WHERE q.pressure = 'red' AND f.computed_at > clock_timestamp() - interval '5 seconds'
        AND q.name = (
            SELECT sched.queue_name(
                coalesce(s.queue, max(k.queue), 'default'), coalesce(s.selector, max(k.selector::text)::jsonb, '{}'),
                coalesce(s.protocol, max(k.protocol), 'any'))
            FROM sched.kind AS k WHERE k.kind = s.kind
        );
    IF FOUND THEN
        UPDATE sched.schedule AS w
        SET waiting_since = coalesce(w.waiting_since, clock_timestamp()),
            waiting_reason = format('queue %s is red', red.name) || coalesce(': ' || red.pressure_reason, '')
        WHERE w.name = s.name
            AND w.waiting_reason IS DISTINCT FROM format('queue %s is red', red.name) || coalesce(': ' || red.pressure_reason, '');
        outcome := 'waiting';
        RETURN;
    END IF;
    task_id := sched.schedule_task(s, s.next_run_at);
    UPDATE sched.schedule AS r
    SET next_run_at = run_due_schedule.next, last_due_at = s.next_run_at, last_run_at = clock_timestamp(),
        last_task_id = run_due_schedule.task_id, waiting_since = NULL, waiting_reason = NULL
    WHERE r.name = s.name;
    outcome := 'ran';
END;
$function$;

CREATE OR REPLACE FUNCTION sched.run_schedule(name text)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    s        sched.schedule;
    new_task bigint;
BEGIN
    SELECT l.* INTO s FROM sched.schedule AS l WHERE l.name = run_schedule.name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC404',
            MESSAGE = format('sched.run_schedule: there is no schedule %L', run_schedule.name),
            HINT = 'SELECT name FROM sched.schedule lists them';
    END IF;
    new_task := sched.schedule_task(s, clock_timestamp());
    UPDATE sched.schedule AS r SET last_run_at = clock_timestamp(), last_task_id = new_task WHERE r.name = s.name;
    INSERT INTO sched.operator_action (action, object_type, object, after)
    VALUES ('run', 'schedule', s.name, jsonb_build_object('task_id', new_task));
    RETURN new_task;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.schedule_changed()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    IF (OLD.cron IS DISTINCT FROM NEW.cron OR OLD.timezone IS DISTINCT FROM NEW.timezone) OR NEW.paused OR OLD.paused THEN
        NEW.next_run_at := NULL;
    END IF;
    NEW.error := NULL;
    NEW.waiting_since := NULL;
    NEW.waiting_reason := NULL;
    RETURN NEW;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.schedule_task(schedule sched.schedule, due timestamp with time zone)
 RETURNS bigint
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    RETURN sched.enqueue(
        kind => schedule.kind, args => schedule.args, queue => schedule.queue, priority => schedule.priority::integer,
        selector => schedule.selector, protocol => schedule.protocol, max_attempts => schedule.max_attempts, timeout => schedule.timeout,
        unique_key => CASE WHEN NOT schedule.overlap THEN 'schedule:' || schedule.name END,
        headers => jsonb_build_object(
            'Schedule', schedule.name,
            'Schedule-Due', to_char(schedule_task.due AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')));
END;
$function$;

CREATE OR REPLACE FUNCTION sched.setting_stamp()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    NEW.updated_at := clock_timestamp();
    NEW.updated_by := session_user;
    RETURN NEW;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.task_fault(kind text, args jsonb, queue text, priority integer, run_at timestamp with time zone, selector jsonb, protocol text, unique_key text, max_attempts integer, timeout interval, batch text, headers jsonb)
 RETURNS text[]
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
    control constant text := '[\u0001-\u001f\u007f-\u009f]';
    fault text[];
BEGIN
    IF kind IS NULL OR char_length(kind) NOT BETWEEN 1 AND 127
        OR kind COLLATE "C" !~ '^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.\u00b7:+]*$' THEN
        RETURN ARRAY[
            format('kind %s is not a kind name', coalesce(quote_literal(left(kind, 127)), 'NULL')),
            'name the kind of task, e.g. send_mail: 1 to 127 ASCII letters, digits and _-[]<>/.:+, beginning with a letter, digit or _'];
    END IF;
    IF args IS NULL THEN
        RETURN ARRAY['args is NULL', 'leave args out for an empty object, or pass any JSON value'];
    END IF;
    IF char_length(queue) NOT BETWEEN 1 AND 100 OR queue COLLATE "C" !~ '^[a-z0-9]+(?:[_-][a-z0-9]+)*$' THEN
        RETURN ARRAY[
            format('queue %L is not a queue name', left(queue, 127)),
            'use 1 to 100 lower-case letters and digits, with single _ or - between them, or leave queue out for default'];
    END IF;
    IF priority NOT BETWEEN 1 AND 4 THEN
        RETURN ARRAY[format('priority %s is not between 1 and 4', priority), '1 starts first, 4 last; leave priority out for 1'];
    END IF;
    IF max_attempts NOT BETWEEN 1 AND 32767 THEN
        RETURN ARRAY[format('max_attempts %s is not between 1 and 32767', max_attempts), 'leave max_attempts out for 25'];
    END IF;
    IF protocol NOT IN ('any', 'http', 'grpc', 'exec') THEN
        RETURN ARRAY[format('protocol %L is unknown', left(protocol, 63)), 'use any, http, grpc or exec; leave protocol out for any'];
    END IF;
    IF NOT isfinite(run_at) THEN
        RETURN ARRAY['run_at is infinite', 'pass the time to run at, or leave run_at out to run now'];
    END IF;
    IF timeout <= interval '0' OR timeout > interval '7 days' THEN
        RETURN ARRAY[format('timeout %s is not above zero and up to 7 days', timeout), 'pass an interval such as 30 seconds, or leave timeout out for none'];
    END IF;
    IF char_length(unique_key) NOT BETWEEN 1 AND 255 OR unique_key COLLATE "C" ~ control THEN
        RETURN ARRAY[
            format('unique_key %L is not 1 to 255 characters without control characters', left(unique_key, 63)),
            'pass what makes the task unique among tasks of its kind, e.g. an order number (a hash of it if it is long)'];
    END IF;
    IF char_length(batch) NOT BETWEEN 1 AND 127 OR batch COLLATE "C" ~ control THEN
        RETURN ARRAY[
            format('batch %L is not 1 to 127 characters without control characters', left(batch, 63)),
            'name the batch, or leave batch out'];
    END IF;
    IF selector IS NOT NULL THEN
        fault := sched.pairs_fault('selector', selector, '^[^\u0001-\u001f\u007f-\u009f]+$', 63, 255);
    END IF;
    IF fault IS NULL AND headers IS NOT NULL THEN
        fault := sched.pairs_fault('headers', headers, '^[A-Za-z0-9!#$%&''*+.^_`|~-]+$', 63, 4096);
    END IF;
    RETURN fault;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.unarchive_task(task_id bigint)
 RETURNS bit
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET jit TO 'off'
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION sched.wake_queue(queue text, task_id bigint DEFAULT NULL::bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    wake text[];
BEGIN
    SELECT q.wake INTO wake FROM sched.queue AS q WHERE q.name = wake_queue.queue;
    IF wake IS NULL OR wake <> '{}' THEN
        PERFORM sched.notify_insert(wake_queue.queue, wake, wake_queue.task_id);
    END IF;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.worker_moved()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
    stages constant text[] := ARRAY['pending', 'active', 'draining', 'done'];
BEGIN
    IF OLD.state IN ('done', 'evicted')
        OR (NEW.state <> 'evicted' AND array_position(stages, NEW.state) < array_position(stages, OLD.state)) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'SC409',
            MESSAGE = format('worker %s is %s and cannot become %s', OLD.id, OLD.state, NEW.state),
            DETAIL = 'A worker goes from pending to active, draining and done, or is evicted; it never goes back.',
            HINT = 'A sidecar that has ended or was drained takes tasks again once it is restarted, under a new id.';
    END IF;
    NEW.state_version := greatest(NEW.state_version, OLD.state_version + 1);
    RETURN NEW;
END;
$function$;

CREATE OR REPLACE FUNCTION sched.worker_news()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    PERFORM pg_notify('sched.worker', NEW.id);
    RETURN NULL;
END;
$function$;

-- Indexes

CREATE INDEX assignment_worker_index ON sched.assignment USING btree (worker_id);
CREATE INDEX attempt_log_ended_index ON sched.attempt_log USING btree (ended_at);
CREATE INDEX decision_at_index ON sched.decision USING btree (at);
CREATE INDEX decision_slots_index ON sched.decision USING btree (at) WHERE (what = ANY (ARRAY['slots'::text, 'slots observed'::text]));
CREATE INDEX decision_subject_index ON sched.decision USING btree (subject, at);
CREATE INDEX operator_action_at_index ON sched.operator_action USING btree (at);
CREATE INDEX operator_action_object_index ON sched.operator_action USING btree (object, at);
CREATE INDEX queue_config_xid_index ON sched.queue USING btree (config_xid);
CREATE INDEX river_job_state_and_finalized_at_index ON sched.river_job USING btree (state, finalized_at) WHERE (finalized_at IS NOT NULL);
CREATE UNIQUE INDEX river_job_unique_idx ON sched.river_job USING btree (unique_key) WHERE ((unique_key IS NOT NULL) AND (unique_states IS NOT NULL) AND sched.river_job_state_in_bitmask(unique_states, state));
CREATE INDEX river_notification_created_at_idx ON sched.river_notification USING btree (created_at);
CREATE INDEX river_notification_topic_id_idx ON sched.river_notification USING btree (topic, id);
CREATE INDEX sched_river_job_available ON sched.river_job USING btree (queue, priority, scheduled_at, id) WHERE (state = 'available'::sched.river_job_state);
CREATE INDEX sched_river_job_batch ON sched.river_job USING btree (((metadata ->> 'sched:batch'::text))) WHERE ((metadata ->> 'sched:batch'::text) IS NOT NULL);
CREATE INDEX sched_river_job_due ON sched.river_job USING btree (scheduled_at, id) WHERE (state = ANY (ARRAY['retryable'::sched.river_job_state, 'scheduled'::sched.river_job_state]));
CREATE INDEX sched_river_job_status_start ON sched.river_job USING btree (state, attempted_at);
CREATE INDEX schedule_next_index ON sched.schedule USING btree (next_run_at) WHERE ((NOT paused) AND (error IS NULL));
CREATE INDEX task_archive_again_index ON sched.task_archive USING btree (end_time) WHERE (COALESCE(cardinality(attempted_by), 0) > 1);
CREATE INDEX task_archive_batch_index ON sched.task_archive USING btree (((metadata ->> 'sched:batch'::text))) WHERE ((metadata ->> 'sched:batch'::text) IS NOT NULL);
CREATE INDEX task_archive_end_index ON sched.task_archive USING btree (end_time);
CREATE INDEX task_archive_failed_index ON sched.task_archive USING btree (end_time) WHERE (status <> 'completed'::sched.river_job_state);
CREATE INDEX task_archive_status_start_index ON sched.task_archive USING btree (status, start_time);
CREATE INDEX task_archive_worker_index ON sched.task_archive USING btree (worker_id, start_time);
CREATE INDEX topology_change_at_index ON sched.topology_change USING btree (at);

-- Views

CREATE VIEW sched.task AS
 SELECT j.id,
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
    j.metadata -> 'output'::text AS output,
        CASE
            WHEN j.state <> 'completed'::sched.river_job_state THEN j.errors[cardinality(j.errors)] ->> 'error'::text
            ELSE NULL::text
        END AS error,
        CASE
            WHEN jsonb_typeof(j.metadata -> 'sched:selector'::text) = 'object'::text THEN j.metadata -> 'sched:selector'::text
            ELSE '{}'::jsonb
        END AS selector,
    COALESCE(j.metadata ->> 'sched:protocol'::text, 'any'::text) AS protocol,
    j.metadata ->> 'sched:batch'::text AS batch,
    j.metadata ->> 'sched:key'::text AS unique_key,
        CASE
            WHEN jsonb_typeof(j.metadata -> 'sched:headers'::text) = 'object'::text THEN j.metadata -> 'sched:headers'::text
            ELSE '{}'::jsonb
        END AS headers,
        CASE
            WHEN (j.metadata ->> 'sched:lost'::text) ~ '^[0-9]{1,9}$'::text THEN (j.metadata ->> 'sched:lost'::text)::integer
            ELSE 0
        END AS lost,
        CASE
            WHEN (j.metadata ->> 'snoozes'::text) ~ '^[0-9]{1,9}$'::text THEN (j.metadata ->> 'snoozes'::text)::integer
            ELSE 0
        END AS snoozes,
    j.metadata #>> '{sched:by,user}'::text[] AS enqueued_by,
    NULLIF(j.metadata #>> '{sched:by,app}'::text[], ''::text) AS enqueued_app,
        CASE
            WHEN (j.metadata ->> 'sched:timeout_ms'::text) ~ '^[0-9]{1,12}$'::text THEN ((j.metadata ->> 'sched:timeout_ms'::text)::bigint)::double precision * '00:00:00.001'::interval
            ELSE NULL::interval
        END AS timeout,
    ( SELECT w.hostname
           FROM sched.worker w
          WHERE w.id = j.attempted_by[cardinality(j.attempted_by)]) AS host,
    COALESCE(cardinality(j.attempted_by), 0) AS claims,
    false AS archived
   FROM sched.river_job j
UNION ALL
 SELECT a.id,
    a.kind,
    a.queue,
    a.status,
    a.start_time,
    a.end_time,
    a.worker_id,
    a.attempt::integer AS attempt,
    a.max_attempts::integer AS max_attempts,
    a.priority::integer AS priority,
    a.run_at,
    a.created_at,
    a.args,
    a.metadata -> 'output'::text AS output,
        CASE
            WHEN a.status <> 'completed'::sched.river_job_state THEN a.errors[cardinality(a.errors)] ->> 'error'::text
            ELSE NULL::text
        END AS error,
        CASE
            WHEN jsonb_typeof(a.metadata -> 'sched:selector'::text) = 'object'::text THEN a.metadata -> 'sched:selector'::text
            ELSE '{}'::jsonb
        END AS selector,
    COALESCE(a.metadata ->> 'sched:protocol'::text, 'any'::text) AS protocol,
    a.metadata ->> 'sched:batch'::text AS batch,
    a.metadata ->> 'sched:key'::text AS unique_key,
        CASE
            WHEN jsonb_typeof(a.metadata -> 'sched:headers'::text) = 'object'::text THEN a.metadata -> 'sched:headers'::text
            ELSE '{}'::jsonb
        END AS headers,
        CASE
            WHEN (a.metadata ->> 'sched:lost'::text) ~ '^[0-9]{1,9}$'::text THEN (a.metadata ->> 'sched:lost'::text)::integer
            ELSE 0
        END AS lost,
        CASE
            WHEN (a.metadata ->> 'snoozes'::text) ~ '^[0-9]{1,9}$'::text THEN (a.metadata ->> 'snoozes'::text)::integer
            ELSE 0
        END AS snoozes,
    a.metadata #>> '{sched:by,user}'::text[] AS enqueued_by,
    NULLIF(a.metadata #>> '{sched:by,app}'::text[], ''::text) AS enqueued_app,
        CASE
            WHEN (a.metadata ->> 'sched:timeout_ms'::text) ~ '^[0-9]{1,12}$'::text THEN ((a.metadata ->> 'sched:timeout_ms'::text)::bigint)::double precision * '00:00:00.001'::interval
            ELSE NULL::interval
        END AS timeout,
    a.host,
    COALESCE(cardinality(a.attempted_by), 0) AS claims,
    true AS archived
   FROM sched.task_archive a;

CREATE VIEW sched.attempt AS
 SELECT l.task_id,
    l.attempt::integer AS attempt,
    l.worker_id,
    l.started_at AS start_time,
    l.ended_at AS end_time,
    l.outcome,
    l.error,
    l.skipped,
    ( SELECT w.hostname
           FROM sched.worker w
          WHERE w.id = l.worker_id) AS host
   FROM sched.attempt_log l
UNION ALL
 SELECT j.id AS task_id,
    j.attempt::integer AS attempt,
    j.attempted_by[cardinality(j.attempted_by)] AS worker_id,
    j.attempted_at AS start_time,
    j.finalized_at AS end_time,
        CASE j.state
            WHEN 'running'::sched.river_job_state THEN NULL::text
            WHEN 'retryable'::sched.river_job_state THEN 'retry'::text
            WHEN 'scheduled'::sched.river_job_state THEN 'snooze'::text
            WHEN 'available'::sched.river_job_state THEN 'handback'::text
            ELSE j.state::text
        END AS outcome,
        CASE
            WHEN j.state <> 'completed'::sched.river_job_state AND (j.errors[cardinality(j.errors)] ->> 'attempt'::text) = j.attempt::text THEN j.errors[cardinality(j.errors)] ->> 'error'::text
            ELSE NULL::text
        END AS error,
    0 AS skipped,
    ( SELECT w.hostname
           FROM sched.worker w
          WHERE w.id = j.attempted_by[cardinality(j.attempted_by)]) AS host
   FROM sched.river_job j
  WHERE j.attempted_at IS NOT NULL AND NOT (EXISTS ( SELECT
           FROM sched.attempt_log l
          WHERE l.task_id = j.id AND l.started_at = j.attempted_at))
UNION ALL
 SELECT a.id AS task_id,
    a.attempt::integer AS attempt,
    a.worker_id,
    a.start_time,
    a.end_time,
    a.status::text AS outcome,
        CASE
            WHEN a.status <> 'completed'::sched.river_job_state AND (a.errors[cardinality(a.errors)] ->> 'attempt'::text) = a.attempt::text THEN a.errors[cardinality(a.errors)] ->> 'error'::text
            ELSE NULL::text
        END AS error,
    0 AS skipped,
    a.host
   FROM sched.task_archive a
  WHERE a.start_time IS NOT NULL AND NOT a.last_logged
UNION ALL
 SELECT a.id AS task_id,
    e.attempt,
    e.worker_id,
    e.started_at AS start_time,
    e.ended_at AS end_time,
    e.outcome,
    e.error,
    COALESCE(e.skipped, 0) AS skipped,
    e.host
   FROM sched.task_archive a
     CROSS JOIN LATERAL jsonb_to_recordset(a.attempts) e(attempt integer, worker_id text, started_at timestamp with time zone, ended_at timestamp with time zone, outcome text, error text, skipped integer, host text)
  WHERE a.attempts IS NOT NULL;

CREATE VIEW sched.batch AS
 SELECT b.batch,
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
    ((b.completed + b.cancelled + b.discarded)::double precision / b.total::double precision)::real AS progress,
    b.first_created,
    b.last_ended
   FROM ( SELECT u.batch,
            count(*) AS total,
            count(*) FILTER (WHERE u.state = 'available'::sched.river_job_state) AS available,
            count(*) FILTER (WHERE u.state = 'scheduled'::sched.river_job_state) AS scheduled,
            count(*) FILTER (WHERE u.state = 'running'::sched.river_job_state) AS running,
            count(*) FILTER (WHERE u.state = 'retryable'::sched.river_job_state) AS retryable,
            count(*) FILTER (WHERE u.state = 'pending'::sched.river_job_state) AS pending,
            count(*) FILTER (WHERE u.state = 'completed'::sched.river_job_state) AS completed,
            count(*) FILTER (WHERE u.state = 'cancelled'::sched.river_job_state) AS cancelled,
            count(*) FILTER (WHERE u.state = 'discarded'::sched.river_job_state) AS discarded,
            min(u.created_at) AS first_created,
            max(u.finalized_at) AS last_ended
           FROM ( SELECT j.metadata ->> 'sched:batch'::text AS batch,
                    j.state,
                    j.created_at,
                    j.finalized_at
                   FROM sched.river_job j
                UNION ALL
                 SELECT a.metadata ->> 'sched:batch'::text,
                    a.status,
                    a.created_at,
                    a.end_time
                   FROM sched.task_archive a) u
          WHERE u.batch IS NOT NULL
          GROUP BY u.batch) b;

CREATE VIEW sched.decisions AS
 SELECT d.id,
    d.at,
    d.what,
    d.subject,
    d.who,
    d.from_value,
    d.to_value,
    d.reason,
    d.signals
   FROM sched.decision d;

CREATE VIEW sched.operator_actions AS
 SELECT a.id,
    a.at,
    a.action,
    a.object_type,
    a.object,
    a.before,
    a.after,
    a.db_user,
    a.application_name
   FROM sched.operator_action a;

CREATE VIEW sched.assignments AS
 SELECT a.queue,
    a.worker_id,
    w.hostname,
    a.weight,
    a.reason,
    a.version,
    a.updated_at,
    w.state,
    w.health,
    w.running,
    w.slots,
    w.ceiling
   FROM sched.assignment a
     LEFT JOIN sched.worker w ON w.id = a.worker_id;

CREATE VIEW sched.topology AS
 SELECT s.version,
    s.taken_at,
    s.sha256,
    w.key AS worker_id,
    w.value AS entry
   FROM ( SELECT t.version,
            t.taken_at,
            t.taken_at_ns,
            t.sha256,
            t.reason,
            t.topology
           FROM sched.topology_snapshot t
          ORDER BY t.version DESC
         LIMIT 1) s
     CROSS JOIN LATERAL jsonb_each(s.topology) w(key, value);

CREATE VIEW sched.queues AS
 SELECT q.name,
    q.base,
    q.selector,
    q.protocol,
    q.description,
    r.paused_at,
    q.strategy,
    q.admission,
    q.max_pending,
    q.max_running,
    q.rate,
    q.burst,
    q.pinned,
        CASE
            WHEN f.led THEN q.pressure
            ELSE 'green'::text
        END AS pressure,
        CASE
            WHEN f.led THEN q.pressure_reason
            ELSE NULL::text
        END AS pressure_reason,
    q.pending,
    q.load,
    q.workers,
    q.free_slots,
    q.unroutable,
    q.state_at
   FROM sched.queue q
     CROSS JOIN ( SELECT COALESCE(l.computed_at > (clock_timestamp() - '00:00:05'::interval), false) AS led
           FROM sched.fleet l) f
     LEFT JOIN sched.river_queue r ON r.name = q.name;

CREATE VIEW sched.workers AS
 SELECT w.id,
    w.hostname,
    w.version,
    w.app_url,
    w.labels,
    w.queues,
    w.kinds,
    w.protocols,
    w.state,
    w.health,
    w.running,
    w.slots,
    w.ceiling,
    w.cpu,
    w.mem,
    w.load_percent,
    w.rtt_ms,
    w.started_at,
    w.heartbeat_at,
    w.ended_at,
    w.reason
   FROM sched.worker w;

CREATE VIEW sched.waiting AS
 SELECT j.id,
    j.kind,
    j.queue,
    j.priority,
    j.scheduled_at AS run_at,
    j.created_at,
    j.metadata #>> '{sched:by,user}'::text[] AS enqueued_by,
    NULLIF(j.metadata #>> '{sched:by,app}'::text[], ''::text) AS enqueued_app
   FROM sched.river_job j
  WHERE j.state = 'available'::sched.river_job_state;

CREATE VIEW sched.fleet_demand AS
 WITH live AS (
         SELECT w.state = 'draining'::text AS draining,
            w.running,
            w.slots,
            w.ceiling,
            w.scale_out,
            w.arrivals,
            w.forecast,
            COALESCE(w.demand, w.running::real) AS demand,
            GREATEST(
                CASE
                    WHEN w.scale_out THEN w.slots
                    ELSE w.ceiling
                END, 1) AS room
           FROM sched.worker w
          WHERE (w.state = ANY (ARRAY['pending'::text, 'active'::text, 'draining'::text])) AND w.heartbeat_at > (statement_timestamp() - '00:01:30'::interval)
        ), total AS (
         SELECT count(*) FILTER (WHERE NOT l.draining)::integer AS workers,
            count(*) FILTER (WHERE l.draining AND l.running > 0)::integer AS draining,
            count(*) FILTER (WHERE l.scale_out AND NOT l.draining)::integer AS scale_out,
            COALESCE(sum(l.demand) FILTER (WHERE NOT l.draining), 0::real) AS demand,
            COALESCE(sum(l.arrivals) FILTER (WHERE NOT l.draining), 0::real) AS arrivals,
            COALESCE(sum(l.forecast) FILTER (WHERE NOT l.draining), 0::real) AS forecast,
            COALESCE(sum(l.running) FILTER (WHERE NOT l.draining), 0::bigint)::integer AS running,
            COALESCE(sum(l.slots) FILTER (WHERE NOT l.draining), 0::bigint)::integer AS slots,
            COALESCE(sum(l.ceiling) FILTER (WHERE NOT l.draining), 0::bigint)::integer AS ceiling,
            COALESCE(avg(l.room) FILTER (WHERE NOT l.draining), 1::numeric)::double precision AS room,
            COALESCE(sum(
                CASE
                    WHEN l.scale_out THEN GREATEST(l.slots, 1)::real
                    ELSE LEAST(GREATEST(l.demand, l.running::real), l.room::real)
                END) FILTER (WHERE NOT l.draining), 0::real)::double precision AS filled
           FROM live l
        ), need AS (
         SELECT t.workers,
            t.draining,
            t.scale_out,
            t.demand,
            t.arrivals,
            t.forecast,
            t.running,
            t.slots,
            t.ceiling,
            t.room,
            t.filled,
            ceil(t.demand / (0.8::double precision * t.room))::integer AS by_demand,
            ceil(t.running::double precision / t.room)::integer AS by_running,
                CASE
                    WHEN t.scale_out > 0 THEN GREATEST(t.workers, ceil(t.filled / (0.8::double precision * t.room))::integer)
                    ELSE 0
                END AS by_score,
                CASE
                    WHEN t.workers > 0 THEN 0
                    WHEN (EXISTS ( WITH RECURSIVE waiting AS (
                            ( SELECT j.queue
                               FROM sched.river_job j
                              WHERE j.state = 'available'::sched.river_job_state
                              ORDER BY j.queue
                             LIMIT 1)
                            UNION ALL
                             SELECT ( SELECT j.queue
                                       FROM sched.river_job j
                                      WHERE j.state = 'available'::sched.river_job_state AND j.queue > w_1.queue
                                      ORDER BY j.queue
                                     LIMIT 1) AS queue
                               FROM waiting w_1
                              WHERE w_1.queue IS NOT NULL
                            )
                     SELECT
                       FROM waiting w
                      WHERE NOT (EXISTS ( SELECT
                               FROM sched.river_queue p
                              WHERE p.name = w.queue AND p.paused_at IS NOT NULL)) AND (EXISTS ( SELECT
                               FROM sched.river_job j
                              WHERE j.queue = w.queue AND j.state = 'available'::sched.river_job_state AND j.scheduled_at <= statement_timestamp())))) THEN 1
                    WHEN (EXISTS ( SELECT
                       FROM ( SELECT j.queue
                               FROM sched.river_job j
                              WHERE (j.state = ANY (ARRAY['retryable'::sched.river_job_state, 'scheduled'::sched.river_job_state])) AND j.scheduled_at <= statement_timestamp()
                              ORDER BY j.scheduled_at, j.id
                             LIMIT 20000) due
                      WHERE NOT (EXISTS ( SELECT
                               FROM sched.river_queue p
                              WHERE p.name = due.queue AND p.paused_at IS NOT NULL)))) THEN 1
                    ELSE 0
                END AS by_waiting
           FROM total t
        )
 SELECT GREATEST(n.by_demand, n.by_running, n.by_score, n.by_waiting) + n.draining AS desired_workers,
        CASE GREATEST(n.by_demand, n.by_running, n.by_score, n.by_waiting)
            WHEN 0 THEN 'nothing to do'::text
            WHEN n.by_running THEN 'what runs needs them'::text
            WHEN n.by_demand THEN 'what arrives and waits needs them'::text
            WHEN n.by_score THEN 'workers have no cpu or memory left'::text
            ELSE 'a task waits and nobody works'::text
        END AS reason,
    n.workers,
    n.draining,
    n.scale_out,
    n.demand,
    n.arrivals,
    n.forecast,
    n.running,
    n.slots,
    n.ceiling
   FROM need n;

-- Triggers

CREATE TRIGGER attempt_log_bound AFTER INSERT ON sched.attempt_log FOR EACH ROW EXECUTE FUNCTION sched.attempt_log_bound();
CREATE TRIGGER canary_config AFTER UPDATE OF percent, workers ON sched.canary FOR EACH ROW WHEN (old.percent <> new.percent OR (old.workers = 0) <> (new.workers = 0)) EXECUTE FUNCTION sched.config_change();
CREATE TRIGGER canary_operator_delete AFTER DELETE ON sched.canary FOR EACH ROW EXECUTE FUNCTION sched.operator_change('canary', 'queue', 'percent,state,steps,hold,max_p95_ms,max_error_points,max_cpu_points,abort_error_percent');
CREATE TRIGGER canary_operator_insert AFTER INSERT ON sched.canary FOR EACH ROW EXECUTE FUNCTION sched.operator_change('canary', 'queue', 'percent,state,steps,hold,max_p95_ms,max_error_points,max_cpu_points,abort_error_percent');
CREATE TRIGGER canary_operator_update AFTER UPDATE OF percent, state, steps, hold, max_p95_ms, max_error_points, max_cpu_points, abort_error_percent ON sched.canary FOR EACH ROW WHEN ((old.percent IS DISTINCT FROM new.percent OR old.state IS DISTINCT FROM new.state OR old.steps IS DISTINCT FROM new.steps OR old.hold IS DISTINCT FROM new.hold OR old.max_p95_ms IS DISTINCT FROM new.max_p95_ms OR old.max_error_points IS DISTINCT FROM new.max_error_points OR old.max_cpu_points IS DISTINCT FROM new.max_cpu_points OR old.abort_error_percent IS DISTINCT FROM new.abort_error_percent) AND NOT (new.step_at IS DISTINCT FROM old.step_at AND old.state = 'rising'::text AND (new.state = ANY (ARRAY['rising'::text, 'full'::text, 'rolled_back'::text])) AND NOT (old.steps IS DISTINCT FROM new.steps OR old.hold IS DISTINCT FROM new.hold OR old.max_p95_ms IS DISTINCT FROM new.max_p95_ms OR old.max_error_points IS DISTINCT FROM new.max_error_points OR old.max_cpu_points IS DISTINCT FROM new.max_cpu_points OR old.abort_error_percent IS DISTINCT FROM new.abort_error_percent))) EXECUTE FUNCTION sched.operator_change('canary', 'queue', 'percent,state,steps,hold,max_p95_ms,max_error_points,max_cpu_points,abort_error_percent');
CREATE TRIGGER flow_config_insert AFTER INSERT ON sched.flow FOR EACH ROW WHEN (new.paused_until IS NOT NULL) EXECUTE FUNCTION sched.config_change();
CREATE TRIGGER flow_config_update AFTER UPDATE OF paused_until ON sched.flow FOR EACH ROW WHEN (old.paused_until IS DISTINCT FROM new.paused_until) EXECUTE FUNCTION sched.config_change();
CREATE TRIGGER kind_operator_delete AFTER DELETE ON sched.kind FOR EACH ROW EXECUTE FUNCTION sched.operator_change('kind', 'kind', 'description,queue,selector,protocol,priority,timeout,max_attempts,retry_base,retry_factor,retry_cap,retry_jitter,rate,burst,pinned');
CREATE TRIGGER kind_operator_insert AFTER INSERT ON sched.kind FOR EACH ROW EXECUTE FUNCTION sched.operator_change('kind', 'kind', 'description,queue,selector,protocol,priority,timeout,max_attempts,retry_base,retry_factor,retry_cap,retry_jitter,rate,burst,pinned');
CREATE TRIGGER kind_operator_update AFTER UPDATE OF description, queue, selector, protocol, priority, timeout, max_attempts, retry_base, retry_factor, retry_cap, retry_jitter, rate, burst, pinned ON sched.kind FOR EACH ROW WHEN (old.description IS DISTINCT FROM new.description OR old.queue IS DISTINCT FROM new.queue OR old.selector IS DISTINCT FROM new.selector OR old.protocol IS DISTINCT FROM new.protocol OR old.priority IS DISTINCT FROM new.priority OR old.timeout IS DISTINCT FROM new.timeout OR old.max_attempts IS DISTINCT FROM new.max_attempts OR old.retry_base IS DISTINCT FROM new.retry_base OR old.retry_factor IS DISTINCT FROM new.retry_factor OR old.retry_cap IS DISTINCT FROM new.retry_cap OR old.retry_jitter IS DISTINCT FROM new.retry_jitter OR old.rate IS DISTINCT FROM new.rate OR old.burst IS DISTINCT FROM new.burst OR old.pinned IS DISTINCT FROM new.pinned) EXECUTE FUNCTION sched.operator_change('kind', 'kind', 'description,queue,selector,protocol,priority,timeout,max_attempts,retry_base,retry_factor,retry_cap,retry_jitter,rate,burst,pinned');
CREATE TRIGGER kind_stamp BEFORE INSERT OR UPDATE ON sched.kind FOR EACH ROW EXECUTE FUNCTION sched.setting_stamp();
CREATE CONSTRAINT TRIGGER queue_limit_moved AFTER UPDATE OF max_running ON sched.queue DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (old.max_running IS DISTINCT FROM new.max_running) EXECUTE FUNCTION sched.limit_moved();
CREATE TRIGGER queue_operator_delete AFTER DELETE ON sched.queue FOR EACH ROW EXECUTE FUNCTION sched.operator_change('queue', 'name', 'description,strategy,admission,max_pending,max_running,rate,burst,pinned');
CREATE TRIGGER queue_operator_insert AFTER INSERT ON sched.queue FOR EACH ROW WHEN (num_nonnulls(new.description, new.max_pending, new.max_running, new.rate, new.burst) > 0 OR new.strategy <> 'least_loaded'::text OR new.admission <> 'accept'::text OR new.pinned) EXECUTE FUNCTION sched.operator_change('queue', 'name', 'description,strategy,admission,max_pending,max_running,rate,burst,pinned');
CREATE TRIGGER queue_operator_update AFTER UPDATE OF description, strategy, admission, max_pending, max_running, rate, burst, pinned ON sched.queue FOR EACH ROW WHEN (old.description IS DISTINCT FROM new.description OR old.strategy IS DISTINCT FROM new.strategy OR old.admission IS DISTINCT FROM new.admission OR old.max_pending IS DISTINCT FROM new.max_pending OR old.max_running IS DISTINCT FROM new.max_running OR old.rate IS DISTINCT FROM new.rate OR old.burst IS DISTINCT FROM new.burst OR old.pinned IS DISTINCT FROM new.pinned) EXECUTE FUNCTION sched.operator_change('queue', 'name', 'description,strategy,admission,max_pending,max_running,rate,burst,pinned');
CREATE TRIGGER queue_reconfigured BEFORE UPDATE OF base, selector, protocol, strategy, max_pending ON sched.queue FOR EACH ROW WHEN (old.base IS DISTINCT FROM new.base OR old.selector IS DISTINCT FROM new.selector OR old.protocol IS DISTINCT FROM new.protocol OR old.strategy IS DISTINCT FROM new.strategy OR old.max_pending IS DISTINCT FROM new.max_pending) EXECUTE FUNCTION sched.queue_reconfigured();
CREATE TRIGGER river_queue_operator_delete AFTER DELETE ON sched.river_queue FOR EACH ROW WHEN (old.paused_at IS NOT NULL) EXECUTE FUNCTION sched.operator_change('queue', 'name', 'paused_at');
CREATE TRIGGER river_queue_operator_insert AFTER INSERT ON sched.river_queue FOR EACH ROW WHEN (new.paused_at IS NOT NULL) EXECUTE FUNCTION sched.operator_change('queue', 'name', 'paused_at');
CREATE TRIGGER river_queue_operator_update AFTER UPDATE OF paused_at ON sched.river_queue FOR EACH ROW WHEN (old.paused_at IS DISTINCT FROM new.paused_at) EXECUTE FUNCTION sched.operator_change('queue', 'name', 'paused_at');
CREATE TRIGGER schedule_changed BEFORE UPDATE OF description, cron, timezone, kind, args, queue, selector, protocol, priority, timeout, max_attempts, overlap, paused, pinned ON sched.schedule FOR EACH ROW WHEN (old.description IS DISTINCT FROM new.description OR old.cron IS DISTINCT FROM new.cron OR old.timezone IS DISTINCT FROM new.timezone OR old.kind IS DISTINCT FROM new.kind OR old.args IS DISTINCT FROM new.args OR old.queue IS DISTINCT FROM new.queue OR old.selector IS DISTINCT FROM new.selector OR old.protocol IS DISTINCT FROM new.protocol OR old.priority IS DISTINCT FROM new.priority OR old.timeout IS DISTINCT FROM new.timeout OR old.max_attempts IS DISTINCT FROM new.max_attempts OR old.overlap IS DISTINCT FROM new.overlap OR old.paused IS DISTINCT FROM new.paused OR old.pinned IS DISTINCT FROM new.pinned) EXECUTE FUNCTION sched.schedule_changed();
CREATE TRIGGER schedule_operator_delete AFTER DELETE ON sched.schedule FOR EACH ROW EXECUTE FUNCTION sched.operator_change('schedule', 'name', 'description,cron,timezone,kind,args,queue,selector,protocol,priority,timeout,max_attempts,overlap,paused,pinned');
CREATE TRIGGER schedule_operator_insert AFTER INSERT ON sched.schedule FOR EACH ROW EXECUTE FUNCTION sched.operator_change('schedule', 'name', 'description,cron,timezone,kind,args,queue,selector,protocol,priority,timeout,max_attempts,overlap,paused,pinned');
CREATE TRIGGER schedule_operator_update AFTER UPDATE OF description, cron, timezone, kind, args, queue, selector, protocol, priority, timeout, max_attempts, overlap, paused, pinned ON sched.schedule FOR EACH ROW WHEN (old.description IS DISTINCT FROM new.description OR old.cron IS DISTINCT FROM new.cron OR old.timezone IS DISTINCT FROM new.timezone OR old.kind IS DISTINCT FROM new.kind OR old.args IS DISTINCT FROM new.args OR old.queue IS DISTINCT FROM new.queue OR old.selector IS DISTINCT FROM new.selector OR old.protocol IS DISTINCT FROM new.protocol OR old.priority IS DISTINCT FROM new.priority OR old.timeout IS DISTINCT FROM new.timeout OR old.max_attempts IS DISTINCT FROM new.max_attempts OR old.overlap IS DISTINCT FROM new.overlap OR old.paused IS DISTINCT FROM new.paused OR old.pinned IS DISTINCT FROM new.pinned) EXECUTE FUNCTION sched.operator_change('schedule', 'name', 'description,cron,timezone,kind,args,queue,selector,protocol,priority,timeout,max_attempts,overlap,paused,pinned');
CREATE TRIGGER schedule_stamp BEFORE INSERT OR UPDATE OF description, cron, timezone, kind, args, queue, selector, protocol, priority, timeout, max_attempts, overlap, paused, pinned ON sched.schedule FOR EACH ROW EXECUTE FUNCTION sched.setting_stamp();
CREATE TRIGGER setting_operator_delete AFTER DELETE ON sched.setting FOR EACH ROW EXECUTE FUNCTION sched.operator_change('setting', 'key', 'value,pinned');
CREATE TRIGGER setting_operator_insert AFTER INSERT ON sched.setting FOR EACH ROW EXECUTE FUNCTION sched.operator_change('setting', 'key', 'value,pinned');
CREATE TRIGGER setting_operator_update AFTER UPDATE OF value, pinned ON sched.setting FOR EACH ROW WHEN (old.value IS DISTINCT FROM new.value OR old.pinned IS DISTINCT FROM new.pinned) EXECUTE FUNCTION sched.operator_change('setting', 'key', 'value,pinned');
CREATE TRIGGER setting_stamp BEFORE UPDATE ON sched.setting FOR EACH ROW EXECUTE FUNCTION sched.setting_stamp();
CREATE TRIGGER worker_moved BEFORE UPDATE OF state ON sched.worker FOR EACH ROW WHEN (old.state IS DISTINCT FROM new.state) EXECUTE FUNCTION sched.worker_moved();
CREATE TRIGGER worker_news AFTER UPDATE OF state, labels ON sched.worker FOR EACH ROW WHEN (old.state IS DISTINCT FROM new.state OR old.labels IS DISTINCT FROM new.labels) EXECUTE FUNCTION sched.worker_news();

-- Comments

COMMENT ON SCHEMA sched IS 'Job queue: its tables, the SQL API (sched.enqueue and others) and the views task, attempt and batch.';
COMMENT ON TYPE sched.new_task IS 'Internal: what a task''s arguments come to. Either fault (message and hint) or the columns of its row.';
COMMENT ON TYPE sched.river_job_state IS 'Status of a task.';
COMMENT ON TABLE sched.assignment IS 'Who serves which queue, and how much of it: the answer of the routing layer, written by the leader.';
COMMENT ON COLUMN sched.assignment.queue IS 'Queue.';
COMMENT ON COLUMN sched.assignment.worker_id IS 'Worker that serves it.';
COMMENT ON COLUMN sched.assignment.weight IS 'Its share among the queue''s workers, above 0: with least_loaded its slots (half of them while it is strained), with round_robin the same for all.';
COMMENT ON COLUMN sched.assignment.reason IS 'Why it serves the queue, and with this weight, in words.';
COMMENT ON COLUMN sched.assignment.version IS 'Version of the topology at which the row became what it is.';
COMMENT ON COLUMN sched.assignment.updated_at IS 'When that was.';
COMMENT ON INDEX sched.assignment_worker_index IS 'What a worker serves.';
COMMENT ON VIEW sched.assignments IS 'Who serves which queue, and how much of it.';
COMMENT ON COLUMN sched.assignments.queue IS 'Queue.';
COMMENT ON COLUMN sched.assignments.worker_id IS 'Worker that serves it.';
COMMENT ON COLUMN sched.assignments.hostname IS 'Its machine.';
COMMENT ON COLUMN sched.assignments.weight IS 'Its share among the queue''s workers.';
COMMENT ON COLUMN sched.assignments.reason IS 'Why it serves the queue, and with this weight, in words.';
COMMENT ON COLUMN sched.assignments.version IS 'Version of the topology at which this became so.';
COMMENT ON COLUMN sched.assignments.updated_at IS 'When that was.';
COMMENT ON COLUMN sched.assignments.state IS 'State of the worker.';
COMMENT ON COLUMN sched.assignments.health IS 'Its health: good, strained or overloaded.';
COMMENT ON COLUMN sched.assignments.running IS 'Tasks that it runs.';
COMMENT ON COLUMN sched.assignments.slots IS 'Tasks that it may run at once now.';
COMMENT ON COLUMN sched.assignments.ceiling IS 'Tasks that it may run at once at most.';
COMMENT ON VIEW sched.attempt IS 'Every attempt of every task, archived or not: earlier ones from the log, the latest from the task itself. By task_id it reads primary keys.';
COMMENT ON COLUMN sched.attempt.task_id IS 'Id of the task.';
COMMENT ON COLUMN sched.attempt.attempt IS 'Number of the attempt, from 1; one that a snooze or hand-back ended is counted again.';
COMMENT ON COLUMN sched.attempt.worker_id IS 'Worker that held the task; see sched.worker.';
COMMENT ON COLUMN sched.attempt.start_time IS 'When it was claimed.';
COMMENT ON COLUMN sched.attempt.end_time IS 'When it was settled; NULL while it runs.';
COMMENT ON COLUMN sched.attempt.outcome IS 'retry, snooze, handback, rescued, completed, cancelled or discarded; NULL while it runs.';
COMMENT ON COLUMN sched.attempt.error IS 'What went wrong, if anything did.';
COMMENT ON COLUMN sched.attempt.skipped IS 'Attempts between the one before and this one that were not kept: of a task with more than 100, the first and the last 50 are.';
COMMENT ON COLUMN sched.attempt.host IS 'Machine of that worker; NULL if it is not known any more.';
COMMENT ON TABLE sched.attempt_log IS 'Attempts that were not the last of their task; the last one is in the task''s own row. Read it through sched.attempt.';
COMMENT ON COLUMN sched.attempt_log.task_id IS 'Id of the task. No foreign key: tasks are deleted before their log is swept.';
COMMENT ON COLUMN sched.attempt_log.attempt IS 'Number of the attempt, from 1; a snooze or hand-back does not spend it, so a number can occur again.';
COMMENT ON COLUMN sched.attempt_log.worker_id IS 'Worker that held the task.';
COMMENT ON COLUMN sched.attempt_log.started_at IS 'When the task was claimed (attempted_at).';
COMMENT ON COLUMN sched.attempt_log.ended_at IS 'When the attempt was settled.';
COMMENT ON COLUMN sched.attempt_log.outcome IS 'retry, snooze, handback or rescued; completed, cancelled or discarded when somebody ran an ended task again with sched.retry.';
COMMENT ON COLUMN sched.attempt_log.error IS 'What went wrong, if anything did.';
COMMENT ON COLUMN sched.attempt_log.skipped IS 'Attempts between the one before and this one that were left out: of a task with more than 100, the first and the last 50 are kept.';
COMMENT ON INDEX sched.attempt_log_ended_index IS 'Attempts that are old, or ended in a span of time.';
COMMENT ON VIEW sched.batch IS 'Progress of each batch, its archived tasks included. batch = ... is served by an index.';
COMMENT ON COLUMN sched.batch.batch IS 'Name of the batch.';
COMMENT ON COLUMN sched.batch.total IS 'Tasks in it.';
COMMENT ON COLUMN sched.batch.available IS 'Tasks that wait for a worker.';
COMMENT ON COLUMN sched.batch.scheduled IS 'Tasks that wait for their time.';
COMMENT ON COLUMN sched.batch.running IS 'Tasks that run.';
COMMENT ON COLUMN sched.batch.retryable IS 'Tasks that failed and wait for their next attempt.';
COMMENT ON COLUMN sched.batch.pending IS 'Tasks that a River client holds back.';
COMMENT ON COLUMN sched.batch.completed IS 'Tasks that ended well.';
COMMENT ON COLUMN sched.batch.cancelled IS 'Tasks that were cancelled.';
COMMENT ON COLUMN sched.batch.discarded IS 'Tasks that failed for good.';
COMMENT ON COLUMN sched.batch.finished IS 'Tasks that ended: completed, cancelled or discarded.';
COMMENT ON COLUMN sched.batch.progress IS 'finished / total, 0 to 1.';
COMMENT ON COLUMN sched.batch.first_created IS 'When its first task was enqueued.';
COMMENT ON COLUMN sched.batch.last_ended IS 'When a task of it last ended; NULL before the first.';
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
COMMENT ON TABLE sched.contract IS 'One row: the version of the contract between this schema and the programs on it. A program refuses to start outside its own range.';
COMMENT ON COLUMN sched.contract.singleton IS 'Always true: keeps the table at one row.';
COMMENT ON COLUMN sched.contract.version IS 'Raised by a migration that changes what programs may rely on.';
COMMENT ON COLUMN sched.contract.updated_at IS 'When the version last changed.';
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
COMMENT ON INDEX sched.decision_at_index IS 'Decisions of a time, and what is old.';
COMMENT ON INDEX sched.decision_slots_index IS 'What moved slots, among all the other decisions of a time.';
COMMENT ON INDEX sched.decision_subject_index IS 'Decisions about one subject.';
COMMENT ON VIEW sched.decisions IS 'What sched decided by itself, and why; kept for the setting decision_keep_days.';
COMMENT ON COLUMN sched.decisions.id IS 'Counts up.';
COMMENT ON COLUMN sched.decisions.at IS 'When.';
COMMENT ON COLUMN sched.decisions.what IS 'Kind of decision: assignment, pressure, health, evict, canary, slots, pause, unroutable, topology.';
COMMENT ON COLUMN sched.decisions.subject IS 'What it is about: a queue, worker or kind; or fleet.';
COMMENT ON COLUMN sched.decisions.who IS 'Worker that decided.';
COMMENT ON COLUMN sched.decisions.from_value IS 'What was.';
COMMENT ON COLUMN sched.decisions.to_value IS 'What is since.';
COMMENT ON COLUMN sched.decisions.reason IS 'Why, in words.';
COMMENT ON COLUMN sched.decisions.signals IS 'The measures it was made from.';
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
COMMENT ON VIEW sched.fleet_demand IS 'How many workers the fleet needs, by what they published: one row, for autoscalers.';
COMMENT ON COLUMN sched.fleet_demand.desired_workers IS 'Workers that there should be: as many as demand fills to 80 %; while one has no cpu or memory left and should have more slots, as many as what they hold fills to 80 %, and no fewer than there are; never fewer than what runs needs; and those that drain until they are done.';
COMMENT ON COLUMN sched.fleet_demand.reason IS 'What decided, in words.';
COMMENT ON COLUMN sched.fleet_demand.workers IS 'Workers there are, without those that drain.';
COMMENT ON COLUMN sched.fleet_demand.draining IS 'Workers that drain and still run something.';
COMMENT ON COLUMN sched.fleet_demand.scale_out IS 'Workers that should have more slots and have no cpu or memory for them.';
COMMENT ON COLUMN sched.fleet_demand.demand IS 'Slots that what arrives and waits takes; of workers that don''t measure it, what they run.';
COMMENT ON COLUMN sched.fleet_demand.arrivals IS 'Tasks a second that came due.';
COMMENT ON COLUMN sched.fleet_demand.forecast IS 'Tasks a second that are expected.';
COMMENT ON COLUMN sched.fleet_demand.running IS 'Tasks that run.';
COMMENT ON COLUMN sched.fleet_demand.slots IS 'Tasks that may run at once now.';
COMMENT ON COLUMN sched.fleet_demand.ceiling IS 'Tasks that may run at once at most.';
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
COMMENT ON TABLE sched.goose_db_version IS 'Migrations of this schema that were applied.';
COMMENT ON COLUMN sched.goose_db_version.id IS 'Order in which they were.';
COMMENT ON COLUMN sched.goose_db_version.version_id IS 'Number of the migration.';
COMMENT ON COLUMN sched.goose_db_version.is_applied IS 'Always true.';
COMMENT ON COLUMN sched.goose_db_version.tstamp IS 'When, in UTC.';
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
COMMENT ON COLUMN sched.kind.rate IS 'Most tasks of it that are claimed a second in the whole fleet, 0.001 to 1000000. NULL: no limit.';
COMMENT ON COLUMN sched.kind.burst IS 'Tasks that may be claimed at once after a pause, above rate; 1 to 1000000. NULL: a twentieth of a second of rate, at least 1.';
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
COMMENT ON INDEX sched.operator_action_at_index IS 'Interventions of a time, and what is old.';
COMMENT ON INDEX sched.operator_action_object_index IS 'Interventions on one object.';
COMMENT ON VIEW sched.operator_actions IS 'Who intervened, by whatever means; kept for the setting operator_action_keep_days.';
COMMENT ON COLUMN sched.operator_actions.id IS 'Counts up.';
COMMENT ON COLUMN sched.operator_actions.at IS 'When.';
COMMENT ON COLUMN sched.operator_actions.action IS 'What was done: insert, update, delete, pause, resume, cancel, retry, drain.';
COMMENT ON COLUMN sched.operator_actions.object_type IS 'To what: setting, kind, queue, canary, schedule, task or worker.';
COMMENT ON COLUMN sched.operator_actions.object IS 'Its name or id.';
COMMENT ON COLUMN sched.operator_actions.before IS 'What changed, before it.';
COMMENT ON COLUMN sched.operator_actions.after IS 'What changed, after it.';
COMMENT ON COLUMN sched.operator_actions.db_user IS 'Login role.';
COMMENT ON COLUMN sched.operator_actions.application_name IS 'Its application_name.';
COMMENT ON TABLE sched.queue IS 'One row per queue that ever held a task: what a worker must offer to serve it.';
COMMENT ON COLUMN sched.queue.name IS 'Name as in river_job.queue: sched.queue_name(base, selector, protocol).';
COMMENT ON COLUMN sched.queue.base IS 'Name that enqueue was given.';
COMMENT ON COLUMN sched.queue.selector IS 'Label pairs that a worker must all carry; empty for any worker.';
COMMENT ON COLUMN sched.queue.protocol IS 'Protocol that a worker must speak; any for no demand.';
COMMENT ON COLUMN sched.queue.created_at IS 'When the queue was first used.';
COMMENT ON COLUMN sched.queue.description IS 'What it is for, for people.';
COMMENT ON COLUMN sched.queue.pinned IS 'An operator''s row: sched apply never changes it.';
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
COMMENT ON COLUMN sched.queue.config_xid IS 'Transaction that last made or reconfigured the queue: the leader reads those that it has not seen yet.';
COMMENT ON INDEX sched.queue_config_xid_index IS 'Queues made or reconfigured since.';
COMMENT ON VIEW sched.queues IS 'Queues: what they demand, how they are configured, and how the leader found them last.';
COMMENT ON COLUMN sched.queues.name IS 'Name.';
COMMENT ON COLUMN sched.queues.base IS 'Name that enqueue was given.';
COMMENT ON COLUMN sched.queues.selector IS 'Label pairs that a worker must all carry.';
COMMENT ON COLUMN sched.queues.protocol IS 'Protocol that a worker must speak; any for no demand.';
COMMENT ON COLUMN sched.queues.description IS 'What it is for, for people.';
COMMENT ON COLUMN sched.queues.paused_at IS 'Since when it is paused; NULL: it is not.';
COMMENT ON COLUMN sched.queues.strategy IS 'How its work spreads over its workers: least_loaded or round_robin.';
COMMENT ON COLUMN sched.queues.admission IS 'What enqueue does under pressure: accept, delay or reject.';
COMMENT ON COLUMN sched.queues.max_pending IS 'Tasks waiting and due that count as full; NULL: the setting max_pending.';
COMMENT ON COLUMN sched.queues.max_running IS 'Most tasks of it that run at once in the whole fleet; NULL: no limit.';
COMMENT ON COLUMN sched.queues.rate IS 'Most tasks of it that are claimed a second in the whole fleet; NULL: no limit.';
COMMENT ON COLUMN sched.queues.burst IS 'Tasks that may be claimed at once after a pause.';
COMMENT ON COLUMN sched.queues.pinned IS 'An operator''s row: sched apply never changes it.';
COMMENT ON COLUMN sched.queues.pressure IS 'How close it is to its limits: green, yellow or red; green while nobody leads.';
COMMENT ON COLUMN sched.queues.pressure_reason IS 'Why it is not green.';
COMMENT ON COLUMN sched.queues.pending IS 'Tasks available and due, counted up to max_pending.';
COMMENT ON COLUMN sched.queues.load IS 'Mean running / ceiling of its workers, 0 to 1.';
COMMENT ON COLUMN sched.queues.workers IS 'Workers assigned to it.';
COMMENT ON COLUMN sched.queues.free_slots IS 'Sum of their free slots.';
COMMENT ON COLUMN sched.queues.unroutable IS 'The pair (or protocol) that no live worker offers; NULL: somebody serves it.';
COMMENT ON COLUMN sched.queues.state_at IS 'When the leader last changed what it found.';
COMMENT ON TABLE sched.river_job IS 'River''s table of jobs: one row per task. Read it through sched.task; add to it with sched.enqueue.';
COMMENT ON COLUMN sched.river_job.id IS 'Task id.';
COMMENT ON COLUMN sched.river_job.state IS 'Status.';
COMMENT ON COLUMN sched.river_job.attempt IS 'Attempts spent.';
COMMENT ON COLUMN sched.river_job.max_attempts IS 'Attempts after which a failing task is discarded.';
COMMENT ON COLUMN sched.river_job.attempted_at IS 'When the latest attempt was claimed. Never the same twice for one task: it is part of the lease.';
COMMENT ON COLUMN sched.river_job.created_at IS 'When the task was enqueued.';
COMMENT ON COLUMN sched.river_job.finalized_at IS 'When the task ended; NULL while it is unfinished.';
COMMENT ON COLUMN sched.river_job.scheduled_at IS 'Time from which it may run; never ahead while the status is available.';
COMMENT ON COLUMN sched.river_job.priority IS '1 starts first, 4 last.';
COMMENT ON COLUMN sched.river_job.args IS 'Arguments.';
COMMENT ON COLUMN sched.river_job.attempted_by IS 'Workers that claimed it, the latest last; at most 100.';
COMMENT ON COLUMN sched.river_job.errors IS 'Failed attempts as {"at", "attempt", "error", "trace"}.';
COMMENT ON COLUMN sched.river_job.kind IS 'Kind of task.';
COMMENT ON COLUMN sched.river_job.metadata IS 'What this project adds, under keys with the prefix sched:, and River''s own output, snoozes and cancel_attempted_at.';
COMMENT ON COLUMN sched.river_job.queue IS 'Queue, derived from name, selector and protocol.';
COMMENT ON COLUMN sched.river_job.tags IS 'River''s tags; not used here.';
COMMENT ON COLUMN sched.river_job.unique_key IS 'SHA-256 of sched, kind and unique key, with a zero byte between them.';
COMMENT ON COLUMN sched.river_job.unique_states IS 'Statuses in which the unique key holds.';
COMMENT ON INDEX sched.river_job_state_and_finalized_at_index IS 'Ended tasks by their end: cleaners and archive.';
COMMENT ON INDEX sched.river_job_unique_idx IS 'Unique keys of unfinished tasks.';
COMMENT ON TABLE sched.river_leader IS 'River''s election: the sidecar that leads.';
COMMENT ON COLUMN sched.river_leader.elected_at IS 'Since when it leads.';
COMMENT ON COLUMN sched.river_leader.expires_at IS 'Until when, unless it renews.';
COMMENT ON COLUMN sched.river_leader.leader_id IS 'River client id of the leader (sched.worker.client_id).';
COMMENT ON COLUMN sched.river_leader.name IS 'Always default.';
COMMENT ON TABLE sched.river_migration IS 'River''s own migrations.';
COMMENT ON COLUMN sched.river_migration.line IS 'Line of migrations; main.';
COMMENT ON COLUMN sched.river_migration.version IS 'Version in that line.';
COMMENT ON COLUMN sched.river_migration.created_at IS 'When it was applied.';
COMMENT ON TABLE sched.river_notification IS 'River''s outbox for databases without NOTIFY; not used here.';
COMMENT ON COLUMN sched.river_notification.id IS 'River''s.';
COMMENT ON COLUMN sched.river_notification.created_at IS 'River''s.';
COMMENT ON COLUMN sched.river_notification.payload IS 'River''s.';
COMMENT ON COLUMN sched.river_notification.topic IS 'River''s.';
COMMENT ON INDEX sched.river_notification_created_at_idx IS 'River''s.';
COMMENT ON INDEX sched.river_notification_topic_id_idx IS 'River''s.';
COMMENT ON TABLE sched.river_queue IS 'River''s table of queues: what River UI shows and pauses.';
COMMENT ON COLUMN sched.river_queue.name IS 'Name of the queue.';
COMMENT ON COLUMN sched.river_queue.created_at IS 'When the row was made.';
COMMENT ON COLUMN sched.river_queue.metadata IS 'River''s metadata.';
COMMENT ON COLUMN sched.river_queue.paused_at IS 'Since when it is paused: no sidecar claims from it. NULL when it isn''t.';
COMMENT ON COLUMN sched.river_queue.updated_at IS 'Kept fresh by the leader: River deletes rows that stand still for a day.';
COMMENT ON INDEX sched.sched_river_job_available IS 'The claim: waiting tasks of a queue in the order they start.';
COMMENT ON INDEX sched.sched_river_job_batch IS 'sched.task and sched.batch by batch.';
COMMENT ON INDEX sched.sched_river_job_due IS 'The promoter: tasks with a time, the next one first.';
COMMENT ON INDEX sched.sched_river_job_status_start IS 'sched.task by status and start_time; running tasks of the sweeps.';
COMMENT ON TABLE sched.schedule IS 'Periodic tasks: what is enqueued, and when. The leader enqueues what is due; times that passed while nobody led, or while the queue was red, are made up for by one task.';
COMMENT ON COLUMN sched.schedule.name IS 'Name.';
COMMENT ON COLUMN sched.schedule.description IS 'What it is, for people.';
COMMENT ON COLUMN sched.schedule.cron IS 'When: five fields (minute, hour, day of month, month, day of week), @hourly, @daily, @weekly, @monthly, @yearly or @every with a duration.';
COMMENT ON COLUMN sched.schedule.timezone IS 'Whose clock cron means: a name such as Europe/Berlin.';
COMMENT ON COLUMN sched.schedule.kind IS 'Kind of its tasks.';
COMMENT ON COLUMN sched.schedule.args IS 'Their args.';
COMMENT ON COLUMN sched.schedule.queue IS 'Their queue (base name). NULL here and below: the kind''s default, else the global one.';
COMMENT ON COLUMN sched.schedule.selector IS 'Labels that their workers must carry, as an object of strings.';
COMMENT ON COLUMN sched.schedule.protocol IS 'Protocol that their workers must speak: any, http, grpc or exec.';
COMMENT ON COLUMN sched.schedule.priority IS 'Their priority: 1 starts first, 4 last.';
COMMENT ON COLUMN sched.schedule.timeout IS 'Time that an attempt may take; above 0, up to 7 days.';
COMMENT ON COLUMN sched.schedule.max_attempts IS 'Attempts after which a failing task is discarded, 1 to 32767.';
COMMENT ON COLUMN sched.schedule.overlap IS 'Whether a task is enqueued while the one before it is unfinished.';
COMMENT ON COLUMN sched.schedule.paused IS 'Nothing is enqueued. Times that pass meanwhile are not made up for.';
COMMENT ON COLUMN sched.schedule.pinned IS 'An operator''s row: sched apply never changes it.';
COMMENT ON COLUMN sched.schedule.created_at IS 'When the row was made.';
COMMENT ON COLUMN sched.schedule.updated_at IS 'When somebody last changed it; the leader''s marks don''t count.';
COMMENT ON COLUMN sched.schedule.updated_by IS 'Login role that last changed it.';
COMMENT ON COLUMN sched.schedule.next_run_at IS 'When it is due next. NULL: the leader has yet to work it out. The leader marks this and the columns below.';
COMMENT ON COLUMN sched.schedule.last_due_at IS 'The time that the last task was for.';
COMMENT ON COLUMN sched.schedule.last_run_at IS 'When the last task was enqueued.';
COMMENT ON COLUMN sched.schedule.last_task_id IS 'That task.';
COMMENT ON COLUMN sched.schedule.waiting_since IS 'Since when it is due and not enqueued. NULL: it isn''t.';
COMMENT ON COLUMN sched.schedule.waiting_reason IS 'Why not, in words.';
COMMENT ON COLUMN sched.schedule.error IS 'What is wrong with it. Nothing is enqueued until somebody changes the row. NULL: nothing.';
COMMENT ON INDEX sched.schedule_next_index IS 'What is due.';
COMMENT ON TABLE sched.setting IS 'Settings that every sidecar and every enqueue must agree on. Change one with UPDATE sched.setting SET value = ... WHERE key = ...; it holds from the next call on.';
COMMENT ON COLUMN sched.setting.key IS 'Name of the setting.';
COMMENT ON COLUMN sched.setting.value IS 'Its value as JSON.';
COMMENT ON COLUMN sched.setting.description IS 'What it does, in which unit and range.';
COMMENT ON COLUMN sched.setting.updated_at IS 'When the value was last changed.';
COMMENT ON COLUMN sched.setting.updated_by IS 'Login role that last changed it.';
COMMENT ON COLUMN sched.setting.pinned IS 'An operator''s value: sched apply never changes it.';
COMMENT ON VIEW sched.task IS 'One row per task, archived or not. id, status = ... with or without a bound on start_time, and batch = ..., are served by indexes; so is a bound on end_time together with status IN (completed, cancelled, discarded).';
COMMENT ON COLUMN sched.task.id IS 'Id that enqueue returned.';
COMMENT ON COLUMN sched.task.kind IS 'Kind of task: which handler of the app runs it.';
COMMENT ON COLUMN sched.task.queue IS 'Queue, derived from the name given, selector and protocol.';
COMMENT ON COLUMN sched.task.status IS 'available, scheduled, pending, running, retryable, completed, cancelled or discarded.';
COMMENT ON COLUMN sched.task.start_time IS 'When the latest attempt was claimed; NULL before the first.';
COMMENT ON COLUMN sched.task.end_time IS 'When the task ended; NULL while it is unfinished.';
COMMENT ON COLUMN sched.task.worker_id IS 'Worker of the latest attempt; see sched.worker.';
COMMENT ON COLUMN sched.task.attempt IS 'Attempts spent; snoozes and hand-backs spend none.';
COMMENT ON COLUMN sched.task.max_attempts IS 'Attempts after which a failing task is discarded.';
COMMENT ON COLUMN sched.task.priority IS '1 starts first, 4 last.';
COMMENT ON COLUMN sched.task.run_at IS 'Time from which it may run.';
COMMENT ON COLUMN sched.task.created_at IS 'When it was enqueued (start of the transaction).';
COMMENT ON COLUMN sched.task.args IS 'Arguments, as given.';
COMMENT ON COLUMN sched.task.output IS 'Output of the attempt that completed it.';
COMMENT ON COLUMN sched.task.error IS 'Error of the latest failed attempt; NULL when the task completed.';
COMMENT ON COLUMN sched.task.selector IS 'Labels that its worker must carry.';
COMMENT ON COLUMN sched.task.protocol IS 'Protocol that its worker must speak; any for no demand.';
COMMENT ON COLUMN sched.task.batch IS 'Batch it belongs to.';
COMMENT ON COLUMN sched.task.unique_key IS 'Unique key, as given.';
COMMENT ON COLUMN sched.task.headers IS 'Headers that the app receives with it.';
COMMENT ON COLUMN sched.task.lost IS 'Workers that died holding it, since it was last retried by hand.';
COMMENT ON COLUMN sched.task.snoozes IS 'Times it was put off.';
COMMENT ON COLUMN sched.task.enqueued_by IS 'Login role that enqueued it; NULL if a River client did.';
COMMENT ON COLUMN sched.task.enqueued_app IS 'application_name of that connection.';
COMMENT ON COLUMN sched.task.timeout IS 'Time that an attempt may take; NULL for the sidecar''s default.';
COMMENT ON COLUMN sched.task.host IS 'Machine of that worker; NULL if it is not known any more.';
COMMENT ON COLUMN sched.task.claims IS 'Times it was claimed, snoozes and hand-backs included; counted up to 100. Above 1: it ran more than once.';
COMMENT ON COLUMN sched.task.archived IS 'Whether it has left the hot table for the archive.';
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
COMMENT ON INDEX sched.task_archive_again_index IS 'What ran more than once: the predicate is that of sched.task.claims > 1.';
COMMENT ON INDEX sched.task_archive_batch_index IS 'sched.task and sched.batch by batch.';
COMMENT ON TABLE sched.task_archive_default IS 'Archived tasks of months without a partition: normally none.';
COMMENT ON INDEX sched.task_archive_end_index IS 'Tasks that ended in a span of time.';
COMMENT ON INDEX sched.task_archive_failed_index IS 'What failed or was cancelled in a span of time.';
COMMENT ON INDEX sched.task_archive_status_start_index IS 'sched.task by status and start_time, as in river_job.';
COMMENT ON INDEX sched.task_archive_worker_index IS 'What ran on a worker, and when.';
COMMENT ON VIEW sched.topology IS 'The fleet as the newest version of its topology has it, one row per worker.';
COMMENT ON COLUMN sched.topology.version IS 'Version.';
COMMENT ON COLUMN sched.topology.taken_at IS 'When it was last seen so.';
COMMENT ON COLUMN sched.topology.sha256 IS 'SHA-256 of the topology''s text, in hex.';
COMMENT ON COLUMN sched.topology.worker_id IS 'Worker.';
COMMENT ON COLUMN sched.topology.entry IS 'Its labels, state, health, slots and what it serves.';
COMMENT ON TABLE sched.topology_change IS 'What changed in the fleet from version to version: enough to tell what it was at any time kept.';
COMMENT ON COLUMN sched.topology_change.version IS 'Version that the change led to.';
COMMENT ON COLUMN sched.topology_change.worker_id IS 'Worker that changed.';
COMMENT ON COLUMN sched.topology_change.at IS 'When the leader saw it.';
COMMENT ON COLUMN sched.topology_change.what IS 'join, leave or change.';
COMMENT ON COLUMN sched.topology_change.before IS 'The worker''s entry before it; NULL for a join.';
COMMENT ON COLUMN sched.topology_change.after IS 'The worker''s entry after it; NULL for a leave.';
COMMENT ON INDEX sched.topology_change_at_index IS 'The topology as of a time, and what is old.';
COMMENT ON TABLE sched.topology_snapshot IS 'The fleet as a whole at a version: the last three.';
COMMENT ON COLUMN sched.topology_snapshot.version IS 'Counts up by one with each change.';
COMMENT ON COLUMN sched.topology_snapshot.taken_at IS 'When, by the database''s clock.';
COMMENT ON COLUMN sched.topology_snapshot.taken_at_ns IS 'The same in nanoseconds since 1970.';
COMMENT ON COLUMN sched.topology_snapshot.sha256 IS 'SHA-256 of the text of topology, in hex.';
COMMENT ON COLUMN sched.topology_snapshot.reason IS 'What brought it about: join, leave, change or interval.';
COMMENT ON COLUMN sched.topology_snapshot.topology IS 'Workers by id, with labels, state, health, slots and queues.';
COMMENT ON VIEW sched.waiting IS 'The tasks that are available. queue = ... ordered by priority, run_at, id, or with priority = ... by run_at, id, is served by the index of the claim.';
COMMENT ON COLUMN sched.waiting.id IS 'Id of the task.';
COMMENT ON COLUMN sched.waiting.kind IS 'Kind.';
COMMENT ON COLUMN sched.waiting.queue IS 'Queue.';
COMMENT ON COLUMN sched.waiting.priority IS '1 starts first, 4 last.';
COMMENT ON COLUMN sched.waiting.run_at IS 'Since when it may run.';
COMMENT ON COLUMN sched.waiting.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN sched.waiting.enqueued_by IS 'Login role that enqueued it; NULL if a River client did.';
COMMENT ON COLUMN sched.waiting.enqueued_app IS 'application_name of that connection.';
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
COMMENT ON COLUMN sched.worker.ceiling IS 'Slots at most: as configured, or as many as its app holds at once.';
COMMENT ON COLUMN sched.worker.cpu IS 'CPU use of the app, 0 to 1.';
COMMENT ON COLUMN sched.worker.mem IS 'Memory use of the app, 0 to 1.';
COMMENT ON COLUMN sched.worker.load_percent IS 'Resource load of the app, 0 to 100.';
COMMENT ON COLUMN sched.worker.rtt_ms IS 'Round trip to the database in milliseconds.';
COMMENT ON COLUMN sched.worker.polling IS 'Whether it polls by itself at present, so that an enqueue need not wake it.';
COMMENT ON COLUMN sched.worker.skipped_kinds IS 'Kinds that its app answered 404 to: not claimed for now, and asked for again within a minute.';
COMMENT ON COLUMN sched.worker.holds IS 'Why it claims nothing now, such as an app that is down; empty while it claims. As of its last heartbeat.';
COMMENT ON COLUMN sched.worker.health IS 'good; strained (load_percent above 70: less weight, a hint to scale out); overloaded (above 85 on three beats: no claims, no assignments).';
COMMENT ON COLUMN sched.worker.load_at IS 'When its load was last written, at a heartbeat or between two.';
COMMENT ON COLUMN sched.worker.demand IS 'Slots that its share of what arrives and waits takes. NULL: nothing measures that.';
COMMENT ON COLUMN sched.worker.arrivals IS 'Tasks a second that came due: its share.';
COMMENT ON COLUMN sched.worker.forecast IS 'Tasks a second that it expects.';
COMMENT ON COLUMN sched.worker.score IS 'Joint score of cpu, memory and what waits, 0 to 1.';
COMMENT ON COLUMN sched.worker.scale_out IS 'It should have more slots and has no cpu or memory for them: the fleet needs more workers.';
COMMENT ON COLUMN sched.worker.elastic_reason IS 'What decided about its slots last: demand, joint, shed, push-back, cooldown, frozen, hold or stale.';
COMMENT ON COLUMN sched.worker.score_cpu IS 'Part of its score that cpu makes: use, 0 to 1, times the weight.';
COMMENT ON COLUMN sched.worker.score_mem IS 'Part that memory makes.';
COMMENT ON COLUMN sched.worker.score_pending IS 'Part that waiting tasks make.';
COMMENT ON VIEW sched.workers IS 'The registrations of sidecars: those that live, and those that ended in the last 7 days.';
COMMENT ON COLUMN sched.workers.id IS 'Random id of this registration.';
COMMENT ON COLUMN sched.workers.hostname IS 'Machine that the sidecar runs on.';
COMMENT ON COLUMN sched.workers.version IS 'Version of the sidecar.';
COMMENT ON COLUMN sched.workers.app_url IS 'Where the sidecar reaches its app.';
COMMENT ON COLUMN sched.workers.labels IS 'Labels that selectors are matched with.';
COMMENT ON COLUMN sched.workers.queues IS 'Base names of the queues it is narrowed to; NULL: all.';
COMMENT ON COLUMN sched.workers.kinds IS 'Kinds it is narrowed to; NULL: all.';
COMMENT ON COLUMN sched.workers.protocols IS 'Protocols that its app speaks.';
COMMENT ON COLUMN sched.workers.state IS 'pending, active, draining, done or evicted.';
COMMENT ON COLUMN sched.workers.health IS 'good, strained or overloaded.';
COMMENT ON COLUMN sched.workers.running IS 'Tasks that it runs.';
COMMENT ON COLUMN sched.workers.slots IS 'Tasks that it may run at once now.';
COMMENT ON COLUMN sched.workers.ceiling IS 'Tasks that it may run at once at most.';
COMMENT ON COLUMN sched.workers.cpu IS 'CPU use of the app, 0 to 1.';
COMMENT ON COLUMN sched.workers.mem IS 'Memory use of the app, 0 to 1.';
COMMENT ON COLUMN sched.workers.load_percent IS 'Resource load of the app, 0 to 100.';
COMMENT ON COLUMN sched.workers.rtt_ms IS 'Round trip to the database in milliseconds.';
COMMENT ON COLUMN sched.workers.started_at IS 'When it registered.';
COMMENT ON COLUMN sched.workers.heartbeat_at IS 'Last heartbeat, by the clock of the database.';
COMMENT ON COLUMN sched.workers.ended_at IS 'When it ended or was evicted; NULL while it lives.';
COMMENT ON COLUMN sched.workers.reason IS 'Why it is in this state.';
COMMENT ON CONSTRAINT setting_archive_fits ON sched.setting IS 'A value that the leader could not use would stop the archive.';
COMMENT ON CONSTRAINT setting_elastic_fits ON sched.setting IS 'Weights are 0 or more and together 1 (0.001 more or less); the other elastic settings are in their ranges.';
COMMENT ON CONSTRAINT setting_routing_fits ON sched.setting IS 'A value that the leader or an enqueue could not use would stop it.';
COMMENT ON CONSTRAINT setting_value_fits ON sched.setting IS 'A value that enqueue could not read would stop every enqueue.';
COMMENT ON FUNCTION sched.add_queue(text,text,jsonb,text) IS 'Internal: makes the row of a queue without waiting for anybody; says whether it is there.';
COMMENT ON FUNCTION sched.admit(text,sched.new_task) IS 'Internal: lets a new task of a queue under pressure pass, makes it due later, or raises SC429.';
COMMENT ON FUNCTION sched.archive_months() IS 'Internal: makes partitions of the archive ahead, and drops those that are too old. By the leader.';
COMMENT ON FUNCTION sched.archive_tasks(sched.river_job_state,timestamp with time zone,integer) IS 'Internal: moves finished tasks from river_job to the archive. By the leader.';
COMMENT ON FUNCTION sched.attempt_log_bound() IS 'Trigger: keeps the first and the last 50 logged attempts of a task.';
COMMENT ON FUNCTION sched.canary_share(bigint) IS 'Where a task stands among its queue''s tasks, 0 to below 100, by its id: below the canary''s percentage it is the canary''s.';
COMMENT ON FUNCTION sched.cancel(bigint) IS 'Cancels a task: at once if it waits, through its sidecar if it runs. Returns the status after it. SC404 if there is no such task.';
COMMENT ON FUNCTION sched.claim_lanes(text,integer,text[],text[],double precision,integer,integer,text[],integer[],text[],bigint[],bigint[],bigint[],bigint[],real[],real[]) IS 'For sidecars: claims where limits, left-out kinds or canaries are in play, from marked lanes of queues, and reports on these.';
COMMENT ON FUNCTION sched.complete(bigint,text,jsonb) IS 'Completes a running task in the caller''s transaction, with an output if given. SC409 if the lease does not own a running attempt: roll back then.';
COMMENT ON FUNCTION sched.config_change() IS 'Trigger: tells the sidecars to read their policy again.';
COMMENT ON FUNCTION sched.contract_version() IS 'Contract version of this schema; a program compares it with the range it works with.';
COMMENT ON FUNCTION sched.count_waiting(text,integer,integer,integer) IS 'For the leader: tasks available and due per queue, each counted up to its max_pending, within a budget of rows.';
COMMENT ON FUNCTION sched.discover_queues() IS 'For the leader: finds queues by their tasks, makes their rows, and keeps River''s queue rows fresh.';
COMMENT ON FUNCTION sched.drain_worker(text) IS 'Asks a worker to take nothing more and end what it runs. Returns its state after it: draining, done or evicted. SC404 if there is no such worker.';
COMMENT ON FUNCTION sched.enqueue_alike(jsonb) IS 'Internal: adds the tasks of enqueue_many if they differ in their args alone; NULL, and nothing done, if they don''t or if any is to be refused.';
COMMENT ON FUNCTION sched.enqueue_many_mixed(jsonb) IS 'Internal: enqueue_many of tasks that differ in more than their args, and of those that are refused or delayed.';
COMMENT ON FUNCTION sched.enqueue_many(jsonb) IS 'Adds many tasks in the caller''s transaction, all or none, and returns their ids in the order given. tasks is an array of objects with the names of sched.enqueue''s arguments; what one leaves out is its kind''s default, else the global one. Fastest where they differ in their args alone. SC429 if one of their queues rejects tasks now.';
COMMENT ON FUNCTION sched.enqueue(text,jsonb,text,integer,timestamp with time zone,jsonb,text,text,integer,interval,text,jsonb) IS 'Adds one task in the caller''s transaction and returns its id; with a unique_key that an unfinished task of this kind has, returns that task''s id. What is left out or NULL is the kind''s default in sched.kind, else the global one. Under pressure it follows the admission of the queue: SC429 if that rejects.';
COMMENT ON FUNCTION sched.explain_attempts(bigint) IS 'Internal: the attempts of a task that have ended, one a line.';
COMMENT ON FUNCTION sched.explain_canary(bigint,text) IS 'Internal: which side of a canary a task is on.';
COMMENT ON FUNCTION sched.explain_door(bigint,text) IS 'Internal: what pressure means for new tasks of a queue, and meant for this one.';
COMMENT ON FUNCTION sched.explain_error(text) IS 'Internal: an error as one line.';
COMMENT ON FUNCTION sched.explain_limits(text,text,bigint) IS 'Internal: what limits let through of a queue and a kind now.';
COMMENT ON FUNCTION sched.explain_routing(bigint,text) IS 'Internal: who is assigned to a queue, and what a canary means for a task.';
COMMENT ON FUNCTION sched.explain_run(bigint) IS 'Internal: who runs a task, and until when, a statement a line.';
COMMENT ON FUNCTION sched.explain_service(text,text,jsonb,text) IS 'Internal: who could claim a task, or what nobody offers, a statement a line.';
COMMENT ON FUNCTION sched.explain_taken(bigint,text,text) IS 'Internal: why a worker took a task.';
COMMENT ON FUNCTION sched.explain_time(timestamp with time zone) IS 'Internal: a time as sched.explain writes it.';
COMMENT ON FUNCTION sched.explain_wait(bigint) IS 'Internal: why a task is still waiting, a statement a line.';
COMMENT ON FUNCTION sched.explain_workers(text,text,jsonb,text) IS 'Internal: the workers that have not ended, and how each stands to a task.';
COMMENT ON FUNCTION sched.explain(bigint) IS 'Why a task waits or what became of it, in words, a statement a line. SC404 if there is no such task.';
COMMENT ON FUNCTION sched.insert_many(jsonb,sched.new_task[]) IS 'Internal: inserts the tasks of enqueue_many and returns their ids in order.';
COMMENT ON FUNCTION sched.limit_moved() IS 'Trigger of sched.queue: the commit of another max_running waits for the claim that is under way by the old one.';
COMMENT ON FUNCTION sched.look_at_tasks(boolean) IS 'For the leader: whether a task is available, and how soon the next one is due.';
COMMENT ON FUNCTION sched.mark_schedule(text,text,text,timestamp with time zone,timestamp with time zone,text,text) IS 'Internal: by the leader: when a schedule is due next, why it waits, or what is wrong with it.';
COMMENT ON FUNCTION sched.new_task_of(jsonb) IS 'Internal: as it was before kinds had defaults; for calls that were under way then.';
COMMENT ON FUNCTION sched.new_task_of(jsonb,sched.kind) IS 'Internal: checks one element of enqueue_many''s array and derives its row, with the defaults of its kind.';
COMMENT ON FUNCTION sched.new_task(text,jsonb,text,integer,timestamp with time zone,jsonb,text,text,integer,interval,text,jsonb) IS 'Internal: checks one task''s arguments and derives its row.';
COMMENT ON FUNCTION sched.notify_insert(text,text[],bigint) IS 'Internal: tells one of some sidecars, or all, that a task became available.';
COMMENT ON FUNCTION sched.open_flow(text,text,integer) IS 'For the claim: locks the flow row of a queue or kind and tells how many of its tasks may be claimed now, and otherwise why none and when to ask again.';
COMMENT ON FUNCTION sched.operator_change() IS 'Trigger: logs in sched.operator_action what people change, and tells the sidecars.';
COMMENT ON FUNCTION sched.pairs_fault(text,jsonb,text,integer,integer) IS 'Internal: message and hint of what is wrong with a selector or headers object, or NULL.';
COMMENT ON FUNCTION sched.parse_lease(text) IS 'Internal: worker id and claim time of a lease; worker_id is NULL if the text is not a lease.';
COMMENT ON FUNCTION sched.pause_kind(text,timestamp with time zone,text,text) IS 'For sidecars: nothing of the kind is claimed in the whole fleet before that time, as its app said. Returns whether that is news.';
COMMENT ON FUNCTION sched.pressure() IS 'How close the fleet is to its limits: green, yellow or red, why, and when to ask again.';
COMMENT ON FUNCTION sched.pressure_of_tasks(jsonb) IS 'Queues under pressure that these tasks would come to, red ones first; none while all are green.';
COMMENT ON FUNCTION sched.pressure_of(text) IS 'Internal: pressure of a queue, or of the fleet for NULL.';
COMMENT ON FUNCTION sched.pressure(text) IS 'How close a queue is to its limits: green, yellow or red, why, and when to ask again.';
COMMENT ON FUNCTION sched.queue_name(text,jsonb,text) IS 'Name of the queue for a base name, selector and protocol: the base name alone, or with | and a short hash.';
COMMENT ON FUNCTION sched.queue_reconfigured() IS 'Internal: marks a queue that routing has to look at again.';
COMMENT ON FUNCTION sched.refuse_lease(bigint,text) IS 'Internal: raises SC404 or SC409 with what became of an attempt whose lease is lost.';
COMMENT ON FUNCTION sched.retry(bigint) IS 'Makes a waiting or ended task run again now, with one more attempt if all are spent. SC404 unknown, SC423 running, SC410 unique key taken by another unfinished task.';
COMMENT ON FUNCTION sched.river_job_state_in_bitmask(bit,sched.river_job_state) IS 'River''s: whether a unique key holds in a status. Predicate of river_job_unique_idx.';
COMMENT ON FUNCTION sched.run_due_schedule(text,text,text,timestamp with time zone,timestamp with time zone) IS 'Internal: by the leader: enqueues what a schedule is due for, unless its queue is red.';
COMMENT ON FUNCTION sched.run_schedule(text) IS 'Enqueues a schedule''s task now, beside its times, and returns its id.';
COMMENT ON FUNCTION sched.schedule_changed() IS 'Trigger of sched.schedule: clears what the leader marked when somebody changes a row.';
COMMENT ON FUNCTION sched.schedule_task(sched.schedule,timestamp with time zone) IS 'Internal: enqueues a schedule''s task.';
COMMENT ON FUNCTION sched.setting_stamp() IS 'Trigger of sched.setting and sched.kind: who changed a row, and when.';
COMMENT ON FUNCTION sched.task_fault(text,jsonb,text,integer,timestamp with time zone,jsonb,text,text,integer,interval,text,jsonb) IS 'Internal: message and hint of the first argument of a task that is refused, or NULL.';
COMMENT ON FUNCTION sched.unarchive_task(bigint) IS 'Internal: brings an archived task back.';
COMMENT ON FUNCTION sched.wake_queue(text,bigint) IS 'Internal: wakes whom the leader named for a queue: one sidecar, all or none.';
COMMENT ON FUNCTION sched.worker_moved() IS 'Trigger: a worker''s state goes forward only, and each move counts state_version up.';
COMMENT ON FUNCTION sched.worker_news() IS 'Trigger: tells the leader of a worker whose state or labels changed.';
COMMENT ON TRIGGER attempt_log_bound ON sched.attempt_log IS 'Bounds the log of a task.';
COMMENT ON TRIGGER canary_config ON sched.canary IS 'Tells the sidecars when the share that holds changes, by the leader too.';
COMMENT ON TRIGGER canary_operator_delete ON sched.canary IS 'Logs who removes one.';
COMMENT ON TRIGGER canary_operator_insert ON sched.canary IS 'Logs who adds one.';
COMMENT ON TRIGGER canary_operator_update ON sched.canary IS 'Logs who changes one.';
COMMENT ON TRIGGER flow_config_insert ON sched.flow IS 'Tells the sidecars of a timed pause.';
COMMENT ON TRIGGER flow_config_update ON sched.flow IS 'Tells the sidecars of a timed pause, or its end.';
COMMENT ON TRIGGER kind_operator_delete ON sched.kind IS 'Logs who removes one.';
COMMENT ON TRIGGER kind_operator_insert ON sched.kind IS 'Logs who adds one.';
COMMENT ON TRIGGER kind_operator_update ON sched.kind IS 'Logs who changes one.';
COMMENT ON TRIGGER kind_stamp ON sched.kind IS 'Stamps updated_at and updated_by.';
COMMENT ON TRIGGER queue_limit_moved ON sched.queue IS 'Makes a new max_running exact once it is committed.';
COMMENT ON TRIGGER queue_operator_delete ON sched.queue IS 'Logs who removes one.';
COMMENT ON TRIGGER queue_operator_insert ON sched.queue IS 'Logs who adds one.';
COMMENT ON TRIGGER queue_operator_update ON sched.queue IS 'Logs who changes one.';
COMMENT ON TRIGGER queue_reconfigured ON sched.queue IS 'Keeps config_xid.';
COMMENT ON TRIGGER river_queue_operator_delete ON sched.river_queue IS 'Logs who removes one.';
COMMENT ON TRIGGER river_queue_operator_insert ON sched.river_queue IS 'Logs who adds one.';
COMMENT ON TRIGGER river_queue_operator_update ON sched.river_queue IS 'Logs who changes one.';
COMMENT ON TRIGGER schedule_changed ON sched.schedule IS 'Clears what the leader marked.';
COMMENT ON TRIGGER schedule_operator_delete ON sched.schedule IS 'Logs who removes one.';
COMMENT ON TRIGGER schedule_operator_insert ON sched.schedule IS 'Logs who adds one.';
COMMENT ON TRIGGER schedule_operator_update ON sched.schedule IS 'Logs who changes one.';
COMMENT ON TRIGGER schedule_stamp ON sched.schedule IS 'Stamps updated_at and updated_by.';
COMMENT ON TRIGGER setting_operator_delete ON sched.setting IS 'Logs who removes one.';
COMMENT ON TRIGGER setting_operator_insert ON sched.setting IS 'Logs who adds one.';
COMMENT ON TRIGGER setting_operator_update ON sched.setting IS 'Logs who changes one.';
COMMENT ON TRIGGER setting_stamp ON sched.setting IS 'Stamps updated_at and updated_by.';
COMMENT ON TRIGGER worker_moved ON sched.worker IS 'Refuses moves back, by whoever they are made.';
COMMENT ON TRIGGER worker_news ON sched.worker IS 'Tells the leader.';
