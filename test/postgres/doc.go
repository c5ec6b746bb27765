// Package postgres holds the black-box tests of sched on the Postgres servers
// that there are: each supported version, one behind a pooler, a primary with a
// standby, one that grants no more than a database, one that goes away and comes
// back.
//
// As in mainjob the sidecars are processes of the built binary, told by their
// environment, and everything is read from where a user reads it. What needs
// something that the machine may not have (other versions of Postgres, which come
// through npm; PgBouncer, which comes through apt-get) has the build tag verify.
//
// Tests that measure a time say it in their log (go test -v).
package postgres
