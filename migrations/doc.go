// Package migrations makes, upgrades and removes the schema sched: River's
// tables, the tables of this project, and the SQL API that applications and
// sidecars rely on.
//
// Everything lives in the schema sched, one fleet per database; nothing outside
// it is touched, not even River tables that the database has elsewhere. The
// schema exists before goose runs, so that goose's own version table
// (sched.goose_db_version) can be in it, and goes after goose is done.
//
// One session-level advisory lock per database is held throughout on a
// connection of its own. Of two migrations at once the second waits and then
// finds nothing to do. The waiting polls: a session that blocks on the lock
// would hold a snapshot, which a CREATE INDEX CONCURRENTLY of the first would
// wait for in turn. Session locks need a direct connection or a pooler in session
// mode.
//
// River's step runs outside a transaction and on a pool of its own: its
// migrations use an enum value that an earlier one of them added, which Postgres
// allows only after a commit.
//
// A run that fails can be repeated: each SQL migration is a transaction, River
// keeps its own version, and roles and grants are applied anew by every run.
package migrations
