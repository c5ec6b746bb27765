-- name: ScheduleDue :many
-- Schedules whose time has come, and those without a time yet, with the database's
-- clock. By the leader, each second.
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
-- How many schedules wait, and how many have an error. By the leader, each second.
SELECT count(*) FILTER (WHERE s.waiting_reason IS NOT NULL)::integer AS waiting, count(*) FILTER (WHERE s.error IS NOT NULL)::integer AS failed
FROM sched.schedule AS s
WHERE NOT s.paused;
