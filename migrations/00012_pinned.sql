-- Locking: ACCESS EXCLUSIVE on setting, queue and worker, each for a catalog change only (no rewrite; the check reads the few
-- rows of queue). Every enqueue holds a weak lock on setting and queue to the end of its transaction, so this waits for the
-- open ones, and new ones wait behind it: the program gives up after a moment and asks again (see locks.go).
--
-- What an operator pins, sched apply leaves alone.

-- +goose Up

ALTER TABLE sched.setting ADD COLUMN pinned boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN sched.setting.pinned IS 'An operator''s value: sched apply never changes it.';

ALTER TABLE sched.queue
    ADD COLUMN description text CONSTRAINT queue_description_check CHECK (char_length(description) BETWEEN 1 AND 1000),
    ADD COLUMN pinned boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN sched.queue.description IS 'What it is for, for people.';
COMMENT ON COLUMN sched.queue.pinned IS 'An operator''s row: sched apply never changes it.';

ALTER TABLE sched.worker
    ADD COLUMN skipped_kinds text[] NOT NULL DEFAULT '{}',
    ADD COLUMN holds text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN sched.worker.holds IS 'Why it claims nothing now, such as an app that is down; empty while it claims. As of its last heartbeat.';
COMMENT ON COLUMN sched.worker.skipped_kinds IS 'Kinds that its app answered 404 to: not claimed for now, and asked for again within a minute.';

-- +goose Down

ALTER TABLE sched.worker DROP COLUMN holds, DROP COLUMN skipped_kinds;
ALTER TABLE sched.queue DROP COLUMN pinned, DROP COLUMN description;
ALTER TABLE sched.setting DROP COLUMN pinned;
