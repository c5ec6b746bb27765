-- name: ScheduleDue :many
-- Schedules whose time has come, and those without a time yet, with the database's
-- clock. By the leader, when there are some, and each fifteen seconds.
SELECT s.name, s.cron, s.timezone, s.next_run_at, clock_timestamp()::timestamptz AS now
FROM sched.schedule AS s
WHERE NOT s.paused AND s.error IS NULL AND (s.next_run_at IS NULL OR s.next_run_at <= now())
ORDER BY s.next_run_at NULLS FIRST
LIMIT sqlc.arg(max_schedules)::integer;

-- name: ScheduleRunDue :one
-- Enqueues the task of a schedule that is due and moves it on, or marks that it
-- waits. By the leader.
SELECT r.outcome::text AS outcome, coalesce(r.task_id, 0)::bigint AS task_id
FROM sched.run_due_schedule(@name::text, @cron::text, @timezone::text, @due::timestamptz, @next::timestamptz) AS r;

-- name: ScheduleMark :one
-- Writes down the next time of a schedule, why it waits, or what is wrong with it;
-- false: it changed meanwhile. By the leader.
SELECT sched.mark_schedule(
    @name::text, @cron::text, @timezone::text, sqlc.narg(due)::timestamptz, sqlc.narg(next)::timestamptz,
    sqlc.narg(waiting)::text, sqlc.narg(error)::text
)::boolean AS marked;

-- name: ScheduleCount :one
-- How many schedules wait, and how many have an error. By the leader, each fifteen seconds, and when one was due.
SELECT count(*) FILTER (WHERE s.waiting_reason IS NOT NULL)::integer AS waiting, count(*) FILTER (WHERE s.error IS NOT NULL)::integer AS failed
FROM sched.schedule AS s
WHERE NOT s.paused;

-- name: ScheduleList :many
-- Schedules by name: those named, or up to a limit after a name. By sched schedules.
SELECT to_jsonb(s) AS schedule
FROM sched.schedule AS s
WHERE CASE WHEN sqlc.narg(names)::text[] IS NULL THEN s.name > @after_name::text ELSE s.name = any(sqlc.narg(names)::text[]) END
ORDER BY s.name
LIMIT sqlc.arg(max_schedules)::integer;

-- name: ScheduleSet :one
-- Makes a schedule, or changes the given columns of one that is there. By sched schedules set.
INSERT INTO sched.schedule AS s (
    name, cron, kind, timezone, description, args, queue, selector, protocol, priority, timeout, max_attempts, overlap, pinned
)
VALUES (
    @name::text, @cron::text, @kind::text, coalesce(sqlc.narg(timezone)::text, 'UTC'), sqlc.narg(description)::text,
    coalesce(sqlc.narg(args)::jsonb, '{}'), sqlc.narg(queue)::text, sqlc.narg(selector)::jsonb, sqlc.narg(protocol)::text,
    sqlc.narg(priority)::smallint, sqlc.narg(timeout_us)::bigint * interval '1 microsecond', sqlc.narg(max_attempts)::integer,
    coalesce(sqlc.narg(overlap)::boolean, true), coalesce(sqlc.narg(pinned)::boolean, false)
)
ON CONFLICT (name) DO UPDATE SET
    cron = excluded.cron,
    kind = excluded.kind,
    timezone = coalesce(sqlc.narg(timezone)::text, s.timezone),
    description = coalesce(excluded.description, s.description),
    args = coalesce(sqlc.narg(args)::jsonb, s.args),
    queue = coalesce(excluded.queue, s.queue),
    selector = coalesce(excluded.selector, s.selector),
    protocol = coalesce(excluded.protocol, s.protocol),
    priority = coalesce(excluded.priority, s.priority),
    timeout = coalesce(excluded.timeout, s.timeout),
    max_attempts = coalesce(excluded.max_attempts, s.max_attempts),
    overlap = coalesce(sqlc.narg(overlap)::boolean, s.overlap),
    pinned = coalesce(sqlc.narg(pinned)::boolean, s.pinned)
RETURNING to_jsonb(s) AS schedule;

-- name: SchedulePause :one
-- Pauses or resumes a schedule. By sched schedules pause and resume.
UPDATE sched.schedule AS s
SET paused = @paused::boolean
WHERE s.name = @name::text
RETURNING s.name;

-- name: ScheduleRun :one
-- Enqueues a schedule's task now. By sched schedules run.
SELECT sched.run_schedule(@name::text)::bigint AS task_id;

-- name: ScheduleDelete :one
-- Removes a schedule; its tasks stay. By sched schedules delete.
DELETE FROM sched.schedule AS s
WHERE s.name = @name::text
RETURNING s.name;
