package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// safePath is the search path of every function: pg_temp last, so that a
// temporary object can't stand in for one of ours.
const safePath = "search_path=pg_catalog, pg_temp"

func TestEverythingHasAComment(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.Empty(t, all[string](t, pool, `
		WITH object (class, id, sub, name) AS (
			SELECT 'pg_namespace'::regclass, oid, 0, 'schema ' || nspname FROM pg_namespace WHERE nspname = 'sched'
			UNION ALL
			SELECT 'pg_class'::regclass, oid, 0, 'relation ' || relname FROM pg_class
			WHERE relnamespace = 'sched'::regnamespace AND (relkind IN ('r', 'p', 'v')
				OR (relkind IN ('i', 'I') AND NOT relispartition AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = pg_class.oid AND i.indisprimary)))
			UNION ALL
			SELECT 'pg_class'::regclass, c.oid, a.attnum, 'column ' || c.relname || '.' || a.attname
			FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
			WHERE c.relnamespace = 'sched'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
			UNION ALL
			SELECT 'pg_proc'::regclass, oid, 0, 'function ' || proname FROM pg_proc WHERE pronamespace = 'sched'::regnamespace
			UNION ALL
			SELECT 'pg_type'::regclass, oid, 0, 'type ' || typname FROM pg_type 
			WHERE typnamespace = 'sched'::regnamespace
				AND (typtype = 'e' OR EXISTS (SELECT FROM pg_class c WHERE c.oid = typrelid AND c.relkind = 'c'))
			UNION ALL
			SELECT 'pg_trigger'::regclass, t.oid, 0, 'trigger ' || tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
			WHERE c.relnamespace = 'sched'::regnamespace AND NOT tgisinternal
		)
		SELECT name FROM object
		WHERE NOT EXISTS (SELECT FROM pg_description d WHERE d.classoid = class AND d.objoid = id AND d.objsubid = sub)
		ORDER BY 1`))
}

func TestEveryFunctionHasTheSafeSearchPath(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	// River's function is the predicate of its unique index: it reads nothing,
	// and with a setting Postgres could not inline it.
	require.Equal(t, []string{"river_job_state_in_bitmask"}, all[string](t, pool, `SELECT proname::text FROM pg_proc
		WHERE pronamespace = 'sched'::regnamespace AND (proconfig @> ARRAY[$1]) IS NOT TRUE`, safePath))
}

func TestTheAPIRunsWithTheOwnersRights(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.Equal(t, []string{"archive_months", "archive_tasks", "cancel", "complete", "contract_version", "count_waiting", "discover_queues", "drain_worker", "enqueue", "enqueue_many", "explain", "mark_schedule", "pressure", "pressure", "pressure_of_tasks", "retry", "run_due_schedule", "run_schedule"},
		all[string](t, pool, `SELECT proname::text FROM pg_proc WHERE pronamespace = 'sched'::regnamespace AND prosecdef AND prorettype <> 'trigger'::regtype ORDER BY 1`))
}

func TestIndexDiet(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	require.Equal(t, []string{
		"river_job_pkey", "river_job_state_and_finalized_at_index", "river_job_unique_idx",
		"sched_river_job_available", "sched_river_job_batch", "sched_river_job_due", "sched_river_job_status_start",
	}, all[string](t, pool, `SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid = 'sched.river_job'::regclass ORDER BY 1`,
	), "each further index costs every insert and every change of state")
}
