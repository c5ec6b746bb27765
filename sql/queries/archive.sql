-- name: ArchiveTasks :many
-- Moves finished tasks of each status to the archive, from a time of their end on. By
-- the leader, again and again while there are some.
SELECT f.status::text AS status, a.moved::integer AS moved, a.seen::integer AS seen,
    coalesce(a.last, f.since)::timestamptz AS last
FROM (SELECT unnest(sqlc.arg(statuses)::text[]) AS status, unnest(sqlc.arg(since)::timestamptz[]) AS since) AS f
CROSS JOIN LATERAL sched.archive_tasks(f.status::sched.river_job_state, f.since, sqlc.arg(max)::integer) AS a;

-- name: ArchiveMonths :one
-- Makes the archive's next partitions and drops one that is too old. By the leader, each
-- minute.
SELECT a.made::integer AS made, a.dropped::integer AS dropped, a.waiting::boolean AS waiting
FROM sched.archive_months() AS a;
