package migrations_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// The reference page names every argument, view column and setting that there is.
func TestReferencePageIsComplete(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	text, err := os.ReadFile(filepath.Join("..", "docs", "sql.md"))
	require.NoError(t, err)
	page := string(text)

	for _, name := range all[string](t, pool, `
		SELECT unnest(proargnames) FROM pg_proc WHERE pronamespace = 'sched'::regnamespace AND proname = 'enqueue'
		UNION
		SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE c.relnamespace = 'sched'::regnamespace AND c.relkind = 'v' AND a.attnum > 0
		UNION SELECT key FROM sched.setting
		UNION SELECT enumlabel FROM pg_enum WHERE enumtypid = 'sched.river_job_state'::regtype`) {
		require.Contains(t, page, "`"+name+"`")
	}
	for _, name := range all[string](t, pool, `SELECT proname::text || '(' || CASE WHEN proname IN ('enqueue', 'discover_queues') THEN '' ELSE pg_get_function_arguments(oid) END
		FROM pg_proc WHERE pronamespace = 'sched'::regnamespace AND (prosecdef OR proname = 'queue_name') AND prorettype <> 'trigger'::regtype`) {
		// Postgres prints a default with its type.
		require.Contains(t, page, "sched."+strings.ReplaceAll(name, "NULL::jsonb", "NULL"))
	}
	// Codes that the functions raise.
	for _, code := range all[string](t, pool, `SELECT DISTINCT m[1] FROM pg_proc, regexp_matches(prosrc, 'ERRCODE = ''(.....)''', 'g') AS m
		WHERE pronamespace = 'sched'::regnamespace`) {
		require.Contains(t, page, "| `"+code+"` |")
	}
}
