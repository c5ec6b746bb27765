-- name: ElasticRead :one
-- What a sidecar that sizes itself needs to know from Postgres: of its queues that are
-- not paused and have something waiting how much that is, and its share of it (by
-- weight; as one of all workers where nobody is assigned); which queues those were
-- looked for in; how old that is, and the settings. Each second.
SELECT
    coalesce(array_agg(q.name ORDER BY q.name) FILTER (WHERE q.pending > 0), '{}')::text[] AS queues,
    coalesce(array_agg(
        CASE WHEN q.weight_total > 0 THEN least(coalesce(a.weight, 0)::float8 / q.weight_total, 1) ELSE 1.0 / greatest(f.workers, 1) END
        ORDER BY q.name
    ) FILTER (WHERE q.pending > 0), '{}')::float8[] AS shares,
    coalesce(array_agg(q.pending ORDER BY q.name) FILTER (WHERE q.pending > 0), '{}')::integer[] AS pending,
    coalesce(hashtextextended(string_agg(q.name, ' ' ORDER BY q.name), 0), 0)::bigint AS served,
    coalesce(extract(EPOCH FROM clock_timestamp() - min(f.computed_at)), 1e9)::float8 AS age_seconds,
    coalesce((SELECT jsonb_object_agg(s.key, s.value) FROM sched.setting AS s WHERE s.key LIKE 'elastic\_%'), '{}')::text AS settings
FROM sched.fleet AS f
LEFT JOIN sched.queue AS q
    ON q.name = any(@queues::text[])
        AND NOT EXISTS (SELECT FROM sched.river_queue AS p WHERE p.name = q.name AND p.paused_at IS NOT NULL)
LEFT JOIN sched.assignment AS a ON a.queue = q.name AND a.worker_id = @worker_id::text;

-- name: WorkerElastic :exec
-- What a worker's controller found. When it changed, at most once a second.
UPDATE sched.worker AS w
SET demand = @demand,
    arrivals = @arrivals,
    forecast = @forecast,
    score = @score,
    score_cpu = @score_cpu,
    score_mem = @score_mem,
    score_pending = @score_pending,
    scale_out = @scale_out,
    elastic_reason = @reason
WHERE w.id = @id AND w.state IN ('pending', 'active', 'draining');
