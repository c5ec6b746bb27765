package postgres_test

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/devpg"
	"github.com/sched-sidecar/sched/internal/pgtest"
)

// Managed Postgres gives no superuser, and often no more than a database of one's
// own.

func TestPlainDatabaseOwner(t *testing.T) {
	t.Parallel()
	requirePlainOwnerWorks(t, pgtest.Server(t))
}

// requirePlainOwnerWorks does everything as one user that owns a database and may
// nothing else: migrate, enqueue, work, remove.
func requirePlainOwnerWorks(t *testing.T, server *devpg.Server) {
	t.Helper()
	root := open(t, server.DSN())
	dsn := newDatabase(t, root, server, "plain")
	db := open(t, dsn)
	require.False(t, one[bool](t, db, "SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles WHERE rolname = current_user"))

	// With roles it says what to do; nothing is half done.
	status, out := sched(t, "migrate", "up", "--dsn", dsn)
	require.NotZero(t, status)
	require.Contains(t, out, "--no-roles")
	require.Contains(t, out, "CREATE ROLE")
	require.False(t, one[bool](t, db, "SELECT to_regnamespace('sched') IS NOT NULL"))

	migrateUp(t, dsn, "--no-roles")
	requireSQLAPI(t, db)
	createEffects(t, db)
	requireSidecars(t, db, dsn, nil)
	require.Equal(t, []string{"plain"}, all[string](t, db, `
		SELECT DISTINCT pg_get_userbyid(relowner)::text FROM pg_class WHERE relnamespace = 'sched'::regnamespace`))

	status, out = sched(t, "migrate", "down", "--dsn", dsn, "--no-roles", "--yes")
	require.Zero(t, status, out)
	require.False(t, one[bool](t, db, "SELECT to_regnamespace('sched') IS NOT NULL"))
}

// An administrator makes the roles, and users that have them: one that migrates,
// one for each kind of use. None may create roles.
func TestRolesOfAnAdministrator(t *testing.T) {
	t.Parallel()
	requireAdminsRolesWork(t, pgtest.Server(t))
}

func requireAdminsRolesWork(t *testing.T, server *devpg.Server) {
	t.Helper()
	root := open(t, server.DSN())
	dsn := newDatabase(t, root, server, "deploy")
	for _, role := range []string{"owner", "sidecar", "producer", "auditor"} {
		execute(t, root, "CREATE ROLE sched_"+role+" NOLOGIN")
	}
	execute(t, root, "GRANT sched_owner TO deploy")
	as := func(role string) string {
		execute(t, root, "CREATE ROLE login_"+role+" LOGIN PASSWORD 'secret' IN ROLE sched_"+role)
		return withUser(t, dsn, "login_"+role)
	}
	migrateUp(t, dsn)
	migrateUp(t, dsn) // again, as each deployment does

	requireRolesWork(t, open(t, dsn), as)
}

// Where the user may create roles, but is no superuser: from version 16 on, such a
// user isn't a member of what it creates.
func TestUserWhoMayCreateRoles(t *testing.T) {
	t.Parallel()
	requireRoleCreatorWorks(t, pgtest.Server(t))
}

func requireRoleCreatorWorks(t *testing.T, server *devpg.Server) {
	t.Helper()
	root := open(t, server.DSN())
	dsn := newDatabase(t, root, server, "creator")
	execute(t, root, "ALTER ROLE creator CREATEROLE")
	migrateUp(t, dsn)
	db := open(t, dsn)
	requireRolesWork(t, db, func(role string) string {
		execute(t, db, "CREATE ROLE login_"+role+" LOGIN PASSWORD 'secret' IN ROLE sched_"+role)
		return withUser(t, dsn, "login_"+role)
	})
	status, out := sched(t, "migrate", "down", "--dsn", dsn, "--yes")
	require.Zero(t, status, out)
}

// requireRolesWork has a sidecar, an app and an auditor each use a role of theirs.
// as makes a user with a role and returns its connection string.
func requireRolesWork(t *testing.T, owner *pgxpool.Pool, as func(role string) string) {
	t.Helper()
	a := newApp(t, nil)
	startSidecar(t, as("sidecar"), a.url, nil)
	producer, auditor := open(t, as("producer")), open(t, as("auditor"))

	id := one[int64](t, producer, "SELECT sched.enqueue('work')")
	a.await(t, id, 1, soon)
	awaitStatus(t, auditor, id, "completed", soon)
	require.Equal(t, "login_producer", one[string](t, auditor, "SELECT enqueued_by FROM sched.task WHERE id = $1", id))
	later := one[int64](t, producer, "SELECT sched.enqueue('work', run_at => now() + interval '1 hour')")
	require.Equal(t, "cancelled", one[string](t, producer, "SELECT sched.cancel($1)", later))
	requireCode(t, producer, "42501", "SELECT FROM sched.task")
	requireCode(t, auditor, "42501", "SELECT sched.enqueue('work')")
	require.Equal(t, []string{"sched_owner"}, all[string](t, owner, `
		SELECT DISTINCT pg_get_userbyid(relowner)::text FROM pg_class WHERE relnamespace = 'sched'::regnamespace`))
}

// newDatabase makes a user and a database that it owns, and returns the user's
// connection string.
func newDatabase(t *testing.T, root *pgxpool.Pool, server *devpg.Server, name string) string {
	t.Helper()
	execute(t, root, "CREATE ROLE "+name+" LOGIN PASSWORD 'secret'")
	execute(t, root, "CREATE DATABASE "+name+" OWNER "+name)
	return withUser(t, server.DSNFor(name), name)
}

func withUser(t *testing.T, dsn, name string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.User = url.UserPassword(name, "secret")
	return u.String()
}
