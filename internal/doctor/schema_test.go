package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/migrations"
)

func TestSchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pgtest.DSN(pool)
	healthy(t, look(t, dsn, "schema", Options{}), "River's tables at 8")

	exec(t, pool, `INSERT INTO sched.river_migration (line, version) VALUES ('main', 9)`)
	require.Contains(t, ill(t, look(t, dsn, "schema", Options{}), Failed).Message, "River's tables are at version 9")

	exec(t, pool, `UPDATE sched.contract SET version = 1000`)
	finding := ill(t, look(t, dsn, "schema", Options{}), Failed)
	require.Contains(t, finding.Message, "too new")
	require.Contains(t, finding.Advice, "upgrade this program")
}

func TestSchema_None(t *testing.T) {
	t.Parallel()
	finding := ill(t, look(t, pgtest.DSN(pgtest.Empty(t)), "schema", Options{}), Failed)
	require.Contains(t, finding.Advice, "sched migrate up")
}

func TestSchema_NoAccess(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	finding := ill(t, look(t, asRole(t, pool, ""), "schema", Options{}), Failed)
	require.Contains(t, finding.Message, "no access")
}

func TestJudgeMigrations(t *testing.T) {
	t.Parallel()
	require.Equal(t, OK, judgeMigrations(migrations.VersionInfo{Current: 9, Latest: 9, Contract: 1}).Level)
	behind := judgeMigrations(migrations.VersionInfo{Current: 8, Latest: 9, Contract: 1})
	require.Equal(t, Warning, behind.Level)
	require.Contains(t, behind.Advice, "sched migrate up")
	ahead := judgeMigrations(migrations.VersionInfo{Current: 10, Latest: 9, Contract: 1})
	require.Equal(t, Warning, ahead.Level)
	require.Contains(t, ahead.Advice, "upgrade this program")
}

func TestRights(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	healthy(t, look(t, pgtest.DSN(pool), "rights", Options{}), "role postgres may enqueue and control tasks, read the views, work tasks as a sidecar, migrate")

	exec(t, pool, `GRANT USAGE ON SCHEMA sched TO PUBLIC`)
	require.Contains(t, ill(t, look(t, pgtest.DSN(pool), "rights", Options{}), Warning).Advice, "REVOKE")
	exec(t, pool, `REVOKE ALL ON SCHEMA sched FROM PUBLIC`)

	exec(t, pool, `CREATE TABLE sched.mine ()`)
	exec(t, pool, `ALTER TABLE sched.mine OWNER TO pg_monitor`)
	require.Contains(t, ill(t, look(t, pgtest.DSN(pool), "rights", Options{}), Warning).Message, "mine (pg_monitor)")
}

func TestRights_ByRole(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ role, want string }{
		{"sched_producer", "may enqueue and control tasks; not read the views, work tasks as a sidecar, migrate"},
		{"sched_auditor", "may read the views; not enqueue"},
		{"sched_sidecar", "may enqueue and control tasks, read the views, work tasks as a sidecar; not migrate"},
		{"sched_owner", "migrate"},
	} {
		t.Run(tt.role, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			healthy(t, look(t, asRole(t, pool, tt.role), "rights", Options{}), tt.want)
		})
	}
	t.Run("nobody", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		require.Contains(t, ill(t, look(t, asRole(t, pool, ""), "rights", Options{}), Failed).Advice, "GRANT sched_producer")
	})
}
