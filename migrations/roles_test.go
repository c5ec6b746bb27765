package migrations_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/migrations"
	"github.com/sched-sidecar/sched/sql/audit"
)

func randomRoles() migrations.RoleNames {
	return migrations.RoleNames{
		Owner: randomName("test_owner"), Sidecar: randomName("test_sidecar"),
		Producer: randomName("test_producer"), Auditor: randomName("test_auditor"),
	}
}

// withRoles migrates an empty database with roles that go with the test.
func withRoles(t *testing.T) (*pgxpool.Pool, migrations.RoleNames) {
	t.Helper()
	pool, roles := pgtest.Empty(t), randomRoles()
	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), migrations.Options{Roles: roles}))
	for _, name := range []string{roles.Owner, roles.Sidecar, roles.Producer, roles.Auditor} {
		dropAfter(t, pool, name)
	}
	return pool, roles
}

func denied(t *testing.T, db querier, sql string) {
	t.Helper()
	_, err := db.Exec(t.Context(), sql)
	require.ErrorContains(t, err, "42501", sql)
}

func TestProducerMayOnlyCallTheAPI(t *testing.T) {
	t.Parallel()
	pool, roles := withRoles(t)
	app := newRole(t, pool, "IN ROLE "+roles.Producer)
	conn := connect(t, pool, app)

	id := one[int64](t, conn, "SELECT sched.enqueue('mail', unique_key => 'k', selector => '{\"gpu\": \"a\"}')")
	ids := all[int64](t, conn, `SELECT sched.enqueue_many('[{"kind":"mail","unique_key":"k"},{"kind":"mail"}]')`)
	require.Len(t, ids, 2)
	require.Equal(t, id, ids[0])
	require.Equal(t, app, one[string](t, pool, "SELECT enqueued_by FROM sched.task WHERE id = $1", id))
	require.Equal(t, "cancelled", one[string](t, conn, "SELECT sched.cancel($1)", id))
	require.Equal(t, "available", one[string](t, conn, "SELECT sched.retry($1)", id))
	exec(t, pool, "UPDATE sched.river_job SET state = 'running', attempted_at = to_timestamp(1), attempted_by = '{w-1}' WHERE id = $1", id)
	exec(t, conn, "SELECT sched.complete($1, 'w-1.1000000', '{}')", id)
	require.NoError(t, migrations.CheckContract(t.Context(), conn))

	for _, relation := range all[string](t, pool, `SELECT c.oid::regclass::text FROM pg_class c
			WHERE c.relnamespace = 'sched'::regnamespace AND c.relkind IN ('r', 'v')`) {
		denied(t, conn, "SELECT FROM "+relation)
	}
	denied(t, conn, "DELETE FROM sched.river_job")
	denied(t, conn, "SELECT sched.discover_queues()")
	denied(t, conn, "SELECT sched.add_queue('a', 'a', '{}', 'any')")
	denied(t, conn, "SELECT nextval('sched.river_job_id_seq')")
	denied(t, conn, "CREATE TABLE sched.mine ()")
	require.ElementsMatch(t, []string{"cancel", "complete", "contract_version", "enqueue", "enqueue_many", "pressure", "pressure", "pressure_of_tasks", "retry"},
		all[string](t, conn, `SELECT proname::text FROM pg_proc
			WHERE pronamespace = 'sched'::regnamespace AND has_function_privilege(oid, 'EXECUTE')`))
}

func TestAuditorMayOnlyRead(t *testing.T) {
	t.Parallel()
	pool, roles := withRoles(t)
	exec(t, pool, "SELECT sched.enqueue('mail', batch => 'b')")
	conn := connect(t, pool, newRole(t, pool, "IN ROLE "+roles.Auditor))

	require.Equal(t, "available", one[string](t, conn, "SELECT status::text FROM sched.task WHERE status = 'available'"))
	require.EqualValues(t, 1, one[int64](t, conn, "SELECT total FROM sched.batch"))
	require.EqualValues(t, 0, one[int64](t, conn, "SELECT count(*) FROM sched.attempt"))
	exec(t, conn, "CREATE TEMP TABLE copy AS SELECT * FROM sched.task")

	for _, relation := range all[string](t, pool, `SELECT c.oid::regclass::text FROM pg_class c
			WHERE c.relnamespace = 'sched'::regnamespace AND c.relkind = 'r'`) {
		denied(t, conn, "SELECT FROM "+relation)
	}
	denied(t, conn, "DELETE FROM sched.decisions")
	require.NotEmpty(t, all[string](t, conn, "SELECT sched.explain(id) FROM sched.task"))
	require.ElementsMatch(t, []string{"explain", "pressure", "pressure"}, all[string](t, conn, `SELECT proname::text FROM pg_proc
		WHERE pronamespace = 'sched'::regnamespace AND has_function_privilege(oid, 'EXECUTE')`))
}

// Every audit runs with an auditor's rights.
func TestAuditorCanAskEverything(t *testing.T) {
	t.Parallel()
	pool, roles := withRoles(t)
	ended(t, pool, "completed", "1 hour")
	require.Equal(t, 1, archive(t, pool))
	conn := connect(t, pool, newRole(t, pool, "IN ROLE "+roles.Auditor))
	questions, err := audit.Questions()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(questions), 10)
	for _, q := range questions {
		values := map[string]string{}
		if q.Name == "story" {
			values["task"] = "1"
		}
		args, err := q.Bind(values, func(text string) (time.Time, error) {
			if text == "now" {
				return time.Now(), nil
			}
			return time.Now().Add(-24 * time.Hour), nil
		})
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), q.SQL, pgx.QueryExecModeSimpleProtocol, pgx.NamedArgs(args))
		require.NoError(t, err, q.Name)
	}
}

func TestSidecarHasWhatItNeeds(t *testing.T) {
	t.Parallel()
	pool, roles := withRoles(t)
	conn := connect(t, pool, newRole(t, pool, "IN ROLE "+roles.Sidecar))

	require.NoError(t, migrations.CheckContract(t.Context(), conn))
	exec(t, conn, "SELECT sched.discover_queues()")
	exec(t, conn, "INSERT INTO sched.river_job (kind, args, max_attempts) VALUES ('a', '{}', 1)")
	exec(t, conn, `INSERT INTO sched.river_job (kind, args, max_attempts, unique_key, unique_states) VALUES ('a', '{}', 1, '\x01', B'11110001')`)
	for _, table := range []string{"river_job", "river_queue", "river_leader", "river_notification", "queue", "worker", "attempt_log"} {
		exec(t, conn, "SELECT FROM sched."+table)
		exec(t, conn, "DELETE FROM sched."+table)
	}
	for _, table := range []string{"setting", "kind", "contract", "goose_db_version", "river_migration"} {
		exec(t, conn, "SELECT FROM sched."+table)
		denied(t, conn, "DELETE FROM sched."+table)
	}
	denied(t, conn, "DROP TABLE sched.worker")
}

func TestOwnerOwnsEverythingAndPublicHasNothing(t *testing.T) {
	t.Parallel()
	pool, roles := withRoles(t)
	require.Equal(t, []string{roles.Owner}, all[string](t, pool, `
		SELECT DISTINCT pg_get_userbyid(owner)::text FROM (
			SELECT nspowner FROM pg_namespace WHERE nspname = 'sched'
			UNION ALL SELECT relowner FROM pg_class WHERE relnamespace = 'sched'::regnamespace
			UNION ALL SELECT proowner FROM pg_proc WHERE pronamespace = 'sched'::regnamespace
			UNION ALL SELECT typowner FROM pg_type WHERE typnamespace = 'sched'::regnamespace AND typtype IN ('e', 'c')
		) AS o (owner)`))
	publicHasNothing(t, pool, true)
}

func TestPublicHasNothingWithoutRoles(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	require.NoError(t, migrations.Up(t.Context(), pgtest.DSN(pool), noRoles()))
	publicHasNothing(t, pool, false)
}

func publicHasNothing(t *testing.T, pool *pgxpool.Pool, types bool) {
	t.Helper()
	require.Empty(t, all[string](t, pool, `
		WITH object (name, acl) AS (
			SELECT 'schema', coalesce(nspacl, acldefault('n', nspowner)) FROM pg_namespace WHERE nspname = 'sched'
			UNION ALL SELECT relname, coalesce(relacl, acldefault('r', relowner)) FROM pg_class
				WHERE relnamespace = 'sched'::regnamespace AND relkind IN ('r', 'v')
			UNION ALL SELECT proname, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc WHERE pronamespace = 'sched'::regnamespace
			UNION ALL SELECT typname, coalesce(typacl, acldefault('T', typowner)) FROM pg_type
				WHERE $1 AND typnamespace = 'sched'::regnamespace AND typname IN ('river_job_state', 'new_task')
		)
		SELECT o.name::text || ' ' || a.privilege_type FROM object o, aclexplode(o.acl) a WHERE a.grantee = 0`, types))
}

// A plain login role that owns its database needs nothing more without roles.
func TestNoRolesAsPlainUser(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	user := newRole(t, pool, "")
	exec(t, pool, fmt.Sprintf("ALTER DATABASE %q OWNER TO %s", pool.Config().ConnConfig.Database, user))
	dsn := dsnAs(t, pool, user)

	err := migrations.Up(t.Context(), dsn, migrations.Options{Roles: randomRoles()})
	require.ErrorIs(t, err, migrations.ErrRolesRefused)
	require.ErrorContains(t, err, "--no-roles")
	require.ErrorContains(t, err, "CREATE ROLE")
	require.ErrorContains(t, err, user)
	require.True(t, one[bool](t, pool, "SELECT to_regnamespace('sched') IS NULL"), "refused before anything was changed")

	require.NoError(t, migrations.Up(t.Context(), dsn, noRoles()))
	conn := connect(t, pool, user)
	exec(t, conn, "SELECT sched.enqueue('mail')")
	require.EqualValues(t, 1, one[int64](t, conn, "SELECT count(*) FROM sched.task"))
	require.NoError(t, migrations.Down(t.Context(), dsn, noRoles()))
}

func TestUserWithoutCreateOnTheDatabase(t *testing.T) {
	t.Parallel()
	pool := pgtest.Empty(t)
	user := newRole(t, pool, "")
	err := migrations.Up(t.Context(), dsnAs(t, pool, user), noRoles())
	require.ErrorContains(t, err, "GRANT CREATE ON DATABASE")

	exec(t, pool, "CREATE SCHEMA sched AUTHORIZATION "+user)
	require.NoError(t, migrations.Up(t.Context(), dsnAs(t, pool, user), noRoles()))
}

// The statements that the error prints are enough.
func TestRolesMadeByAnAdministrator(t *testing.T) {
	t.Parallel()
	pool, roles := pgtest.Empty(t), randomRoles()
	user := newRole(t, pool, "")
	exec(t, pool, fmt.Sprintf("ALTER DATABASE %q OWNER TO %s", pool.Config().ConnConfig.Database, user))
	opts := migrations.Options{Roles: roles}
	err := migrations.Up(t.Context(), dsnAs(t, pool, user), opts)
	require.ErrorIs(t, err, migrations.ErrRolesRefused)

	_, statements, found := strings.Cut(err.Error(), "run:\n")
	require.True(t, found)
	exec(t, pool, statements)
	for _, name := range []string{roles.Owner, roles.Sidecar, roles.Producer, roles.Auditor} {
		dropAfter(t, pool, name)
	}
	require.NoError(t, migrations.Up(t.Context(), dsnAs(t, pool, user), opts))
	require.Equal(t, roles.Owner, one[string](t, pool, "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'sched'"))
	require.NoError(t, migrations.Up(t.Context(), dsnAs(t, pool, user), opts), "again")
	require.NoError(t, migrations.Down(t.Context(), dsnAs(t, pool, user), opts))
}

func TestCreateRoleIsEnough(t *testing.T) {
	t.Parallel()
	pool, roles := pgtest.Empty(t), randomRoles()
	user := newRole(t, pool, "CREATEROLE")
	exec(t, pool, fmt.Sprintf("ALTER DATABASE %q OWNER TO %s", pool.Config().ConnConfig.Database, user))
	opts := migrations.Options{Roles: roles, DropRoles: true}
	require.NoError(t, migrations.Up(t.Context(), dsnAs(t, pool, user), opts))
	require.NoError(t, migrations.Down(t.Context(), dsnAs(t, pool, user), opts))
}

func TestRolesAfterNoRoles(t *testing.T) {
	t.Parallel()
	pool, roles := pgtest.Empty(t), randomRoles()
	dsn := pgtest.DSN(pool)
	require.NoError(t, migrations.Up(t.Context(), dsn, noRoles()))
	exec(t, pool, "CREATE VIEW sched.theirs AS SELECT 1")
	theirs := newRole(t, pool, "")
	exec(t, pool, "ALTER VIEW sched.theirs OWNER TO "+theirs)

	require.NoError(t, migrations.Up(t.Context(), dsn, migrations.Options{Roles: roles}))
	for _, name := range []string{roles.Owner, roles.Sidecar, roles.Producer, roles.Auditor} {
		dropAfter(t, pool, name)
	}
	require.Equal(t, roles.Owner, one[string](t, pool, "SELECT relowner::regrole::text FROM pg_class WHERE oid = 'sched.worker'::regclass"))
	require.Equal(t, theirs, one[string](t, pool, "SELECT relowner::regrole::text FROM pg_class WHERE oid = 'sched.theirs'::regclass"))
	publicHasNothing(t, pool, true)
}

func TestTwoDatabasesOfOneClusterAtOnce(t *testing.T) {
	t.Parallel()
	roles := randomRoles()
	opts := migrations.Options{Roles: roles}
	pools := []*pgxpool.Pool{pgtest.Empty(t), pgtest.Empty(t), pgtest.Empty(t)}
	// A login role that has to join the owner role in each of them.
	user := newRole(t, pools[0], "CREATEROLE")
	for _, pool := range pools {
		exec(t, pool, fmt.Sprintf("GRANT CREATE ON DATABASE %q TO %s", pool.Config().ConnConfig.Database, user))
	}
	errs := make([]error, len(pools))
	var wg sync.WaitGroup
	for i, pool := range pools {
		dsn := dsnAs(t, pool, user)
		wg.Go(func() { errs[i] = migrations.Up(t.Context(), dsn, opts) })
	}
	wg.Wait()
	for i, pool := range pools {
		require.NoError(t, errs[i])
		exec(t, pool, fmt.Sprintf("REVOKE CREATE ON DATABASE %q FROM %s", pool.Config().ConnConfig.Database, user))
	}

	// A role that another database uses stays, and the error says so.
	opts.DropRoles = true
	err := migrations.Down(t.Context(), pgtest.DSN(pools[0]), opts)
	require.ErrorIs(t, err, migrations.ErrLeftovers)
	require.ErrorContains(t, err, roles.Owner)
	require.True(t, one[bool](t, pools[0], "SELECT to_regnamespace('sched') IS NULL"))
	require.Error(t, migrations.Down(t.Context(), pgtest.DSN(pools[1]), opts))
	require.NoError(t, migrations.Down(t.Context(), pgtest.DSN(pools[2]), opts))
	require.Empty(t, all[string](t, pools[0], "SELECT rolname::text FROM pg_roles WHERE rolname = ANY ($1)",
		[]string{roles.Owner, roles.Sidecar, roles.Producer, roles.Auditor}))
}

func TestDownKeepsRolesUnlessTold(t *testing.T) {
	t.Parallel()
	pool, roles := withRoles(t)
	require.NoError(t, migrations.Down(t.Context(), pgtest.DSN(pool), migrations.Options{Roles: roles}))
	require.Equal(t, 4, one[int](t, pool, "SELECT count(*)::int FROM pg_roles WHERE rolname = ANY ($1)",
		[]string{roles.Owner, roles.Sidecar, roles.Producer, roles.Auditor}))
}
