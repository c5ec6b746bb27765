// Package jobs holds what a task is and how its attempts end: enqueueing in the
// caller's transaction, the retry policy, and settling with a lease.
//
// The Go API is a thin layer over the SQL API in the schema sched, which any
// language can call; see docs/sql.md. A task exists exactly when the
// transaction that enqueued it commits.
package jobs
