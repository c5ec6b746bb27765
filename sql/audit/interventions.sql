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
-- Bounds: the indexes on time, and on object and time.
SELECT a.at, a.db_user, a.application_name, a.action, a.object_type, a.object, a.before, a.after
FROM sched.operator_actions AS a
WHERE a.at >= @since::timestamptz AND a.at < @until::timestamptz
    AND (@user::text IS NULL OR a.db_user = @user::text)
    AND (@action::text IS NULL OR a.action = @action::text)
    AND (@type::text IS NULL OR a.object_type = @type::text)
    AND (@object::text IS NULL OR a.object = @object::text)
ORDER BY a.at DESC, a.id DESC
LIMIT @limit::integer
