-- For sqlc alone, which doesn't know of system columns. Never run.
ALTER TABLE sched.river_job ADD COLUMN ctid tid NOT NULL;
