package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/migrations"
)

func TestCheckContract(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)

	err := migrations.CheckContract(t.Context(), pool)
	require.ErrorIs(t, err, migrations.ErrNoSchema)
	require.ErrorContains(t, err, "sched migrate up")
	require.NoError(t, migrations.UpTo(t.Context(), pgtest.DSN(pool), 1, noRoles()))
	require.ErrorIs(t, migrations.CheckContract(t.Context(), pool), migrations.ErrNoSchema, "half made")

	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()))
	require.NoError(t, migrations.CheckContract(t.Context(), pool))

	require.Equal(t, migrations.Contract, one[int](t, pool, "SELECT sched.contract_version()"), "a release runs on the schema that it makes,")
	exec(t, pool, "UPDATE sched.contract SET version = $1", migrations.Contract+1)
	require.NoError(t, migrations.CheckContract(t.Context(), pool), "on the next one,")
	exec(t, pool, "UPDATE sched.contract SET version = $1", migrations.Contract-1)
	err = migrations.CheckContract(t.Context(), pool)
	require.ErrorIs(t, err, migrations.ErrSchemaTooOld, "and on no other")
	require.ErrorContains(t, err, "sched migrate up")
	exec(t, pool, "UPDATE sched.contract SET version = $1", migrations.Contract+2)
	err = migrations.CheckContract(t.Context(), pool)
	require.ErrorIs(t, err, migrations.ErrSchemaTooNew)
	require.ErrorContains(t, err, "upgrade this program")

	stranger := connect(t, pool, newRole(t, pool, ""))
	err = migrations.CheckContract(t.Context(), stranger)
	require.ErrorIs(t, err, migrations.ErrNoAccess)
	require.ErrorContains(t, err, "GRANT")
}
