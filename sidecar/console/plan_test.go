package console_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// recorder remembers the statements that are sent.
type recorder struct {
	mu   sync.Mutex
	sent []pgx.TraceQueryStartData
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, data)
	return ctx
}

func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// taken hands over what was sent since it was asked last.
func (r *recorder) taken() []pgx.TraceQueryStartData {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.sent = nil
	return sent
}

// However many tasks there are, every page reads them by an index.
func TestPagesReadByIndex(t *testing.T) {
	t.Parallel()
	owner := pgtest.New(t)
	owns := &bundle{t: t, pool: owner}
	owns.exec(`ALTER TABLE sched.river_job SET (autovacuum_enabled = false)`) // the statistics are those below
	owns.exec(`INSERT INTO sched.river_job (kind, args, queue, attempt, state, scheduled_at, attempted_at, finalized_at, attempted_by, metadata)
		SELECT 'kind_' || g % 20, '{}', (ARRAY['default', 'mail'])[1 + g % 2], 1, s.state::sched.river_job_state, now() - (200000 - g) * interval '1 second',
			CASE WHEN s.state <> 'available' THEN now() - (200000 - g) * interval '1 second' END,
			CASE WHEN s.state IN ('completed', 'discarded', 'cancelled') THEN now() - (200000 - g) * interval '1 second' END, '{w-one}',
			CASE WHEN g % 100 = 0 THEN '{"sched:batch": "b"}'::jsonb ELSE '{}' END
		FROM generate_series(1, 200000) AS g
		CROSS JOIN LATERAL (SELECT (ARRAY['available', 'running', 'scheduled', 'retryable', 'discarded', 'cancelled'])[1 + g / 7 % 6] AS rare) AS r
		CROSS JOIN LATERAL (SELECT CASE WHEN g % 10 = 0 THEN r.rare ELSE 'completed' END AS state) AS s`)
	owns.exec(`INSERT INTO sched.queue (name, base) VALUES ('default', 'default'), ('mail', 'mail')`)
	owns.exec(`INSERT INTO sched.worker (id, client_id) VALUES ('w-one', 'c')`)
	owns.exec(`ANALYZE sched.river_job`)
	seen := &recorder{}
	config := owner.Config()
	config.ConnConfig.Tracer = seen
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	b := serve(t, pool)
	for _, path := range append(pages(), "/console/tasks/77", "/console/workers/w-one", "/console/queues/mail", "/console/tasks?kind=kind_3", "/console/tasks?kind=none",
		"/console/tasks?worker=w-one&before=5000", "/console/tasks?batch=b", "/console/tasks?status=available", "/console/tasks?status=available&queue=mail", "/console/tasks?status=available&kind=none",
		"/console/tasks?status=completed&before=7.1796018111377281.0.", "/console/tasks?status=available&before=7.1796018111377281.1.default",
		"/console/tasks?status=running", "/console/tasks?status=scheduled", "/console/tasks?status=retryable&kind=kind_3", "/console/tasks?status=completed&kind=none",
		"/console/tasks?status=discarded", "/console/tasks?status=cancelled", "/console/tasks?status=pending") {
		b.page(path)
		plan := explained(t, owner, seen.taken())
		require.NotEmpty(t, plan, path)
		require.NotContains(t, plan, "Seq Scan on river_job", "%s:\n%s", path, plan)
		for status, index := range map[string]string{"available": "sched_river_job_available", "completed": "river_job_state_and_finalized_at_index"} {
			if strings.Contains(path, "status="+status) && !strings.Contains(path, "kind=") { // in its order: no more is read than a page
				require.Regexp(t, "Index Scan( Backward)? using "+index, plan, path)
			}
		}
	}
}

// explained are the plans of statements, for the arguments that they were sent with.
func explained(t *testing.T, pool *pgxpool.Pool, sent []pgx.TraceQueryStartData) string {
	t.Helper()
	var text strings.Builder
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = force_custom_plan"); err != nil {
			return err
		}
		for _, s := range sent {
			if !strings.HasPrefix(s.SQL, "-- name: ") {
				continue
			}
			rows, err := tx.Query(t.Context(), "EXPLAIN (COSTS OFF) "+s.SQL, append([]any{pgx.QueryExecModeCacheDescribe}, s.Args...)...)
			if err != nil {
				return err
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			text.WriteString(strings.Join(lines, "\n") + "\n")
		}
		return nil
	}))
	return text.String()
}
