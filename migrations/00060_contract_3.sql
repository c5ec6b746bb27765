-- Locking: one row of a table that is only read otherwise.
--
-- Contract version 3: routing, backpressure, limits, topology, canaries, decisions and interventions. Programs of version 2 go
-- on: nothing that they use was taken away or means something else.

-- +goose Up

UPDATE sched.contract SET version = 3, updated_at = now();

-- +goose Down

UPDATE sched.contract SET version = 2, updated_at = now();
