// Package schedule enqueues periodic tasks: it tells when a cron expression is due ([Cron]), which is pure, and takes the
// leader's turns over the table sched.schedule ([Runner]).
//
// Invariants:
//   - Each time has one task, whoever leads: the task and the move to the next time are one transaction, which compares the
//     time that was read (sched.run_due_schedule). Two leaders at once enqueue one task.
//   - Times that passed while nobody led, or while the queue was red, are made up for by one task, not by many.
//   - The clock is the database's.
//   - A schedule that can't be run (a bad expression, args that enqueue refuses) is marked with the error, and keeps no other
//     from running. It is tried again when somebody changes it.
//   - A turn is bounded: so many schedules, the longest overdue first; the rest come a second later.
//
// On failure, such as a database that is away, a turn returns the error and has changed nothing, or whole schedules.
package schedule
