package postgres_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestPostgresOfThisMachine(t *testing.T) {
	t.Parallel()
	requireVersionWorks(t, pgtest.Server(t))
}

// requireVersionWorks migrates up, down and up, and works tasks.
func requireVersionWorks(t *testing.T, server *devpg.Server) {
	t.Helper()
	dsn := server.DSN()
	db := open(t, dsn)
	t.Log("PostgreSQL", one[string](t, db, "SHOW server_version"))

	migrateUp(t, dsn)
	status, out := sched(t, "migrate", "down", "--dsn", dsn, "--yes")
	require.Zero(t, status, out)
	require.False(t, one[bool](t, db, "SELECT to_regnamespace('sched') IS NOT NULL"))
	migrateUp(t, dsn)
	db.Reset() // prepared statements knew the old schema
	status, out = sched(t, "migrate", "status", "--dsn", dsn)
	require.Zero(t, status, out)
	require.NotContains(t, strings.ToLower(out), " no\n", "a migration is missing")

	requireSQLAPI(t, db)
	createEffects(t, db)
	requireSidecars(t, db, dsn, nil)
}
