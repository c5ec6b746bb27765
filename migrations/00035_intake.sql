-- Locking: creates a function only; nothing that is in use gets locked.
--
-- Who brings many tasks asks first.

-- +goose Up

-- sched.pressure_of_tasks(tasks): the queues that these tasks, as enqueue_many takes them, would come to and that are not green; red
-- first. Elements that enqueue_many would refuse are left out. Reads settings, kinds and queues, locks nothing. While no queue is under
-- pressure, or nobody leads, it looks at no task.
-- +goose StatementBegin
CREATE FUNCTION sched.pressure_of_tasks(tasks jsonb) RETURNS TABLE (queue text, level text, reason text, retry_after interval)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp
AS $$
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
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION sched.pressure_of_tasks(jsonb) IS 'Queues under pressure that these tasks would come to, red ones first; none while all are green.';

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA sched FROM PUBLIC;

-- +goose Down

DROP FUNCTION sched.pressure_of_tasks(jsonb);
