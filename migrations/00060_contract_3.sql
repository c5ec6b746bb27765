-- Locking: SHARE ROW EXCLUSIVE on setting for its trigger: it waits for open changes of settings, and no enqueue waits for it. Then
-- one row of a table that is only read otherwise.
--
-- Contract version 3: routing, backpressure, limits, topology, canaries, decisions and interventions. Programs of version 2 go
-- on: nothing that they use was taken away or means something else.

-- +goose Up

-- Here, since the settings that the migrations before add are nobody's intervention. A later migration that adds some
-- disables this trigger meanwhile.
CREATE TRIGGER setting_operator_insert AFTER INSERT ON sched.setting FOR EACH ROW
    EXECUTE FUNCTION sched.operator_change('setting', 'key', 'value,pinned');
COMMENT ON TRIGGER setting_operator_insert ON sched.setting IS 'Logs who adds one.';

UPDATE sched.contract SET version = 3, updated_at = now();

-- +goose Down

UPDATE sched.contract SET version = 2, updated_at = now();
DROP TRIGGER setting_operator_insert ON sched.setting;
