-- name: RemainderLeft :one
-- Says whether anything is left to wait for that a worker with these labels,
-- protocols, queues and kinds could run. Twice a second under --until-empty, while
-- nothing runs there.
--
-- What waits, runs anywhere, or is between two attempts counts, also in a paused
-- queue. A task that somebody scheduled for later doesn't, unless it was begun
-- before and put off. One EXISTS for each index, each ending at its first row.
WITH served AS MATERIALIZED (
    SELECT array_agg(q.name) AS names
    FROM sched.queue AS q
    WHERE q.selector <@ @labels::jsonb
        AND (q.protocol = 'any' OR q.protocol = any(@protocols::text[]))
        AND (@bases::text[] IS NULL OR q.base = any(@bases::text[]))
)

SELECT (
    EXISTS (
        SELECT 1 FROM sched.river_job AS j
        WHERE j.state = 'available' AND j.queue = any(served.names) AND j.scheduled_at <= now()
            AND (@kinds::text[] IS NULL OR j.kind = any(@kinds::text[]))
            AND NOT (j.kind = any(@lacking::text[]))
    ) OR EXISTS (
        SELECT 1 FROM sched.river_job AS j
        WHERE j.state = 'running' AND j.queue = any(served.names)
            AND (@kinds::text[] IS NULL OR j.kind = any(@kinds::text[]))
            AND NOT (j.kind = any(@lacking::text[]))
    ) OR EXISTS (
        SELECT 1 FROM sched.river_job AS j
        WHERE j.state IN ('retryable', 'scheduled') AND j.queue = any(served.names)
            AND (j.state = 'retryable' OR j.attempted_at IS NOT NULL OR j.scheduled_at <= now())
            AND (@kinds::text[] IS NULL OR j.kind = any(@kinds::text[]))
            AND NOT (j.kind = any(@lacking::text[]))
    )
)::boolean AS anything
FROM served;

-- name: RemainderLacking :many
-- How many tasks of each of the given kinds wait in the queues that a worker with
-- these labels, protocols and queues serves. Once at the end of --until-empty, for
-- the kinds that the app turned out to lack; at most max of each are counted.
SELECT lacking.kind::text AS kind, count(*) AS tasks
FROM unnest(@lacking::text[]) AS lacking (kind)
CROSS JOIN LATERAL (
    SELECT 1
    FROM sched.river_job AS j
    WHERE j.state = 'available' AND j.scheduled_at <= now() AND j.kind = lacking.kind
        AND j.queue = any(
            SELECT q.name FROM sched.queue AS q
            WHERE q.selector <@ @labels::jsonb
                AND (q.protocol = 'any' OR q.protocol = any(@protocols::text[]))
                AND (@bases::text[] IS NULL OR q.base = any(@bases::text[]))
        )
    LIMIT @max::int
) AS task
GROUP BY lacking.kind
ORDER BY lacking.kind;

-- name: RemainderFailed :many
-- The tasks that a sidecar, under all its registrations, ran and that failed for
-- good: discarded, or cancelled by the app's own answer. One that a person
-- cancelled is none. Once at the end of --until-empty.
SELECT j.id, j.kind, j.state::text AS status, coalesce(j.errors[cardinality(j.errors)] ->> 'error', '')::text AS error
FROM sched.river_job AS j
WHERE j.state IN ('discarded', 'cancelled')
    AND j.finalized_at >= (SELECT min(w.started_at) FROM sched.worker AS w WHERE w.client_id = @client_id)
    AND j.attempted_by[cardinality(j.attempted_by)] = any(SELECT w.id FROM sched.worker AS w WHERE w.client_id = @client_id)
    AND (j.state = 'discarded' OR NOT j.metadata ? 'cancel_attempted_at')
ORDER BY j.finalized_at, j.id
LIMIT @max::int;
