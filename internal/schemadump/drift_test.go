package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// catalogSQL lists everything that the schema consists of, as the server itself
// describes it.
const catalogSQL = `
	SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull || ' '
		|| a.attidentity::text || a.attgenerated::text || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '') || ' at '
		|| row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum)
	FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
	WHERE c.relnamespace = 'sched'::regnamespace AND c.relkind <> 'i'
	UNION ALL
	SELECT 'relation ' || relkind::text || relpersistence::text || ' ' || relname || ' ' || coalesce(array_to_string(reloptions, ','), '')
	FROM pg_class WHERE relnamespace = 'sched'::regnamespace
	UNION ALL
	SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
	FROM pg_constraint WHERE connamespace = 'sched'::regnamespace AND contype <> 'n' -- new in 18, and in the columns above
	UNION ALL
	SELECT 'index ' || pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = 'sched'::regnamespace
	UNION ALL
	SELECT 'function ' || pg_get_functiondef(oid) || ' ' || provolatile::text || proparallel::text FROM pg_proc WHERE pronamespace = 'sched'::regnamespace
	UNION ALL
	SELECT 'view ' || relname || ' ' || pg_get_viewdef(oid, true) FROM pg_class WHERE relnamespace = 'sched'::regnamespace AND relkind = 'v'
	UNION ALL
	SELECT 'trigger ' || pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'sched'::regnamespace
	UNION ALL
	SELECT 'enum ' || e.enumtypid::regtype || ' ' || e.enumlabel || ' at ' || row_number() OVER (PARTITION BY e.enumtypid ORDER BY e.enumsortorder)
	FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid WHERE t.typnamespace = 'sched'::regnamespace
	UNION ALL
	SELECT 'sequence ' || s.seqrelid::regclass || ' ' || format_type(s.seqtypid, NULL) || ' of ' || coalesce(d.refobjid::regclass::text, '')
	FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid
	LEFT JOIN pg_depend d ON d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
	WHERE c.relnamespace = 'sched'::regnamespace
	UNION ALL
	SELECT 'comment ' || o.type || ' ' || o.identity || ' ' || d.description
	FROM pg_description d CROSS JOIN LATERAL pg_identify_object(d.classoid, d.objoid, d.objsubid) AS o
	WHERE o.schema = 'sched' OR o.identity ~ '^sched(\.|$)' OR o.identity ~ ' on sched\.'
	ORDER BY 1`

func catalogOf(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), catalogSQL)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

// The file that sqlc and readers see is the schema that the migrations make.
func TestSchemaFileMatchesTheMigrations(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "sql", "schema.sql"))
	require.NoError(t, err)
	file, migrated := pgtest.Empty(t), pgtest.New(t)
	_, err = file.Exec(t.Context(), string(text))
	require.NoError(t, err)

	want, have := catalogOf(t, migrated), catalogOf(t, file)
	require.Greater(t, len(want), 300)
	require.Empty(t, without(want, have), "not in sql/schema.sql: run make generate")
	require.Empty(t, without(have, want), "not in the migrations: run make generate")
}

// without returns what is in list and not in other; the whole of both would fill
// screens.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

func TestDumpIsRepeatable(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	first, err := dump(t.Context(), conn.Conn())
	require.NoError(t, err)

	other := pgtest.Empty(t)
	_, err = other.Exec(t.Context(), first)
	require.NoError(t, err)
	again, err := other.Acquire(t.Context())
	require.NoError(t, err)
	defer again.Release()
	second, err := dump(t.Context(), again.Conn())
	require.NoError(t, err)
	require.Equal(t, first, second)
}
