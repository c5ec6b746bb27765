package migrations_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/migrations"
)

// relationsSQL lists what a schema holds, so that two states can be compared.
const relationsSQL = `SELECT c.relkind::text || ' ' || c.relname || ' ' || coalesce((
		SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
		FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '')
	FROM pg_class c WHERE c.relnamespace = to_regnamespace($1) ORDER BY 1`

func latest(t *testing.T, pool *pgxpool.Pool) int64 {
	t.Helper()
	info, err := migrations.Version(t.Context(), pgtest.DSN(pool))
	require.NoError(t, err)
	return info.Latest
}

func TestUpDownUpTwice(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	dsn := pgtest.DSN(pool)

	var first []string
	for range 2 {
		require.NoError(t, migrations.Up(t.Context(), dsn, noRoles()))
		state := all[string](t, pool, relationsSQL, "sched")
		if first == nil {
			first = state
		}
		require.NotEmpty(t, state)
		require.Equal(t, first, state)
		require.Equal(t, migrations.Contract, one[int](t, pool, "SELECT sched.contract_version()"))

		// Finished tasks that had the same unique key must not stop the way down.
		exec(t, pool, "SELECT sched.enqueue('a', unique_key => 'k')")
		exec(t, pool, "UPDATE sched.river_job SET state = 'completed', finalized_at = now()")
		exec(t, pool, "SELECT sched.enqueue('a', unique_key => 'k')")

		require.NoError(t, migrations.Down(t.Context(), dsn, noRoles()))
		require.True(t, one[bool](t, pool, "SELECT to_regnamespace('sched') IS NULL"))
	}
	require.NoError(t, migrations.Down(t.Context(), dsn, noRoles()), "nothing to take back is no error")
}

func TestEachVersionGoesDownAndUp(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	dsn := pgtest.DSN(pool)
	require.NoError(t, migrations.Up(t.Context(), dsn, noRoles()))
	whole := all[string](t, pool, relationsSQL, "sched")

	list, err := migrations.Status(t.Context(), dsn)
	require.NoError(t, err)
	for _, m := range slices.Backward(list[:len(list)-1]) {
		version := m.Version
		require.NoError(t, migrations.DownTo(t.Context(), dsn, version, noRoles()))
		info, err := migrations.Version(t.Context(), dsn)
		require.NoError(t, err)
		require.Equal(t, version, info.Current)
		require.NoError(t, migrations.UpTo(t.Context(), dsn, version, noRoles()), "already there")
	}
	require.NoError(t, migrations.Up(t.Context(), dsn, noRoles()))
	require.Equal(t, whole, all[string](t, pool, relationsSQL, "sched"))
}

func TestTwoMigrationsAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)

	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { errs[i] = migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Empty(t, all[int64](t, pool, "SELECT version_id FROM sched.goose_db_version GROUP BY 1 HAVING count(*) > 1"),
		"each migration ran once")
}

func TestWaitForTheLockEndsWithTheContext(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	holder := connect(t, pool, "")
	exec(t, holder, "SELECT pg_advisory_lock($1)", int64(0x7363686564_01))

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := migrations.Up(ctx, pgtest.DSN(pool), noRoles())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, one[bool](t, pool, "SELECT to_regnamespace('sched') IS NULL"))
}

func TestRiverInPublicIsLeftAlone(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: discard()})
	require.NoError(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(t, err)
	exec(t, pool, `INSERT INTO public.river_job (kind, args, max_attempts) VALUES ('theirs', '{}', 1)`)
	before := all[string](t, pool, relationsSQL, "public")

	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()))
	require.Equal(t, before, all[string](t, pool, relationsSQL, "public"))
	exec(t, pool, "SELECT sched.enqueue('ours')")
	require.Equal(t, []string{"theirs"}, all[string](t, pool, "SELECT kind FROM public.river_job"))
	require.Equal(t, []string{"ours"}, all[string](t, pool, "SELECT kind FROM sched.river_job"))

	require.NoError(t, migrations.Down(t.Context(), pgtest.DSN(pool), noRoles()))
	require.Equal(t, before, all[string](t, pool, relationsSQL, "public"))
	require.Equal(t, []string{"theirs"}, all[string](t, pool, "SELECT kind FROM public.river_job"))
}

func TestForeignSchemaIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	exec(t, pool, "CREATE SCHEMA sched")
	exec(t, pool, "CREATE TABLE sched.timetable ()")
	err := migrations.Up(t.Context(), pgtest.DSN(pool), noRoles())
	require.ErrorIs(t, err, migrations.ErrForeignSchema)
	require.Len(t, all[string](t, pool, relationsSQL, "sched"), 1, "nothing was added")
}

func TestDownLeavesWhatItDidNotMake(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()))
	exec(t, pool, "CREATE TABLE sched.notes (text text)")
	err := migrations.Down(t.Context(), pgtest.DSN(pool), noRoles())
	require.ErrorIs(t, err, migrations.ErrLeftovers)
	require.ErrorContains(t, err, "notes")
	require.True(t, one[bool](t, pool, "SELECT to_regclass('sched.notes') IS NOT NULL"))
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()))
	exec(t, pool, "INSERT INTO sched.goose_db_version (version_id, is_applied) VALUES (9999, true)")
	require.ErrorIs(t, migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()), migrations.ErrSchemaTooNew)
	require.ErrorIs(t, migrations.Down(t.Context(), pgtest.DSN(pool), noRoles()), migrations.ErrSchemaTooNew)
}

func TestStatusAndVersionChangeNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	dsn := pgtest.DSN(pool)

	list, err := migrations.Status(t.Context(), dsn)
	require.NoError(t, err)
	require.NotEmpty(t, list)
	require.Equal(t, "00001_river", list[0].Name)
	require.False(t, slices.ContainsFunc(list, func(m migrations.Migration) bool { return m.Applied }))
	info, err := migrations.Version(t.Context(), dsn)
	require.NoError(t, err)
	require.Equal(t, migrations.VersionInfo{Latest: list[len(list)-1].Version}, info)
	require.True(t, one[bool](t, pool, "SELECT to_regnamespace('sched') IS NULL"))

	require.NoError(t, migrations.UpTo(t.Context(), dsn, 2, noRoles()))
	list, err = migrations.Status(t.Context(), dsn)
	require.NoError(t, err)
	for _, m := range list {
		require.Equal(t, m.Version <= 2, m.Applied, m.Name)
		require.Equal(t, m.Applied, !m.AppliedAt.IsZero(), m.Name)
	}
	info, err = migrations.Version(t.Context(), dsn)
	require.NoError(t, err)
	require.Equal(t, migrations.VersionInfo{Current: 2, Latest: info.Latest, Contract: 1}, info)
}

func TestSessionDoesNotInheritTheDatabasesSettings(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	name := pool.Config().ConnConfig.Database
	for _, setting := range []string{"search_path = 'elsewhere'", "default_transaction_isolation = 'repeatable read'"} {
		exec(t, pool, `ALTER DATABASE "`+name+`" SET `+setting)
	}
	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()))
	require.NoError(t, migrations.Down(t.Context(), pgtest.DSN(pool), noRoles()))
}
