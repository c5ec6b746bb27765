// Package grpcapp hands tasks to apps that open a session to the sidecar: one
// stream, on which tasks, results, cancels and heartbeats travel many at a time
// (proto/sched/worker/v1; docs/grpc.md is the contract with app developers).
//
// # How an attempt ends
//
// By the app's result for its lease. When the attempt is ended from outside, the
// app gets a Cancel and the cause decides. When its session breaks off, the
// attempt stays with the app's instance for a grace: a new session of the same
// instance that names it takes it up again, and a result that was computed
// meanwhile counts. After the grace it is a failure like any other lost answer.
//
// # Invariants
//
//   - No session holds more tasks than its window; what doesn't fit waits here,
//     and the capacity that is reported keeps the sidecar from claiming it.
//   - A task that was never written to a stream is not spent when that breaks.
//   - Every attempt gets exactly one outcome, whoever else speaks of it.
//   - A frame that breaks the protocol ends its own stream, with a reason, and
//     nothing else.
package grpcapp
