// Package dev is `sched dev`: an embedded Postgres, migrated, a sidecar in this process, and the user's app as a child,
// as one process tree with one log.
//
// Invariants:
//   - Nothing outlives this process, not even after kill -9: Postgres hangs on package devpg's supervisor, the app and
//     its descendants on package supervise's guard.
//   - The end goes from the outside in: the sidecar drains, the app is stopped, Postgres is stopped.
//   - A project's data stay from one run to the next, under the user's state directory and not in the project, where
//     watchers, linters and image builds would come upon them. So does the DSN, as long as its port is free.
//   - The user's own databases are out of reach: DATABASE_URL and its like are not read, and the app gets this server's.
package dev
