-- Locking: creates views, and an index of a table that 00030 made; nothing that is in use gets locked.
--
-- For auditors and dashboards: routing, decisions and interventions, one row per fact.

-- +goose Up

CREATE VIEW sched.decisions AS
SELECT d.id, d.at, d.what, d.subject, d.who, d.from_value, d.to_value, d.reason, d.signals
FROM sched.decision AS d;
COMMENT ON VIEW sched.decisions IS 'What sched decided by itself, and why; kept for the setting decision_keep_days.';
COMMENT ON COLUMN sched.decisions.id IS 'Counts up.';
COMMENT ON COLUMN sched.decisions.at IS 'When.';
COMMENT ON COLUMN sched.decisions.what IS 'Kind of decision: assignment, pressure, health, evict, canary, slots, pause, unroutable, topology.';
COMMENT ON COLUMN sched.decisions.subject IS 'What it is about: a queue, worker or kind; or fleet.';
COMMENT ON COLUMN sched.decisions.who IS 'Worker that decided.';
COMMENT ON COLUMN sched.decisions.from_value IS 'What was.';
COMMENT ON COLUMN sched.decisions.to_value IS 'What is since.';
COMMENT ON COLUMN sched.decisions.reason IS 'Why, in words.';
COMMENT ON COLUMN sched.decisions.signals IS 'The measures it was made from.';

CREATE INDEX decision_slots_index ON sched.decision (at) WHERE what IN ('slots', 'slots observed');
COMMENT ON INDEX sched.decision_slots_index IS 'What moved slots, among all the other decisions of a time.';

CREATE VIEW sched.operator_actions AS
SELECT a.id, a.at, a.action, a.object_type, a.object, a.before, a.after, a.db_user, a.application_name
FROM sched.operator_action AS a;
COMMENT ON VIEW sched.operator_actions IS 'Who intervened, by whatever means; kept for the setting operator_action_keep_days.';
COMMENT ON COLUMN sched.operator_actions.id IS 'Counts up.';
COMMENT ON COLUMN sched.operator_actions.at IS 'When.';
COMMENT ON COLUMN sched.operator_actions.action IS 'What was done: insert, update, delete, pause, resume, cancel, retry, drain.';
COMMENT ON COLUMN sched.operator_actions.object_type IS 'To what: setting, kind, queue, canary, schedule, task or worker.';
COMMENT ON COLUMN sched.operator_actions.object IS 'Its name or id.';
COMMENT ON COLUMN sched.operator_actions.before IS 'What changed, before it.';
COMMENT ON COLUMN sched.operator_actions.after IS 'What changed, after it.';
COMMENT ON COLUMN sched.operator_actions.db_user IS 'Login role.';
COMMENT ON COLUMN sched.operator_actions.application_name IS 'Its application_name.';

CREATE VIEW sched.assignments AS
SELECT a.queue, a.worker_id, w.hostname, a.weight, a.reason, a.version, a.updated_at, w.state, w.health, w.running, w.slots, w.ceiling
FROM sched.assignment AS a LEFT JOIN sched.worker AS w ON w.id = a.worker_id;
COMMENT ON VIEW sched.assignments IS 'Who serves which queue, and how much of it.';
COMMENT ON COLUMN sched.assignments.queue IS 'Queue.';
COMMENT ON COLUMN sched.assignments.worker_id IS 'Worker that serves it.';
COMMENT ON COLUMN sched.assignments.hostname IS 'Its machine.';
COMMENT ON COLUMN sched.assignments.weight IS 'Its share among the queue''s workers.';
COMMENT ON COLUMN sched.assignments.reason IS 'Why it serves the queue, and with this weight, in words.';
COMMENT ON COLUMN sched.assignments.version IS 'Version of the topology at which this became so.';
COMMENT ON COLUMN sched.assignments.updated_at IS 'When that was.';
COMMENT ON COLUMN sched.assignments.state IS 'State of the worker.';
COMMENT ON COLUMN sched.assignments.health IS 'Its health: good, strained or overloaded.';
COMMENT ON COLUMN sched.assignments.running IS 'Tasks that it runs.';
COMMENT ON COLUMN sched.assignments.slots IS 'Tasks that it may run at once now.';
COMMENT ON COLUMN sched.assignments.ceiling IS 'Tasks that it may run at once at most.';

CREATE VIEW sched.topology AS
SELECT s.version, s.taken_at, s.sha256, w.key AS worker_id, w.value AS entry
FROM (SELECT t.* FROM sched.topology_snapshot AS t ORDER BY t.version DESC LIMIT 1) AS s
CROSS JOIN LATERAL jsonb_each(s.topology) AS w;
COMMENT ON VIEW sched.topology IS 'The fleet as the newest version of its topology has it, one row per worker.';
COMMENT ON COLUMN sched.topology.version IS 'Version.';
COMMENT ON COLUMN sched.topology.taken_at IS 'When it was last seen so.';
COMMENT ON COLUMN sched.topology.sha256 IS 'SHA-256 of the topology''s text, in hex.';
COMMENT ON COLUMN sched.topology.worker_id IS 'Worker.';
COMMENT ON COLUMN sched.topology.entry IS 'Its labels, state, health, slots and what it serves.';

CREATE VIEW sched.queues AS
SELECT q.name, q.base, q.selector, q.protocol, q.description, r.paused_at,
    q.strategy, q.admission, q.max_pending, q.max_running, q.rate, q.burst, q.pinned,
    CASE WHEN f.led THEN q.pressure ELSE 'green' END AS pressure, CASE WHEN f.led THEN q.pressure_reason END AS pressure_reason,
    q.pending, q.load, q.workers, q.free_slots, q.unroutable, q.state_at
FROM sched.queue AS q
CROSS JOIN (SELECT coalesce(l.computed_at > clock_timestamp() - interval '5 seconds', false) AS led FROM sched.fleet AS l) AS f
LEFT JOIN sched.river_queue AS r ON r.name = q.name;
COMMENT ON VIEW sched.queues IS 'Queues: what they demand, how they are configured, and how the leader found them last.';
COMMENT ON COLUMN sched.queues.name IS 'Name.';
COMMENT ON COLUMN sched.queues.base IS 'Name that enqueue was given.';
COMMENT ON COLUMN sched.queues.selector IS 'Label pairs that a worker must all carry.';
COMMENT ON COLUMN sched.queues.protocol IS 'Protocol that a worker must speak; any for no demand.';
COMMENT ON COLUMN sched.queues.description IS 'What it is for, for people.';
COMMENT ON COLUMN sched.queues.paused_at IS 'Since when it is paused; NULL: it is not.';
COMMENT ON COLUMN sched.queues.strategy IS 'How its work spreads over its workers: least_loaded or round_robin.';
COMMENT ON COLUMN sched.queues.admission IS 'What enqueue does under pressure: accept, delay or reject.';
COMMENT ON COLUMN sched.queues.max_pending IS 'Tasks waiting and due that count as full; NULL: the setting max_pending.';
COMMENT ON COLUMN sched.queues.max_running IS 'Most tasks of it that run at once in the whole fleet; NULL: no limit.';
COMMENT ON COLUMN sched.queues.rate IS 'Most tasks of it that are claimed a second in the whole fleet; NULL: no limit.';
COMMENT ON COLUMN sched.queues.burst IS 'Tasks that may be claimed at once after a pause.';
COMMENT ON COLUMN sched.queues.pinned IS 'An operator''s row: sched apply never changes it.';
COMMENT ON COLUMN sched.queues.pressure IS 'How close it is to its limits: green, yellow or red; green while nobody leads.';
COMMENT ON COLUMN sched.queues.pressure_reason IS 'Why it is not green.';
COMMENT ON COLUMN sched.queues.pending IS 'Tasks available and due, counted up to max_pending.';
COMMENT ON COLUMN sched.queues.load IS 'Mean running / ceiling of its workers, 0 to 1.';
COMMENT ON COLUMN sched.queues.workers IS 'Workers assigned to it.';
COMMENT ON COLUMN sched.queues.free_slots IS 'Sum of their free slots.';
COMMENT ON COLUMN sched.queues.unroutable IS 'The pair (or protocol) that no live worker offers; NULL: somebody serves it.';
COMMENT ON COLUMN sched.queues.state_at IS 'When the leader last changed what it found.';

REVOKE ALL ON sched.decisions, sched.operator_actions, sched.assignments, sched.topology, sched.queues FROM PUBLIC;

-- +goose Down

DROP VIEW sched.queues;
DROP VIEW sched.topology;
DROP VIEW sched.assignments;
DROP VIEW sched.operator_actions;
DROP INDEX sched.decision_slots_index;
DROP VIEW sched.decisions;
