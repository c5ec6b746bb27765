// Package doctor looks a database over and says what is wrong with it and what
// to do: whether the schema fits this release, who leads, whether workers live
// and serve the queues that have tasks, whether Postgres keeps the tables in
// shape. It changes nothing.
//
// Each check is one function of the table in [checks]. It reads within a
// read-only transaction of its own, with a time limit, and one that can't read
// what it needs is skipped and says so: a doctor is called when things are
// broken, so no check may rely on another's being well.
//
// Its SQL stands beside the check that it is for, not in sql/queries: it reads
// the catalog, and must bear schemas older and newer than this release, which
// code made from this release's schema need not.
package doctor
