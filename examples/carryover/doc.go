// Carryover is a small shop that closes its month: it carries the balance of
// every order into the next one, in tasks of 500 orders.
//
// It is plain net/http and pgx, and knows sched by three things only: it
// enqueues with select sched.enqueue(…) in the transaction that marks the
// orders, a sidecar posts each task to /carryover, and the task finishes with
// select sched.complete(…) in the transaction that carries the orders. So the
// orders are carried exactly once, however often an attempt dies on the way.
package main
