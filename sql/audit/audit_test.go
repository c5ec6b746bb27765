package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/sql/audit"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// ago reads times as tests write them.
func ago(text string) (time.Time, error) {
	if text == "now" {
		return time.Now().Add(time.Minute), nil
	}
	if text == "7d" {
		text = "168h"
	}
	d, err := time.ParseDuration(text)
	return time.Now().Add(-d), err
}

func questions(t *testing.T) map[string]audit.Question {
	t.Helper()
	list, err := audit.Questions()
	require.NoError(t, err)
	byName := map[string]audit.Question{}
	for _, q := range list {
		byName[q.Name] = q
	}
	return byName
}

// asked returns the rows of an answer, with NULL as nil.
func asked(t *testing.T, conn *pgx.Conn, q audit.Question, values map[string]string) []map[string]any {
	t.Helper()
	args, err := q.Bind(values, ago)
	require.NoError(t, err)
	rows, err := conn.Query(t.Context(), "SELECT to_jsonb(a) FROM (\n"+q.SQL+"\n) AS a", pgx.QueryExecModeSimpleProtocol, pgx.NamedArgs(args))
	require.NoError(t, err)
	answer, err := pgx.CollectRows(rows, pgx.RowTo[map[string]any])
	require.NoError(t, err, q.Name)
	return answer
}

// history is a database in which everything happened that is asked for, partly archived. It returns a
// task that failed, was rescued and completed.
func history(t *testing.T, pool *pgxpool.Pool) (task int64) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, pool.QueryRow(ctx, `SELECT sched.enqueue('mail', '{}', queue => 'post', batch => 'night')`).Scan(&task))
	_, err := pool.Exec(ctx, `
		INSERT INTO sched.worker (id, client_id, hostname, state) VALUES ('w-dead', 'c', 'alpha', 'evicted'), ('w-live', 'd', 'beta', 'active');
		INSERT INTO sched.attempt_log (task_id, attempt, worker_id, started_at, ended_at, outcome, error)
		SELECT id, 1, 'w-live', now() - interval '50 min', now() - interval '49 min', 'retry', 'boom' FROM sched.river_job
		UNION ALL SELECT id, 2, 'w-dead', now() - interval '45 min', now() - interval '40 min', 'rescued', 'worker w-dead died while it ran this task' FROM sched.river_job;
		UPDATE sched.river_job SET state = 'completed', attempt = 3, attempted_by = '{w-live,w-dead,w-live}', created_at = now() - interval '55 min', scheduled_at = now() - interval '55 min',
			attempted_at = now() - interval '39 min', finalized_at = now() - interval '38 min', metadata = metadata || '{"sched:lost": 1, "output": 7}';
		SELECT sched.enqueue('bill');
		UPDATE sched.river_job SET state = 'discarded', attempt = 1, attempted_by = '{w-live}', attempted_at = now() - interval '30 min', finalized_at = now() - interval '29 min',
			errors = ARRAY['{"attempt": 1, "error": "no paper"}'::jsonb] WHERE kind = 'bill';
		SELECT sched.archive_tasks(s, '2000-01-01', 100) FROM unnest('{completed,discarded}'::sched.river_job_state[]) AS s;
		SELECT sched.enqueue('paint', selector => '{"gpu": "true"}');
		UPDATE sched.queue SET unroutable = 'gpu=true' WHERE selector <> '{}';
		SELECT sched.enqueue('now');
		UPDATE sched.river_job SET state = 'running', attempt = 1, attempted_by = '{w-live}', attempted_at = now() - interval '1 s' WHERE kind = 'now';
		UPDATE sched.setting SET value = '999' WHERE key = 'max_pending';
		INSERT INTO sched.decision (what, subject, who, from_value, to_value, reason) VALUES ('slots', 'w-live', 'w-live', '2', '4', 'demand')`)
	require.NoError(t, err)
	return task
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	task := float64(history(t, pool))
	conn, err := pgx.Connect(t.Context(), pgtest.DSN(pool))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	byName := questions(t)
	seen := map[string]bool{}
	answer := func(name string, params ...string) []map[string]any {
		seen[name] = true
		values := map[string]string{}
		for i := 0; i < len(params); i += 2 {
			values[params[i]] = params[i+1]
		}
		return asked(t, conn, byName[name], values)
	}

	runs := answer("runs")
	require.Len(t, runs, 5, "three attempts of one, and one each of two")
	require.Equal(t, "running", runs[0]["outcome"])
	require.Equal(t, "rescued", answer("runs", "worker", "w-dead", "limit", "10")[0]["outcome"])
	require.Equal(t, "alpha", answer("runs", "worker", "w-dead")[0]["host"])
	require.Len(t, answer("runs", "status", "discarded"), 1)

	again := answer("reruns")
	require.Len(t, again, 1)
	require.InDelta(t, task, again[0]["task_id"], 0)
	require.Equal(t, "rescued 1, retry 1", again[0]["why"])
	require.Equal(t, "worker w-dead died while it ran this task", again[0]["last_error"])

	waits := answer("waits")
	require.InDelta(t, task, waits[0]["task_id"], 0)
	require.Equal(t, "00:16:00", waits[0]["waited"])
	require.Len(t, waits, 3, "also what waits now")

	failures := answer("failures")
	require.Len(t, failures, 1)
	require.Equal(t, "bill", failures[0]["kind"])
	require.Equal(t, "no paper", failures[0]["last_error"])
	require.InDelta(t, 100, failures[0]["discarded_percent"], 0)

	enqueuers := answer("enqueuers")
	require.Len(t, enqueuers, 4)
	require.Empty(t, answer("enqueuers", "user", "nobody"))

	changed := answer("interventions", "object", "max_pending")
	require.Len(t, changed, 1)
	require.Equal(t, map[string]any{"value": float64(999)}, changed[0]["after"])

	dead := answer("dead-workers")
	require.Len(t, dead, 1)
	require.Equal(t, "w-dead", dead[0]["worker_id"])
	require.Equal(t, "completed", dead[0]["status_now"])

	require.Equal(t, "demand", answer("scaling")[0]["reason"])
	nobody := answer("unroutable")
	require.Len(t, nobody, 1)
	require.Equal(t, "gpu=true", nobody[0]["nobody_offers"])

	var tasks float64
	for _, hour := range answer("latency") {
		tasks += hour["tasks"].(float64)
	}
	require.InDelta(t, 2, tasks, 0)

	var events []string
	for _, event := range answer("story", "task", "1") {
		events = append(events, event["event"].(string))
	}
	require.Equal(t, []string{"enqueued", "started", "retry", "started", "rescued", "started", "completed", "is completed"}, events)
	require.Len(t, seen, len(byName), "each question is asked")
}

// planRows are enough for the planner to want indexes, and few enough for a test.
const planRows = 60_000

// What is asked about an hour reads that hour, however many tasks are archived.
func TestPlans(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	_, err := pool.Exec(t.Context(), `SELECT sched.archive_months()`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO sched.task_archive (id, kind, queue, status, start_time, end_time, worker_id, attempt, max_attempts, priority, run_at, created_at,
			last_logged, args, metadata, attempted_by, tags)
		SELECT g, 'k', 'q', CASE WHEN g % 50 = 0 THEN 'discarded' ELSE 'completed' END::sched.river_job_state, now() - g * interval '20 s', now() - g * interval '20 s', 'w-' || g % 100,
			1, 1, 1, now() - g * interval '20 s', now() - g * interval '20 s', false, '{}', '{}', CASE WHEN g % 40 = 0 THEN '{a,b}'::text[] ELSE '{a}' END, '{}'
		FROM generate_series(1, $1::int) AS g`, planRows)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), "ANALYZE sched.task_archive")
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), pgtest.DSN(pool))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	// Small partitions, and those that hold nothing, are read as a whole.
	rows, err := conn.Query(t.Context(), "SELECT substr(tableoid::regclass::text, 7) FROM sched.task_archive GROUP BY tableoid HAVING count(*) > 5000")
	require.NoError(t, err)
	large, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, large)
	for name, q := range questions(t) {
		values := map[string]string{"since": "1h"}
		if name == "story" {
			values = map[string]string{"task": "77"}
		}
		if name == "unroutable" {
			values = nil
		}
		args, err := q.Bind(values, ago)
		require.NoError(t, err)
		rows, err := conn.Query(t.Context(), "EXPLAIN (COSTS OFF) "+q.SQL, pgx.QueryExecModeSimpleProtocol, pgx.NamedArgs(args))
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err, name)
		plan := strings.Join(lines, "\n")
		for _, partition := range large {
			require.NotContains(t, plan, "Seq Scan on "+partition+" ", name)
		}
	}
}

// What narrows to almost nothing costs no more than what doesn't: with bounds of two hundred rows, no
// question walks through all that there is in search of it.
func TestRareFiltersAreBounded(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	// Early in a month what was archived would lie in two partitions, and its plan be by chance.
	const latest = "(CASE WHEN now() < date_trunc('month', now(), 'UTC') + interval '9 hours' THEN date_trunc('month', now(), 'UTC') - interval '1 s' ELSE now() END)"
	_, err := pool.Exec(t.Context(), strings.ReplaceAll(`SELECT sched.archive_months();
		SET max_parallel_workers_per_gather = 0;
		INSERT INTO sched.task_archive (id, kind, queue, status, start_time, end_time, worker_id, attempt, max_attempts, priority, run_at, created_at,
			last_logged, args, metadata, attempted_by, tags)
		SELECT g, 'k', 'q', (ARRAY['completed', 'discarded'])[1 + g % 2]::sched.river_job_state, now() - g * interval '1 s', now() - g * interval '1 s', 'w-' || g % 100,
			1, 1, 1, now() - g * interval '1 s', now() - g * interval '1 s', false, '{}', '{}', '{a,b}', '{}'
		FROM generate_series(1, 30000) AS g;
		INSERT INTO sched.river_job (kind, queue, args, state, scheduled_at, attempted_at, attempted_by, finalized_at)
		SELECT 'k', 'q', '{}', s, now() - g * interval '1 s', now() - g * interval '1 s', '{a,b}', CASE WHEN s = 'completed' THEN now() - g * interval '1 s' END
		FROM generate_series(1, 6000) AS g CROSS JOIN unnest('{available,running,retryable,completed}'::sched.river_job_state[]) AS s;
		INSERT INTO sched.queue (name, base, unroutable) VALUES ('q', 'q', 'gpu=true');
		ANALYZE sched.task_archive, sched.river_job`, "now()", latest))
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), pgtest.DSN(pool))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	const bound = 24_000
	small := strings.NewReplacer("LIMIT 100000", "LIMIT 200", "LIMIT 20000", "LIMIT 200", "ELSE 20000", "ELSE 200", "LIMIT 10000", "LIMIT 200", "10000 / l.lanes", "200 / l.lanes", "THEN 500", "THEN 200")
	for name, q := range questions(t) {
		for _, p := range q.Params {
			values := map[string]string{"since": "720h", p.Name: "none"}
			switch {
			case p.Type != audit.Text:
				continue
			case name == "unroutable":
				values = map[string]string{p.Name: "q"}
			case p.Name == "status":
				values[p.Name] = "cancelled"
			}
			args, err := q.Bind(values, ago)
			require.NoError(t, err)
			total, nodes := rowsRead(t, conn, small.Replace(q.SQL), args)
			if total >= bound { // autovacuum may be at the statistics of tables that are seconds old
				_, err := conn.Exec(t.Context(), "ANALYZE sched.task_archive, sched.river_job")
				require.NoError(t, err)
				total, nodes = rowsRead(t, conn, small.Replace(q.SQL), args)
			}
			if total >= bound {
				t.Errorf("%s by %s reads\n%s", name, p.Name, strings.Join(nodes, "\n"))
			}
		}
	}
}

// rowsRead is how many rows a question reads of tables, and which parts of its plan do.
func rowsRead(t *testing.T, conn *pgx.Conn, sql string, args map[string]any) (rows float64, nodes []string) {
	t.Helper()
	var plan []byte
	err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+sql, pgx.QueryExecModeSimpleProtocol, pgx.NamedArgs(args)).Scan(&plan)
	require.NoError(t, err, sql)
	var roots []struct{ Plan planNode }
	require.NoError(t, json.Unmarshal(plan, &roots))
	return roots[0].Plan.read()
}

// planNode is a node of a plan that ran.
type planNode struct {
	Type     string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Index    string     `json:"Index Name"`
	Rows     float64    `json:"Actual Rows"`
	Removed  float64    `json:"Rows Removed by Filter"`
	Loops    float64    `json:"Actual Loops"`
	Plans    []planNode `json:"Plans"`
}

// read is how many rows of tables it and those below it read, and which of them did.
func (n planNode) read() (rows float64, nodes []string) {
	if n.Relation != "" && n.Loops > 0 {
		rows = (n.Rows + n.Removed) * n.Loops
		nodes = []string{fmt.Sprintf("%s of %s %s: %.0f", n.Type, n.Relation, n.Index, rows)}
	}
	for _, below := range n.Plans {
		r, names := below.read()
		rows += r
		nodes = append(nodes, names...)
	}
	return rows, nodes
}

func TestBind(t *testing.T) {
	t.Parallel()
	q := questions(t)["runs"]
	for _, tt := range []struct{ key, value, want string }{
		{"nobody", "1", `runs has none called "nobody": it has since, until, worker, kind, status, limit`},
		{"limit", "0", `limit of runs: "0" is not a whole number from 1 to 10000`},
		{"limit", "many", `"many" is not a whole number`},
		{"since", "soon", "since of runs"},
	} {
		_, err := q.Bind(map[string]string{tt.key: tt.value}, ago)
		require.ErrorIs(t, err, audit.ErrBadValue)
		require.ErrorContains(t, err, tt.want)
	}
	_, err := questions(t)["story"].Bind(nil, ago)
	require.ErrorContains(t, err, "task of story: it must be given")
	_, err = questions(t)["story"].Bind(map[string]string{"task": "x"}, ago)
	require.ErrorContains(t, err, `"x" is no task's id`)
	args, err := q.Bind(map[string]string{"worker": "w-one"}, ago)
	require.NoError(t, err)
	require.Equal(t, "w-one", args["worker"])
	require.Nil(t, args["kind"])
	require.EqualValues(t, 100, args["limit"])
}
