package postgres_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

// A database whose administrator has a taste of his own.
func TestUnusualSettings(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	root := open(t, server.DSN())
	execute(t, root, "CREATE DATABASE unusual")
	for _, setting := range []string{
		"default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on",
		"search_path = ''", "statement_timeout = '60s'", "lock_timeout = '5s'", "idle_session_timeout = '3s'",
		"DateStyle = 'German, DMY'", "IntervalStyle = 'sql_standard'", "TimeZone = 'Pacific/Chatham'",
		"bytea_output = 'escape'", "extra_float_digits = 0", "xmloption = 'document'", "backslash_quote = off",
		"quote_all_identifiers = on", "array_nulls = off", "transform_null_equals = on",
		"plan_cache_mode = 'force_generic_plan'", "jit_above_cost = 0", "row_security = off", "check_function_bodies = off",
		"client_min_messages = 'debug1'", "default_toast_compression = 'pglz'", "enable_indexscan = off",
	} {
		execute(t, root, "ALTER DATABASE unusual SET "+setting)
	}
	dsn := server.DSNFor("unusual")
	migrateUp(t, dsn)
	db := open(t, dsn)
	requireSQLAPI(t, db)
	execute(t, db, "CREATE SCHEMA shop")
	plain := open(t, dsn+"&search_path=shop&default_transaction_isolation=read%20committed")
	createEffects(t, plain)
	requireSidecars(t, plain, dsn, nil)
}

// A database that sorts as people do, not by bytes.
func TestCollation(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	root := open(t, server.DSN())
	if one[int](t, root, "SELECT current_setting('server_version_num')::int / 10000") < 15 {
		t.Skip("databases with ICU's collation came with version 15")
	}
	execute(t, root, "CREATE DATABASE people TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'")
	dsn := server.DSNFor("people")
	migrateUp(t, dsn)
	db := open(t, dsn)
	require.Equal(t, []string{"a_b", "a1"}, all[string](t, db, "SELECT * FROM (VALUES ('a1'), ('a_b')) AS v (name) ORDER BY name"), "another order than that of bytes")
	requireSQLAPI(t, db)
	createEffects(t, db)

	a := newApp(t, nil)
	side := startSidecar(t, dsn, a.url, nil)
	for _, queue := range []string{"a1", "a_b", "a-c", "b"} {
		a.await(t, one[int64](t, db, "SELECT sched.enqueue('k', queue => $1, selector => NULL)", queue), 1, soon)
	}
	_, body := side.get(t, "/status")
	var status struct{ Queues []string }
	require.NoError(t, json.Unmarshal([]byte(body), &status))
	require.GreaterOrEqual(t, len(status.Queues), 4)
	require.True(t, slices.IsSorted(status.Queues), "the sidecar looks queues up by bytes: %v", status.Queues)
	side.stop(t)
	requireSidecars(t, db, dsn, nil)
}
