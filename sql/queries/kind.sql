-- name: KindRetry :many
-- The kinds that have retry delays of their own. By each sidecar, with its queues.
-- What a kind leaves to the sidecar's own policy is -1.
SELECT k.kind,
    coalesce(ceil(extract(EPOCH FROM k.retry_base) * 1000), -1)::bigint AS base_ms,
    coalesce(ceil(extract(EPOCH FROM k.retry_cap) * 1000), -1)::bigint AS cap_ms,
    -- By way of their shortest text, so that 0.1 stays 0.1.
    coalesce(k.retry_factor::text::float8, -1)::float8 AS factor,
    coalesce(k.retry_jitter::text::float8, -1)::float8 AS jitter
FROM sched.kind AS k
WHERE k.retry_base IS NOT NULL OR k.retry_cap IS NOT NULL OR k.retry_factor IS NOT NULL OR k.retry_jitter IS NOT NULL
ORDER BY k.kind;
