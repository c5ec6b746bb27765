package routing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/routing"
)

// lead is a leader's router on a database of its own.
type lead struct {
	t         *testing.T
	pool      *pgxpool.Pool
	router    *routing.Router
	decisions *routing.DecisionLog
	registry  *prometheus.Registry
}

func setup(t *testing.T) *lead {
	t.Helper()
	return leadOn(t, pgtest.New(t), "w-leader")
}

func leadOn(t *testing.T, pool *pgxpool.Pool, who string) *lead {
	t.Helper()
	decisions, registry := newDecisions(t, pool)
	return &lead{t, pool, routing.NewRouter(pool, func() string { return who }, decisions, registry), decisions, registry}
}

func (l *lead) turn() {
	l.t.Helper()
	require.NoError(l.t, l.try())
	require.NoError(l.t, l.decisions.Flush(l.t.Context()))
}

// try takes a turn that may fail.
func (l *lead) try() error {
	look, err := l.router.Look(l.t.Context())
	if err != nil {
		return err
	}
	return l.router.Turn(l.t.Context(), look)
}

func (l *lead) exec(query string, args ...any) {
	l.t.Helper()
	_, err := l.pool.Exec(l.t.Context(), query, args...)
	require.NoError(l.t, err)
}

func (l *lead) count(query string, args ...any) int {
	l.t.Helper()
	return count(l.t, l.pool, query, args...)
}

// texts returns the rows of a query of one text column.
func (l *lead) texts(query string, args ...any) []string {
	l.t.Helper()
	rows, err := l.pool.Query(l.t.Context(), query, args...)
	require.NoError(l.t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(l.t, err)
	return got
}

// worker makes an active worker with 10 slots.
func (l *lead) worker(id, labels string) {
	l.t.Helper()
	l.exec(`insert into sched.worker (id, client_id, labels, state, heartbeat_seq, slots, ceiling, load_at) values ($1, $1, $2, 'active', 1, 10, 10, now())`, id, labels)
}

func (l *lead) queue(name, selector, protocol string) {
	l.t.Helper()
	l.exec(`insert into sched.queue (name, base, selector, protocol) values ($1, $1, $2, $3)`, name, selector, protocol)
}

// tasks makes n tasks that wait in a queue.
func (l *lead) tasks(queue string, n int) {
	l.t.Helper()
	l.exec(`insert into sched.river_job (kind, queue, args, max_attempts) select 'k', $1, '{}', 25 from generate_series(1, $2)`, queue, n)
}

func (l *lead) assignments() []string {
	l.t.Helper()
	return l.texts(`select queue || ' ' || worker_id || ' ' || weight from sched.assignment order by queue, worker_id`)
}

func (l *lead) state(queue, column string) string {
	l.t.Helper()
	return l.texts(`select coalesce(to_jsonb(q) ->> $2, 'null') from sched.queue q where name = $1`, queue, column)[0]
}

func (l *lead) metric(name string) float64 {
	l.t.Helper()
	families, err := l.registry.Gather()
	require.NoError(l.t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	l.t.Fatalf("no metric %s", name)
	return 0
}

func TestTurnAssignsWhatLabelsMatch(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{"zone": "a"}`)
	l.worker("w-2", `{"zone": "b", "gpu": "true"}`)
	l.exec(`update sched.worker set protocols = '{grpc}', slots = 20 where id = 'w-2'`)
	l.queue("any", `{}`, "any")
	l.queue("gpu", `{"gpu": "true"}`, "any")
	l.queue("grpc", `{}`, "grpc")
	l.queue("both", `{"zone": "a", "gpu": "true"}`, "any")
	l.turn()
	require.Equal(t, []string{"any w-1 10", "any w-2 20", "gpu w-2 20", "grpc w-2 20"}, l.assignments())
	require.Equal(t, "labels match gpu=true; 20 slots", l.texts(`select reason from sched.assignment where queue = 'gpu'`)[0])
	require.Equal(t, "gpu=true together with zone=a", l.state("both", "unroutable"))
	require.Equal(t, "null", l.state("gpu", "unroutable"))
	require.Equal(t, `["w-1", "w-2", "w-2"]`, l.state("any", "wake"))
	require.Equal(t, "30", l.state("any", "weight_total"))
	require.Equal(t, "30", l.state("any", "free_slots"))
	require.Equal(t, "null", l.state("both", "wake"), "nobody is assigned: everybody hears")
	require.InDelta(t, 1, l.metric("sched_queues_unroutable"), 0)
	require.Equal(t, []string{"none lives", "both"}, append([]string{"none lives"}, l.texts(`select subject from sched.decision where what = 'unroutable'`)...))
}

func TestMetricsTellWhichQueuesArePaused(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.queue("mail", `{}`, "any")
	l.tasks("mail", 1)
	turns := func() {
		for range 6 {
			l.turn()
		}
	}
	turns()
	require.InDelta(t, 0, l.metric("sched_queue_paused"), 0)
	l.exec(`insert into sched.river_queue (name, paused_at, updated_at) values ('mail', now(), now())`)
	turns()
	require.InDelta(t, 1, l.metric("sched_queue_paused"), 0)
	require.InDelta(t, 1, l.metric("sched_queue_pending"), 0)
}

func TestTurnFollowsTheFleet(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{}`)
	l.queue("mail", `{}`, "any")
	l.turn()
	require.Equal(t, []string{"mail w-1 10"}, l.assignments())

	l.worker("w-2", `{"gpu": "true"}`)
	l.turn()
	require.Equal(t, []string{"mail w-1 10", "mail w-2 10"}, l.assignments(), "a new worker")

	l.queue("gpu", `{"gpu": "true"}`, "any")
	l.turn()
	require.Equal(t, []string{"gpu w-2 10", "mail w-1 10", "mail w-2 10"}, l.assignments(), "first use of a selector")

	l.exec(`update sched.worker set labels = '{"gpu": "true"}' where id = 'w-1'`)
	l.turn()
	require.Equal(t, []string{"gpu w-1 10", "gpu w-2 10", "mail w-1 10", "mail w-2 10"}, l.assignments(), "a label change")

	l.exec(`update sched.worker set state = 'draining' where id = 'w-2'`)
	l.turn()
	require.Equal(t, []string{"gpu w-1 10", "mail w-1 10"}, l.assignments(), "draining")

	l.exec(`update sched.queue set strategy = 'round_robin' where name = 'mail'`)
	l.turn()
	require.Equal(t, []string{"gpu w-1 10", "mail w-1 100"}, l.assignments(), "another strategy")

	l.exec(`update sched.worker set state = 'evicted' where id = 'w-1'`)
	l.turn()
	require.Empty(t, l.assignments(), "an eviction")
	require.Equal(t, "null", l.state("mail", "wake"))
	require.Equal(t, "0", l.state("mail", "free_slots"))
	require.Equal(t, []string{"w-2 none", "w-1 none"},
		l.texts(`select subject || ' ' || to_value from sched.decision where what = 'assignment' and to_value = 'none' order by id`))
}

func TestOverloadedWorkerLosesItsAssignments(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{}`)
	l.worker("w-2", `{}`)
	l.queue("mail", `{}`, "any")
	l.turn()
	beat := func(load float64) {
		l.exec(`update sched.worker set load_percent = $1, heartbeat_seq = heartbeat_seq + 1 where id = 'w-1'`, load)
		l.turn()
	}
	beat(80)
	require.Equal(t, []string{"mail w-1 5", "mail w-2 10"}, l.assignments(), "strained: half the weight")
	require.Equal(t, []string{"strained"}, l.texts(`select health from sched.worker where id = 'w-1'`))
	beat(90)
	beat(90)
	l.turn() // not a beat
	require.Equal(t, []string{"mail w-1 5", "mail w-2 10"}, l.assignments())
	beat(90)
	require.Equal(t, []string{"mail w-2 10"}, l.assignments(), "overloaded")
	require.Equal(t, []string{"overloaded"}, l.texts(`select health from sched.worker where id = 'w-1'`))
	require.Equal(t, `["w-2"]`, l.state("mail", "wake"))
	beat(50)
	require.Equal(t, []string{"mail w-1 10", "mail w-2 10"}, l.assignments())
	require.Equal(t, []string{"good strained", "strained overloaded", "overloaded good"},
		l.texts(`select from_value || ' ' || to_value from sched.decision where what = 'health' order by id`))
}

func TestTurnWritesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{}`)
	l.queue("mail", `{}`, "any")
	l.turn()
	written := func() []string {
		return l.texts(`select xmin::text from sched.queue where name = 'mail' union all select xmin::text from sched.assignment`)
	}
	before := written()
	l.turn()
	l.exec(`update sched.worker set slots = 10, heartbeat_seq = heartbeat_seq + 1, cpu = 0.5`)
	l.turn()
	require.Equal(t, before, written())
	l.exec(`update sched.worker set running = 3`)
	l.turn()
	require.NotEqual(t, before[0], written()[0], "free slots changed")
	require.Equal(t, before[1], written()[1], "weights don't follow the load of the moment")
}

func TestTurnNeverWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{}`)
	l.queue("mail", `{}`, "any")
	l.queue("other", `{}`, "any")
	tx, err := l.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `update sched.queue set description = 'held' where name = 'mail'`)
	require.NoError(t, err)
	l.turn()
	require.Equal(t, "1", l.state("other", "workers"))
	require.Equal(t, "0", l.state("mail", "workers"))
	require.NoError(t, tx.Commit(t.Context()))
	l.turn()
	require.Equal(t, "1", l.state("mail", "workers"))
}

func TestQueueOfALongTransactionIsSeenWhenItCommits(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{}`)
	tx, err := l.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `insert into sched.queue (name, base) values ('late', 'late')`)
	require.NoError(t, err)
	for i := range 3 {
		l.queue(fmt.Sprintf("q%d", i), `{}`, "any")
		l.turn()
	}
	require.NoError(t, tx.Commit(t.Context()))
	l.turn()
	require.Equal(t, "1", l.state("late", "workers"))
}

func TestPressureOfQueueAndFleet(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{}`)
	l.queue("mail", `{}`, "any")
	l.exec(`update sched.queue set max_pending = 100`)
	l.exec(`insert into sched.setting (key, value, description) values ('max_pending', '200', 'd') on conflict (key) do update set value = excluded.value`)
	l.tasks("mail", 95)
	l.exec(`insert into sched.river_job (kind, queue, args, max_attempts, scheduled_at) select 'k', 'mail', '{}', 25, now() + interval '1 hour' from generate_series(1, 3)`)
	l.turn()
	require.Equal(t, "red", l.state("mail", "pressure"))
	require.Equal(t, "95", l.state("mail", "pending"), "only those due")
	require.Equal(t, "95 of 100 tasks wait: red from 90 % on", l.state("mail", "pressure_reason"))
	require.Equal(t, []string{"green 95 w-leader 1 10"}, l.texts(`select concat_ws(' ', pressure, pending, leader, workers, slots) from sched.fleet where computed_at > now() - interval '1 minute'`))

	l.tasks("mail", 500)
	l.turn()
	require.Equal(t, "100", l.state("mail", "pending"), "never counted beyond max_pending")

	l.exec(`delete from sched.river_job where id in (select id from sched.river_job order by scheduled_at desc limit (select count(*) - 87 from sched.river_job))`)
	l.turn()
	require.Equal(t, "red", l.state("mail", "pressure"), "87 of 100: not yet far enough below 90")
	l.exec(`delete from sched.river_job where id in (select id from sched.river_job limit 20)`)
	l.turn()
	require.Equal(t, "yellow", l.state("mail", "pressure"), "67 of 100: not yet far enough below 70")
	l.exec(`delete from sched.river_job`)
	l.turn()
	require.Equal(t, "green", l.state("mail", "pressure"))
	require.Equal(t, "0", l.state("mail", "pending"))
	require.Equal(t, "null", l.state("mail", "pressure_reason"))
	require.Equal(t, []string{"green red", "red yellow", "yellow green"},
		l.texts(`select from_value || ' ' || to_value from sched.decision where what = 'pressure' and subject = 'mail' order by id`))

	l.exec(`update sched.worker set running = 9`)
	l.turn()
	require.Equal(t, "red", l.state("mail", "pressure"))
	require.Equal(t, "its workers are 90 % full: red from 85 % on", l.state("mail", "pressure_reason"))
	require.Equal(t, []string{"red"}, l.texts(`select pressure from sched.fleet`))
	l.exec(`insert into sched.setting (key, value, description) values ('load_red', '0.95', 'd'), ('load_yellow', '0.95', 'd')
		on conflict (key) do update set value = excluded.value`)
	l.turn()
	require.Equal(t, "red", l.state("mail", "pressure"), "within the hysteresis of the new threshold")
	l.exec(`update sched.worker set running = 8`)
	l.turn()
	require.Equal(t, "green", l.state("mail", "pressure"), "thresholds are hot")
}

func TestNobodyIsWokenWhilePollingOrFull(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{}`)
	l.worker("w-2", `{}`)
	l.queue("mail", `{}`, "any")
	step := func(update, want string) {
		t.Helper()
		l.exec(update)
		l.turn()
		require.Equal(t, want, l.state("mail", "wake"), update)
	}
	step(`update sched.worker set running = 5 where id = 'w-1'`, `["w-1", "w-2", "w-2"]`)
	step(`update sched.worker set polling = true where id = 'w-2'`, `[]`)
	step(`update sched.worker set load_at = now() - interval '1 minute' where id = 'w-2'`, `["w-1", "w-2", "w-2"]`)
	step(`update sched.worker set polling = false, running = 10`, `[]`)
	step(`update sched.worker set running = 0, holds = '{app down}' where id = 'w-1'`, `[]`)
	step(`update sched.worker set holds = '{}'`, `["w-1"]`)
}

func TestNewLeaderTakesOver(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{}`)
	l.queue("mail", `{}`, "any")
	l.turn()
	l.exec(`insert into sched.assignment (queue, worker_id, weight, reason, version) values ('mail', 'w-dead', 1, 'r', 1), ('gone', 'w-1', 1, 'r', 1)`)
	other := leadOn(t, l.pool, "w-other")
	other.turn()
	require.Equal(t, []string{"mail w-1 10"}, l.assignments())
	require.Equal(t, []string{"w-other 1"}, l.texts(`select leader || ' ' || topology_version from sched.fleet`))

	l.exec(`update sched.worker set slots = 20`)
	other.turn()
	l.exec(`update sched.worker set slots = 10`)
	l.turn() // leads again, and starts from what the other wrote
	require.Equal(t, []string{"mail w-1 10"}, l.assignments())
	require.Equal(t, []string{"w-leader"}, l.texts(`select leader from sched.fleet`))
}

func TestManyQueuesCostNothingWhileIdle(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.exec(`insert into sched.queue (name, base) select 'q' || n, 'q' || n from generate_series(1, 10000) n`)
	l.exec(`insert into sched.worker (id, client_id, state, heartbeat_seq, slots, ceiling) select 'w-' || n, 'w-' || n, 'active', 1, 10, 10 from generate_series(1, 200) n`)
	for range 12 { // the state of 1000 queues a turn
		l.turn()
	}
	require.Equal(t, 0, l.count(`select count(*) from sched.assignment`), "2 million rows would be too many, and no queue is active")
	l.tasks("q77", 3)
	l.turn()
	require.Equal(t, 200, l.count(`select count(*) from sched.assignment where queue = 'q77'`))

	l.exec(`update sched.worker set heartbeat_seq = heartbeat_seq + 1, running = 1`)
	l.exec(`analyze sched.queue, sched.worker`)
	tx, err := l.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	quiet := leadOn(t, l.pool, "w-leader")
	quiet.router = routing.NewRouter(tx, func() string { return "w-leader" }, quiet.decisions, prometheus.NewRegistry())
	quiet.turn() // reads everything
	touched := func() (read, written int) {
		require.NoError(t, tx.QueryRow(t.Context(), `select sum(coalesce(idx_tup_fetch, 0) + seq_tup_read), sum(n_tup_upd + n_tup_ins + n_tup_del)
			from pg_stat_xact_user_tables where schemaname = 'sched' and relname in ('queue', 'assignment', 'worker', 'river_job')`).Scan(&read, &written))
		return read, written
	}
	// Transactions of other databases that are still open make it read again what may have committed since.
	running := 1
	require.Eventually(t, func() bool {
		running = 3 - running
		_, err = tx.Exec(t.Context(), `update sched.worker set heartbeat_seq = heartbeat_seq + 1, running = $1`, running)
		require.NoError(t, err)
		read, written := touched()
		quiet.turn()
		readAfter, writtenAfter := touched()
		require.LessOrEqual(t, writtenAfter-written, 1, "only the queue in which tasks wait")
		return readAfter-read <= 1000 // workers, and what waits
	}, patience, pause)
}

func TestTopologyVersions(t *testing.T) {
	t.Parallel()
	l := setup(t)
	l.worker("w-1", `{"zone": "a"}`)
	l.turn()
	l.worker("w-2", `{}`)
	l.turn()
	between := time.Time{}
	require.NoError(t, l.pool.QueryRow(t.Context(), `select clock_timestamp()`).Scan(&between))
	for n := 3; n <= 6; n++ {
		l.worker(fmt.Sprintf("w-%d", n), `{}`)
		l.exec(`update sched.worker set state = 'done' where id = $1`, fmt.Sprintf("w-%d", n-2))
		l.turn()
	}
	require.Equal(t, []string{"4", "5", "6"}, l.texts(`select version::text from sched.topology_snapshot order by version`), "the last three")
	require.Equal(t, []string{"true"}, l.texts(`select distinct (sha256 = encode(sha256(convert_to(topology::text, 'UTF8')), 'hex')
		and taken_at_ns = (extract(epoch from taken_at) * 1000000)::bigint * 1000)::text from sched.topology_snapshot`))
	// The log leads from each version to the next: what each joined or left is in it, at its time.
	require.Equal(t, []string{"1 join w-1", "2 join w-2", "3 join w-3", "3 leave w-1", "4 join w-4", "4 leave w-2", "5 join w-5", "5 leave w-3", "6 join w-6", "6 leave w-4"},
		l.texts(`select version || ' ' || what || ' ' || worker_id from sched.topology_change order by version, what, worker_id`))
	require.Equal(t, []string{"a"}, l.texts(`select before -> 'labels' ->> 'zone' from sched.topology_change where what = 'leave' and worker_id = 'w-1'`))
	require.Equal(t, []string{"w-5", "w-6"}, l.texts(`select jsonb_object_keys(topology) from sched.topology_snapshot where version = 6 order by 1`))
	require.Equal(t, []string{"2"}, l.texts(`select max(version)::text from sched.topology_change where at <= '`+between.Format(time.RFC3339Nano)+`'`))
}

func TestSidecarsAreToldOfChanges(t *testing.T) {
	t.Parallel()
	l := setup(t)
	conn, err := l.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), `listen "sched.topology"`)
	require.NoError(t, err)
	l.worker("w-1", `{}`)
	l.queue("mail", `{}`, "any")
	l.turn()
	note, err := conn.Conn().WaitForNotification(t.Context())
	require.NoError(t, err)
	require.Equal(t, "1", note.Payload)
	l.turn() // nothing changed: nothing is told
	l.queue("new", `{}`, "any")
	l.turn()
	note, err = conn.Conn().WaitForNotification(t.Context())
	require.NoError(t, err)
	require.Equal(t, "1", note.Payload, "assignments changed, the topology did not")
	_, err = conn.Exec(t.Context(), `select 1`)
	require.NoError(t, err)
	short, cancel := contextThatEnds(t)
	defer cancel()
	_, err = conn.Conn().WaitForNotification(short)
	require.Error(t, err, "no other")
}
