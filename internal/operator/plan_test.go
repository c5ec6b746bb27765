package operator

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/sql/dbq"
)

const planRows = 1_000_000

// fill puts a million tasks into river_job, 90 % of them completed. The secondary
// indexes are built afterwards, which is twice as fast.
func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
		WHERE indrelid = 'sched.river_job'::regclass AND NOT indisprimary`)
	require.NoError(t, err)
	type index struct{ Name, Definition string }
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	require.NoError(t, err)
	for _, i := range indexes {
		exec(t, pool, "DROP INDEX "+i.Name)
	}
	exec(t, pool, "ALTER TABLE sched.river_job SET UNLOGGED, SET (autovacuum_enabled = false)") // the statistics are those below
	// All that failed did so long ago: a walk from the newest task would pass by
	// nearly all others before it met one.
	exec(t, pool, `INSERT INTO sched.river_job (kind, args, queue, max_attempts, attempt, state, scheduled_at, attempted_at, finalized_at, attempted_by, metadata)
		SELECT 'kind_' || g % 20, '{}', (ARRAY['default', 'mail'])[1 + g % 2], 25, 1, s.state::sched.river_job_state, now() - (1000000 - g) * interval '1 second',
			CASE WHEN s.state <> 'available' THEN now() - (1000000 - g) * interval '1 second' END,
			CASE WHEN s.state IN ('completed', 'discarded') THEN now() END,
			CASE WHEN s.state <> 'available' THEN '{w-one}'::text[] END,
			CASE WHEN g % 10 = 0 THEN jsonb_build_object('sched:batch', 'batch-' || g / 20000) ELSE '{}' END
		FROM generate_series(1, $1::int) AS g
		CROSS JOIN LATERAL (SELECT CASE
			WHEN g <= 30000 AND g % 3 = 0 THEN 'discarded'
			WHEN g % 100 < 90 THEN 'completed'
			WHEN g % 100 < 98 THEN 'available'
			WHEN g % 10000 = 9999 THEN 'running'
			ELSE 'scheduled' END AS state) AS s`, planRows)
	for _, i := range indexes {
		exec(t, pool, i.Definition)
	}
	exec(t, pool, "INSERT INTO sched.queue (name, base) VALUES ('default', 'default'), ('mail', 'mail')")
	exec(t, pool, "INSERT INTO sched.worker (id, client_id, started_at) VALUES ('w-one', 'c', now() - interval '3 hours')")
	exec(t, pool, "VACUUM ANALYZE sched.river_job")
}

// recorder remembers the statements that are sent.
type recorder struct {
	sent []pgx.TraceQueryStartData
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	r.sent = append(r.sent, data)

	return ctx
}

func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// What an operator asks and does stays quick however many tasks there are.
func TestPlansOnAMillionTasks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills a table with a million rows")
	}
	pool := pgtest.New(t)
	fill(t, pool)
	seen := &recorder{}
	cfg, err := pgx.ParseConfig(pgtest.DSN(pool))
	require.NoError(t, err)
	cfg.Tracer, cfg.DefaultQueryExecMode = seen, pgx.QueryExecModeCacheDescribe
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	o := &Operator{conn: conn, q: dbq.New(conn)}

	const start, batch, claim = "sched_river_job_status_start", "sched_river_job_batch", "sched_river_job_available"
	hour := time.Now().Add(-time.Hour)
	list := func(f Filter, after string) func() error {
		return func() error { _, _, err := o.Tasks(t.Context(), f, after, 50); return err }
	}
	match := func(action Action, f Filter) func() error {
		return func() error { _, err := o.Match(t.Context(), action, f, MaxMatch); return err }
	}
	for _, tt := range []struct {
		name  string
		ask   func() error
		index string
		reads int // rows that may be read
	}{
		{"newest", list(Filter{}, ""), "river_job_pkey", 51},
		{"next page", list(Filter{}, "500000"), "river_job_pkey", 51},
		{"frequent status", list(Filter{Statuses: []string{"completed"}}, ""), "river_job_pkey", 100},
		{"rare status", list(Filter{Statuses: []string{"running"}}, ""), start, 150},
		{"two rare statuses", list(Filter{Statuses: []string{"running", "pending"}}, ""), start, 150},
		{"status since", list(Filter{Statuses: []string{"completed"}, Since: hour}, ""), start, 110},
		{"old failures", list(Filter{Statuses: []string{"discarded"}, Until: hour}, ""), start, 110},
		{"all since", list(Filter{Since: hour}, ""), start, 8 * 60},
		{"until", list(Filter{Until: hour}, ""), start, 8 * 60},
		{"worker", list(Filter{Worker: "w-one"}, ""), start, 8 * 60},
		{"batch", list(Filter{Batch: "batch-3"}, ""), batch, 2100},
		{"batch and status", list(Filter{Batch: "batch-3", Statuses: []string{"discarded"}}, ""), batch, 2100},
		{"available in a queue", list(Filter{Statuses: []string{"available"}, Queues: []string{"mail"}}, ""), "", 3000},
		{"retry failures of a kind", match(Retry, Filter{Kinds: []string{"kind_3"}}), start, 11_000},
		{"retry failures since", match(Retry, Filter{Kinds: []string{"kind_3"}, Since: hour}), start, 100},
		{"cancel a batch", match(Cancel, Filter{Batch: "batch-3"}), batch, 2100},
		{"cancel what waits in a queue", match(Cancel, Filter{Statuses: []string{"available"}, Queues: []string{"mail"}}), "", 80_000},
		{"one task", func() error { _, err := o.Task(t.Context(), 77, 50); return err }, "river_job_pkey", 10},
		{"batches", func() error { _, err := o.Batches(t.Context(), "batch-2", 3); return err }, batch, 10_000},
		{"one batch", func() error { _, err := o.Batch(t.Context(), "batch-3"); return err }, batch, 2100},
		{"queues", func() error { _, err := o.Queues(t.Context(), nil, "", 100, 1000); return err }, claim, 2*1000 + 2*1000 + 10},
		{"retry", func() error {
			return o.ChangeMatched(t.Context(), Retry, Filter{}, []int64{3, 6, 9}, func(Change) {})
		}, "river_job_pkey", 10},
	} {
		seen.sent = nil
		require.NoError(t, tt.ask(), tt.name)
		plan, reads := plans(t, pool, seen.sent)
		require.Contains(t, plan, tt.index, "%s:\n%s", tt.name, plan)
		require.NotContains(t, plan, "Seq Scan on river_job", "%s:\n%s", tt.name, plan)
		require.LessOrEqual(t, reads, tt.reads, "%s:\n%s", tt.name, plan)
	}
}

// plans explains statements with the arguments that they were sent with, and says
// how many rows of river_job they read.
func plans(t *testing.T, pool *pgxpool.Pool, sent []pgx.TraceQueryStartData) (text string, reads int) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), "SET LOCAL jit = off")
	require.NoError(t, err)
	for _, s := range sent {
		if !strings.HasPrefix(s.SQL, "-- name: ") || strings.Contains(s.SQL, "enqueue_many") {
			continue
		}
		args := append([]any{pgx.QueryExecModeCacheDescribe}, s.Args...)
		rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+s.SQL, args...)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		text += strings.Join(lines, "\n") + "\n"
	}

	return text, rowsRead(t, text)
}

// rowsRead adds up what a plan's scans of river_job read, and threw away.
func rowsRead(t *testing.T, plan string) int {
	t.Helper()
	total := 0
	inScan := false
	for line := range strings.SplitSeq(plan, "\n") {
		var rows float64
		var loops int
		if at := strings.Index(line, "(actual rows="); at >= 0 {
			inScan = strings.Contains(line, " on river_job ")
			if inScan {
				_, err := fmt.Sscanf(line[at:], "(actual rows=%g loops=%d)", &rows, &loops)
				require.NoError(t, err, line)
				total += int(rows * float64(loops))
			}

			continue
		}
		if inScan && strings.Contains(line, "Rows Removed by") {
			_, count, _ := strings.Cut(line, ": ")
			n, err := strconv.Atoi(strings.TrimSpace(count))
			require.NoError(t, err, line)
			total += n
		}
	}

	return total
}
