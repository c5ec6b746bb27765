-- name: ElasticRead :one
-- What a sidecar that sizes itself needs to know from Postgres: its share of what
-- waits (by weight; as one of all workers where nobody is assigned), all that waits
-- in its queues, how old that is, and the settings. Each second.
SELECT
    coalesce(sum(
        q.pending * CASE WHEN q.weight_total > 0 THEN least(coalesce(a.weight, 0)::float8 / q.weight_total, 1) ELSE 1.0 / greatest(f.workers, 1) END
    ), 0)::float8 AS pending,
    coalesce(sum(q.pending), 0)::bigint AS waiting,
    coalesce(extract(EPOCH FROM clock_timestamp() - min(f.computed_at)), 1e9)::float8 AS age_seconds,
    coalesce((SELECT jsonb_object_agg(s.key, s.value) FROM sched.setting AS s WHERE s.key LIKE 'elastic\_%'), '{}')::text AS settings
FROM sched.fleet AS f
LEFT JOIN sched.queue AS q ON q.name = any(@queues::text[])
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
