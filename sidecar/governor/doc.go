// Package governor is the seam with River: everything that sched does
// differently from River's own client happens here, and nowhere else does the
// project use River's unstable interfaces (driver, executor, pilot).
//
// River stays the engine. Its client runs one producer, whose fetch loop,
// executors, leader election and maintenance are River's; the governor answers
// the questions they ask:
//
//   - What may be claimed? One statement over all queues that this worker
//     serves, for as many tasks as there are free slots ([Governor.SetSlots] moves
//     the limit live), and for none while any hold is on ([Governor.Hold]). No SQL
//     is sent when nothing may be claimed.
//   - Who works a task? One registered River worker, whatever the task's kind:
//     it hands the task to the [dispatch.Dispatcher] and waits for the outcome.
//   - How does an attempt end? Through [jobs.Settler], fenced by the attempt's
//     lease. A slot is free only once the outcome is written. River's completer
//     is answered without SQL.
//   - Which task is lost? One whose worker is dead, never one that is merely old:
//     River's rescuer finds nothing, and the leader evicts by heartbeat.
//   - What is due? River's scheduler finds nothing; the promoter works to the
//     millisecond.
//
// What happens on failure: without Postgres the sidecar stops claiming after
// three missed heartbeats, ends its calls at FenceAfter, keeps the outcomes that
// it has, and writes those whose lease still holds when Postgres is back. A
// registration that was evicted meanwhile is replaced by a new one.
package governor
