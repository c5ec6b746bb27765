// Package pgtest gives tests real Postgres databases of their own.
//
//	pool := pgtest.New(t)          // a migrated database, gone after the test
//	dsn := pgtest.DSN(pool)        // its URL, for whoever opens connections itself
//	pool := pgtest.Empty(t)        // a database without sched
//	server := pgtest.Server(t)     // a server of one's own, to kill and to restart
//	func TestMain(m *testing.M) { pgtest.Main(m) } // also checks for leaked goroutines
//
// New clones a template that is migrated once per test process. All tests of a process share one server, started by the
// first of them and ended with the process, TestMain or not. SCHED_TEST_DSN, a superuser's URL, makes all packages share a
// running server instead; then databases that killed test processes left there are dropped by the next one.
//
// A connection over the Unix socket needs no password, so a test may log in as any role. Roles belong to the whole server:
// a test that creates or drops some uses Server, or names of its own.
package pgtest
