-- Locking: COMMENT takes SHARE UPDATE EXCLUSIVE for a moment; reads and writes go on.
--
-- What River's tables hold here, for whoever reads the schema with psql.

-- +goose Up

COMMENT ON TYPE sched.river_job_state IS 'Status of a task.';
COMMENT ON FUNCTION sched.river_job_state_in_bitmask(bit, sched.river_job_state) IS 'River''s: whether a unique key holds in a status. Predicate of river_job_unique_idx.';

COMMENT ON TABLE sched.river_job IS 'River''s table of jobs: one row per task. Read it through sched.task; add to it with sched.enqueue.';
COMMENT ON COLUMN sched.river_job.id IS 'Task id.';
COMMENT ON COLUMN sched.river_job.state IS 'Status.';
COMMENT ON COLUMN sched.river_job.attempt IS 'Attempts spent.';
COMMENT ON COLUMN sched.river_job.max_attempts IS 'Attempts after which a failing task is discarded.';
COMMENT ON COLUMN sched.river_job.attempted_at IS 'When the latest attempt was claimed. Never the same twice for one task: it is part of the lease.';
COMMENT ON COLUMN sched.river_job.created_at IS 'When the task was enqueued.';
COMMENT ON COLUMN sched.river_job.finalized_at IS 'When the task ended; NULL while it is unfinished.';
COMMENT ON COLUMN sched.river_job.scheduled_at IS 'Time from which it may run; never ahead while the status is available.';
COMMENT ON COLUMN sched.river_job.priority IS '1 starts first, 4 last.';
COMMENT ON COLUMN sched.river_job.args IS 'Arguments.';
COMMENT ON COLUMN sched.river_job.attempted_by IS 'Workers that claimed it, the latest last; at most 100.';
COMMENT ON COLUMN sched.river_job.errors IS 'Failed attempts as {"at", "attempt", "error", "trace"}.';
COMMENT ON COLUMN sched.river_job.kind IS 'Kind of task.';
COMMENT ON COLUMN sched.river_job.metadata IS 'What this project adds, under keys with the prefix sched:, and River''s own output, snoozes and cancel_attempted_at.';
COMMENT ON COLUMN sched.river_job.queue IS 'Queue, derived from name, selector and protocol.';
COMMENT ON COLUMN sched.river_job.tags IS 'River''s tags; not used here.';
COMMENT ON COLUMN sched.river_job.unique_key IS 'SHA-256 of sched, kind and unique key, with a zero byte between them.';
COMMENT ON COLUMN sched.river_job.unique_states IS 'Statuses in which the unique key holds.';
COMMENT ON INDEX sched.river_job_unique_idx IS 'Unique keys of unfinished tasks.';
COMMENT ON INDEX sched.river_job_state_and_finalized_at_index IS 'Ended tasks by their end: cleaners and archive.';

COMMENT ON TABLE sched.river_queue IS 'River''s table of queues: what River UI shows and pauses.';
COMMENT ON COLUMN sched.river_queue.name IS 'Name of the queue.';
COMMENT ON COLUMN sched.river_queue.created_at IS 'When the row was made.';
COMMENT ON COLUMN sched.river_queue.metadata IS 'River''s metadata.';
COMMENT ON COLUMN sched.river_queue.paused_at IS 'Since when it is paused: no sidecar claims from it. NULL when it isn''t.';
COMMENT ON COLUMN sched.river_queue.updated_at IS 'Kept fresh by the leader: River deletes rows that stand still for a day.';

COMMENT ON TABLE sched.river_leader IS 'River''s election: the sidecar that leads.';
COMMENT ON COLUMN sched.river_leader.elected_at IS 'Since when it leads.';
COMMENT ON COLUMN sched.river_leader.expires_at IS 'Until when, unless it renews.';
COMMENT ON COLUMN sched.river_leader.leader_id IS 'River client id of the leader (sched.worker.client_id).';
COMMENT ON COLUMN sched.river_leader.name IS 'Always default.';

COMMENT ON TABLE sched.river_notification IS 'River''s outbox for databases without NOTIFY; not used here.';
COMMENT ON COLUMN sched.river_notification.id IS 'River''s.';
COMMENT ON COLUMN sched.river_notification.created_at IS 'River''s.';
COMMENT ON COLUMN sched.river_notification.payload IS 'River''s.';
COMMENT ON COLUMN sched.river_notification.topic IS 'River''s.';
COMMENT ON INDEX sched.river_notification_created_at_idx IS 'River''s.';
COMMENT ON INDEX sched.river_notification_topic_id_idx IS 'River''s.';

COMMENT ON TABLE sched.river_migration IS 'River''s own migrations.';
COMMENT ON COLUMN sched.river_migration.line IS 'Line of migrations; main.';
COMMENT ON COLUMN sched.river_migration.version IS 'Version in that line.';
COMMENT ON COLUMN sched.river_migration.created_at IS 'When it was applied.';

COMMENT ON TABLE sched.goose_db_version IS 'Migrations of this schema that were applied.';
COMMENT ON COLUMN sched.goose_db_version.id IS 'Order in which they were.';
COMMENT ON COLUMN sched.goose_db_version.version_id IS 'Number of the migration.';
COMMENT ON COLUMN sched.goose_db_version.is_applied IS 'Always true.';
COMMENT ON COLUMN sched.goose_db_version.tstamp IS 'When, in UTC.';

-- +goose Down

-- Comments go with what they are on.
SELECT 1;
