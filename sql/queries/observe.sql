-- name: StorageWatch :one
-- Dead rows, and how long ago the oldest snapshot was taken that keeps them: in
-- transactions, which everybody may see, and the age of the oldest open transaction, which
-- for others than its owner takes pg_read_all_stats. By the leader, each 15 seconds, for its metrics.
SELECT
    coalesce(pg_stat_get_live_tuples(c.oid), 0)::bigint AS live_tuples,
    coalesce(pg_stat_get_dead_tuples(c.oid), 0)::bigint AS dead_tuples,
    coalesce((
        SELECT max(age(p.xmin))
        FROM (
            SELECT a.backend_xmin AS xmin FROM pg_catalog.pg_stat_activity AS a
            WHERE a.pid <> pg_backend_pid() AND a.usesysid IS NOT NULL AND (a.datname = current_database() OR a.datname IS NULL)
            UNION ALL SELECT x.transaction FROM pg_catalog.pg_prepared_xacts AS x WHERE x.database = current_database()
            UNION ALL SELECT s.xmin FROM pg_catalog.pg_replication_slots AS s
        ) AS p
    ), 0)::bigint AS xmin_age,
    coalesce((
        SELECT extract(EPOCH FROM clock_timestamp() - min(a.xact_start))
        FROM pg_catalog.pg_stat_activity AS a
        WHERE a.pid <> pg_backend_pid() AND a.datname = current_database() AND a.usesysid IS NOT NULL
    ), 0)::float8 AS oldest_seconds
FROM pg_catalog.pg_class AS c
WHERE c.oid = 'sched.river_job'::regclass;

-- name: LeaderForeign :one
-- Whether somebody leads who is no sidecar. By a sidecar that knows of no leader, each 15 seconds.
SELECT EXISTS (
    SELECT FROM sched.river_leader AS l
    WHERE l.expires_at > clock_timestamp()
        AND NOT EXISTS (SELECT FROM sched.worker AS w WHERE w.client_id = l.leader_id)
)::boolean AS foreign_leads;

-- name: RoutingOldest :many
-- Since when the longest waiting task of some queues has been due, and whether the queue
-- is paused. By the leader, each five seconds, for the queues that its metrics show. Four looks at an index for each.
SELECT n.queue::text AS queue,
    (CASE WHEN isfinite(min(t.scheduled_at)) THEN greatest(extract(EPOCH FROM clock_timestamp() - min(t.scheduled_at)), 0) ELSE 0 END)::float8 AS seconds,
    EXISTS (SELECT FROM sched.river_queue AS r WHERE r.name = n.queue AND r.paused_at IS NOT NULL)::boolean AS paused
FROM unnest(@queues::text[]) AS n (queue)
CROSS JOIN (VALUES (1::smallint), (2::smallint), (3::smallint), (4::smallint)) AS p (priority)
CROSS JOIN LATERAL (
    SELECT j.scheduled_at
    FROM sched.river_job AS j
    WHERE j.state = 'available' AND j.queue = n.queue AND j.priority = p.priority
    ORDER BY j.scheduled_at, j.id
    LIMIT 1
) AS t
GROUP BY n.queue;
