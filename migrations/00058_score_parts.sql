-- Locking: ACCESS EXCLUSIVE on worker for catalog changes only: the new columns are NULL (no rewrite).
--
-- What the joint score of a worker is made of.

-- +goose Up

ALTER TABLE sched.worker
    ADD COLUMN score_cpu real,
    ADD COLUMN score_mem real,
    ADD COLUMN score_pending real;
COMMENT ON COLUMN sched.worker.score_cpu IS 'Part of its score that cpu makes: use, 0 to 1, times the weight.';
COMMENT ON COLUMN sched.worker.score_mem IS 'Part that memory makes.';
COMMENT ON COLUMN sched.worker.score_pending IS 'Part that waiting tasks make.';

-- +goose Down

ALTER TABLE sched.worker
    DROP COLUMN score_pending, DROP COLUMN score_mem, DROP COLUMN score_cpu;
