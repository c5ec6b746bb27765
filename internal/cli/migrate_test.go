package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	sched := func(args ...string) result {
		return runs(schedCommand([]string{"DATABASE_URL=" + pgtest.DSN(pool)}), nil, args...)
	}

	got := sched("migrate", "version")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "no schema sched")

	got = sched("migrate", "up", "--no-roles")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Regexp(t, `^schema sched is at migration (\d+) of \d+, contract [1-9]\d*\n$`, got.stdout)
	require.NotContains(t, got.stderr, "time=")

	_, err := pool.Exec(t.Context(), "INSERT INTO sched.goose_db_version (version_id, is_applied) VALUES (99999, true)")
	require.NoError(t, err)
	require.Regexp(t, `^schema sched is at migration 99999, contract \d+; this program has migrations up to \d+: a later release made it\n$`, sched("migrate", "version").stdout)
	refused := sched("migrate", "up", "--no-roles")
	require.Equal(t, exitFailed, refused.code)
	require.Contains(t, refused.stderr, "sched schema is too new")
	_, err = pool.Exec(t.Context(), "DELETE FROM sched.goose_db_version WHERE version_id = 99999")
	require.NoError(t, err)

	again := sched("migrate", "up", "--no-roles")
	require.Equal(t, exitOK, again.code, again.stderr)
	require.Equal(t, got.stdout, again.stdout, "a second up changes nothing")

	got = sched("migrate", "status")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Regexp(t, `(?m)^VERSION +NAME +APPLIED$`, got.stdout)
	require.Regexp(t, `(?m)^1 +\S+ +\d{4}-\d\d-\d\dT`, got.stdout)

	got = sched("migrate", "down", "--no-roles", "--to=2")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "is at migration 2 of")
	require.Regexp(t, `(?m)^3 +\S+ +no$`, sched("migrate", "status").stdout)

	got = sched("migrate", "down", "--no-roles") // no terminal: nobody is asked
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "no schema sched")
	var left bool
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT to_regnamespace('sched') IS NOT NULL").Scan(&left))
	require.False(t, left)
}

func TestMigrateWithoutDatabase(t *testing.T) {
	t.Parallel()

	got := runs(schedCommand([]string{"SCHED_DATABASE_URL=postgres://u:hunter2@127.0.0.1:1/d?sslmode=disable"}), nil, "migrate", "status")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "127.0.0.1:1")
	require.NotContains(t, got.stderr, "hunter2")

	got = runs(schedCommand(nil), nil, "migrate", "up", "--dsn=postgres://u:hunter2@h:port/d")
	require.Equal(t, exitUsage, got.code)
	require.NotContains(t, got.stderr, "hunter2")
}

func TestConfirmDown(t *testing.T) {
	t.Parallel()
	const dsn = "postgres://u:hunter2@db:5433/shop"
	var asked strings.Builder

	require.NoError(t, confirmDown(strings.NewReader("shop\n"), &asked, dsn))
	require.Contains(t, asked.String(), `all tasks in the database "shop" on db:5433`)
	require.NotContains(t, asked.String(), "hunter2")
	for _, answer := range []string{"", "\n", "y\n", "shop2\n"} {
		require.ErrorIs(t, confirmDown(strings.NewReader(answer), &asked, dsn), errNotConfirmed)
	}
}
