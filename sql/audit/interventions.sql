-- Who paused or changed what?
--
-- Everything that people changed, by whatever means: settings, kinds, queues, canaries, schedules, pauses, cancels, retries, drains.
-- The latest first.
--
-- Parameters:
--   since   time     7d     not before
--   until   time     now    before
--   user    text     -      only by this login role
--   action  text     -      only insert, update, delete, pause, resume, cancel, retry, drain or run
--   type    text     -      only on a setting, kind, queue, canary, schedule, task or worker
--   object  text     -      only on the one with this name or id
--   limit   integer  100    1 to 10000 rows
--
-- Bounds: the latest 100,000 in the span, or of the object in it, by the indexes on time, and on object and time. The rest of what
-- narrows is looked for among them.
SELECT a.at, a.db_user, a.application_name, a.action, a.object_type, a.object, a.before, a.after
FROM (
    SELECT l.*
    FROM sched.operator_actions AS l
    WHERE l.at >= @since::timestamptz AND l.at < @until::timestamptz
        AND (@object::text IS NULL OR l.object = @object::text)
    ORDER BY l.at DESC
    LIMIT 100000
) AS a
WHERE (@user::text IS NULL OR a.db_user = @user::text)
    AND (@action::text IS NULL OR a.action = @action::text)
    AND (@type::text IS NULL OR a.object_type = @type::text)
ORDER BY a.at DESC, a.id DESC
LIMIT @limit::integer
