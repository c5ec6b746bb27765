// Schemadump writes sql/schema.sql: the schema sched as the migrations make it,
// for sqlc and for readers. It migrates a database of its own and reads the
// catalog, so it needs no pg_dump and its output doesn't depend on one's version.
//
//	go run ./internal/schemadump -o sql/schema.sql
//
// Roles, ownership and grants are left out: the migrations set them up by name.
// A test holds the file to the migrations, by catalog and not by text, since
// Postgres versions print some definitions differently.
package main
