-- What is one task's whole story?
--
-- Everything that is known of a task in order: who enqueued it, each attempt with its worker and outcome, who intervened, and how it ended.
--
-- Parameters:
--   task  id    !    id of the task
--
-- Bounds: primary keys and the index of interventions on an object; at most 102 attempts and 1000 interventions.
SELECT s.at, s.event, s.who, s.detail
FROM (
    SELECT t.created_at AS at, 0 AS place, 'enqueued' AS event,
        coalesce(t.enqueued_by || coalesce(' (' || t.enqueued_app || ')', ''), 'a River client') AS who,
        format('kind %s, queue %s, priority %s, for %s%s', t.kind, t.queue, t.priority, t.run_at, coalesce(', batch ' || t.batch, '') || coalesce(', unique key ' || t.unique_key, '')) AS detail
    FROM sched.task AS t WHERE t.id = @task::bigint
    UNION ALL
    SELECT a.start_time, 1, 'started', a.worker_id || coalesce(' on ' || a.host, ''),
        format('attempt %s%s', a.attempt, CASE WHEN a.skipped > 0 THEN format(' (%s attempts before it were not kept)', a.skipped) END)
    FROM sched.attempt AS a WHERE a.task_id = @task::bigint
    UNION ALL
    SELECT a.end_time, 2, a.outcome, a.worker_id || coalesce(' on ' || a.host, ''), concat_ws(': ', format('attempt %s, after %s', a.attempt, a.end_time - a.start_time), a.error)
    FROM sched.attempt AS a WHERE a.task_id = @task::bigint AND a.end_time IS NOT NULL AND a.outcome IS NOT NULL
    UNION ALL
    (
        SELECT o.at, 3, o.action, o.db_user || coalesce(' (' || nullif(o.application_name, '') || ')', ''), 'it was ' || coalesce(o.before ->> 'status', 'unknown')
        FROM sched.operator_actions AS o
        WHERE o.object = @task::bigint::text AND o.object_type = 'task'
        ORDER BY o.at DESC LIMIT 1000
    )
    UNION ALL
    SELECT coalesce(t.end_time, now()), 4, 'is ' || t.status, NULL,
        concat_ws('; ', CASE WHEN t.archived THEN 'archived' END, t.error, 'output ' || left(t.output::text, 1000))
    FROM sched.task AS t WHERE t.id = @task::bigint
) AS s
ORDER BY s.at, s.place
