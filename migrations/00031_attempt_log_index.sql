-- Locking: SHARE on attempt_log while its index is built: retries, snoozes and hand-backs wait for that; what succeeds doesn't
-- write there. A table of a million attempts takes about a second.

-- +goose Up

CREATE INDEX attempt_log_ended_index ON sched.attempt_log (ended_at);
COMMENT ON INDEX sched.attempt_log_ended_index IS 'Attempts that are old, or ended in a span of time.';

-- +goose Down

DROP INDEX sched.attempt_log_ended_index;
