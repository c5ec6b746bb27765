// Package worker is a thin client of the session between an app written in Go and
// the sidecar beside it: [Run] opens it, hands tasks to handlers, returns their
// outcomes, and opens it again when it breaks.
//
// An app needs no more of sched than this, and not even this: the session is
// described in proto/sched/worker/v1 and any language's gRPC will do.
//
// # What holds
//
//   - A handler's context ends when its task is cancelled, over time, or taken
//     away; what it returns then doesn't count.
//   - Delivery is at least once: a handler must be idempotent, or finish its task
//     in its own transaction with sched.complete and the task's lease.
//   - While the session is broken handlers go on. When it is back, the sidecar
//     learns what is still worked on, and results that are late are accepted if
//     the lease holds.
package worker
