-- Locking: ACCESS EXCLUSIVE on worker for catalog changes only: the new columns are NULL or have a constant default (no rewrite).
--
-- What each worker's controller found, and what the fleet needs by that. Queues that
-- are paused need nobody.

-- +goose Up

ALTER TABLE sched.worker
    ADD COLUMN demand real,
    ADD COLUMN arrivals real,
    ADD COLUMN forecast real,
    ADD COLUMN score real,
    ADD COLUMN scale_out boolean NOT NULL DEFAULT false,
    ADD COLUMN elastic_reason text;
COMMENT ON COLUMN sched.worker.demand IS 'Slots that its share of what arrives and waits takes. NULL: nothing measures that.';
COMMENT ON COLUMN sched.worker.arrivals IS 'Tasks a second that came due: its share.';
COMMENT ON COLUMN sched.worker.forecast IS 'Tasks a second that it expects.';
COMMENT ON COLUMN sched.worker.score IS 'Joint score of cpu, memory and what waits, 0 to 1.';
COMMENT ON COLUMN sched.worker.scale_out IS 'It should have more slots and has no cpu or memory for them: the fleet needs more workers.';
COMMENT ON COLUMN sched.worker.elastic_reason IS 'What decided about its slots last: demand, joint, shed, push-back, cooldown, frozen, hold or stale.';

COMMENT ON COLUMN sched.worker.ceiling IS 'Slots at most: as configured, or as many as its app holds at once.';

CREATE VIEW sched.fleet_demand AS
WITH live AS (
    SELECT w.state = 'draining' AS draining, w.running, w.slots, w.ceiling, w.scale_out, w.arrivals, w.forecast,
        coalesce(w.demand, w.running) AS demand,
        greatest(CASE WHEN w.scale_out THEN w.slots ELSE w.ceiling END, 1) AS room
    FROM sched.worker AS w
    WHERE w.state IN ('pending', 'active', 'draining') AND w.heartbeat_at > statement_timestamp() - interval '90 seconds'
), total AS (
    SELECT (count(*) FILTER (WHERE NOT l.draining))::integer AS workers,
        (count(*) FILTER (WHERE l.draining AND l.running > 0))::integer AS draining,
        (count(*) FILTER (WHERE l.scale_out AND NOT l.draining))::integer AS scale_out,
        coalesce(sum(l.demand) FILTER (WHERE NOT l.draining), 0) AS demand,
        coalesce(sum(l.arrivals) FILTER (WHERE NOT l.draining), 0) AS arrivals,
        coalesce(sum(l.forecast) FILTER (WHERE NOT l.draining), 0) AS forecast,
        coalesce(sum(l.running) FILTER (WHERE NOT l.draining), 0)::integer AS running,
        coalesce(sum(l.slots) FILTER (WHERE NOT l.draining), 0)::integer AS slots,
        coalesce(sum(l.ceiling) FILTER (WHERE NOT l.draining), 0)::integer AS ceiling,
        coalesce(avg(l.room) FILTER (WHERE NOT l.draining), 1)::float8 AS room,
        coalesce(sum(CASE WHEN l.scale_out THEN greatest(l.slots, 1) ELSE least(greatest(l.demand, l.running), l.room) END)
            FILTER (WHERE NOT l.draining), 0)::float8 AS filled
    FROM live AS l
), need AS (
    SELECT t.*,
        ceil(t.demand / (0.8 * t.room))::integer AS by_demand,
        ceil(t.running / t.room)::integer AS by_running,
        CASE WHEN t.scale_out > 0 THEN greatest(t.workers, ceil(t.filled / (0.8 * t.room))::integer) ELSE 0 END AS by_score,
        CASE
            WHEN t.workers > 0 THEN 0
            WHEN EXISTS (
                -- Queue by queue, so that a large backlog of one that is paused costs nothing.
                WITH RECURSIVE waiting AS (
                    (SELECT j.queue FROM sched.river_job AS j WHERE j.state = 'available' ORDER BY j.queue LIMIT 1)
                    UNION ALL
                    SELECT (
                        SELECT j.queue FROM sched.river_job AS j WHERE j.state = 'available' AND j.queue > w.queue ORDER BY j.queue LIMIT 1
                    ) FROM waiting AS w WHERE w.queue IS NOT NULL
                )
                SELECT FROM waiting AS w
                WHERE NOT EXISTS (SELECT FROM sched.river_queue AS p WHERE p.name = w.queue AND p.paused_at IS NOT NULL)
                    AND EXISTS (
                        SELECT FROM sched.river_job AS j
                        WHERE j.queue = w.queue AND j.state = 'available' AND j.scheduled_at <= statement_timestamp()
                    )
            ) THEN 1
            WHEN EXISTS (
                SELECT FROM (
                    -- The longest overdue: a paused queue may have any number of them, which nobody promotes without a leader.
                    SELECT j.queue FROM sched.river_job AS j
                    WHERE j.state IN ('retryable', 'scheduled') AND j.scheduled_at <= statement_timestamp()
                    ORDER BY j.scheduled_at, j.id LIMIT 20000
                ) AS due
                WHERE NOT EXISTS (SELECT FROM sched.river_queue AS p WHERE p.name = due.queue AND p.paused_at IS NOT NULL)
            ) THEN 1
            ELSE 0
        END AS by_waiting
    FROM total AS t
)
SELECT greatest(n.by_demand, n.by_running, n.by_score, n.by_waiting) + n.draining AS desired_workers,
    CASE greatest(n.by_demand, n.by_running, n.by_score, n.by_waiting)
        WHEN 0 THEN 'nothing to do'
        WHEN n.by_running THEN 'what runs needs them'
        WHEN n.by_demand THEN 'what arrives and waits needs them'
        WHEN n.by_score THEN 'workers have no cpu or memory left'
        ELSE 'a task waits and nobody works'
    END AS reason,
    n.workers, n.draining, n.scale_out, n.demand, n.arrivals, n.forecast, n.running, n.slots, n.ceiling
FROM need AS n;
COMMENT ON VIEW sched.fleet_demand IS 'How many workers the fleet needs, by what they published: one row, for autoscalers.';
COMMENT ON COLUMN sched.fleet_demand.desired_workers IS 'Workers that there should be: as many as demand fills to 80 %; while one has no cpu or memory left and should have more slots, as many as what they hold fills to 80 %, and no fewer than there are; never fewer than what runs needs; and those that drain until they are done.';
COMMENT ON COLUMN sched.fleet_demand.reason IS 'What decided, in words.';
COMMENT ON COLUMN sched.fleet_demand.workers IS 'Workers there are, without those that drain.';
COMMENT ON COLUMN sched.fleet_demand.draining IS 'Workers that drain and still run something.';
COMMENT ON COLUMN sched.fleet_demand.scale_out IS 'Workers that should have more slots and have no cpu or memory for them.';
COMMENT ON COLUMN sched.fleet_demand.demand IS 'Slots that what arrives and waits takes; of workers that don''t measure it, what they run.';
COMMENT ON COLUMN sched.fleet_demand.arrivals IS 'Tasks a second that came due.';
COMMENT ON COLUMN sched.fleet_demand.forecast IS 'Tasks a second that are expected.';
COMMENT ON COLUMN sched.fleet_demand.running IS 'Tasks that run.';
COMMENT ON COLUMN sched.fleet_demand.slots IS 'Tasks that may run at once now.';
COMMENT ON COLUMN sched.fleet_demand.ceiling IS 'Tasks that may run at once at most.';

REVOKE ALL ON sched.fleet_demand FROM PUBLIC;

-- +goose Down

DROP VIEW sched.fleet_demand;
COMMENT ON COLUMN sched.worker.ceiling IS 'Configured maximum of slots.';
ALTER TABLE sched.worker
    DROP COLUMN elastic_reason, DROP COLUMN scale_out, DROP COLUMN score, DROP COLUMN forecast, DROP COLUMN arrivals, DROP COLUMN demand;
