-- Locking: one row of a table that is only read otherwise.
--
-- Contract version 2: defaults per kind, retry delays among them; sched.explain; skipped_kinds of workers. Programs of version
-- 1 go on: nothing that they use was taken away or means something else.

-- +goose Up

UPDATE sched.contract SET version = 2, updated_at = now();

-- +goose Down

UPDATE sched.contract SET version = 1, updated_at = now();
