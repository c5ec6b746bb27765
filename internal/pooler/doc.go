// Package pooler finds out what answers a connection: a server process of
// Postgres, or a pooler in front of it, and whether that one hands each
// transaction to whichever server process is free.
//
// Through such a pooler (PgBouncer's transaction mode and its like) nothing may be
// left behind in a session, since the session isn't ours: no prepared statements,
// no SET, no LISTEN, no session-level advisory lock. What is left behind fails, or
// changes the sessions of others.
//
// The signs are certain one way. A server process tells its own process id when it
// greets a client, and a pooler, which greets before it has chosen one, invents it:
// so where the ids differ something stands between. Two connections that are open
// at the same time and answered by the same server process share it. A pooler that
// is transparent enough to show neither sign is taken for Postgres.
package pooler
