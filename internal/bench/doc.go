// Package bench measures the figures that docs/verify.md lists, each against a
// bound or against River in the same rounds. The command `sched bench` runs it.
//
// What is measured runs as it would in production: the sidecar is a sched-sidecar
// process, the app a process of its own, Postgres durable.
// The bench process itself only fills tables, paces producers and reads clocks,
// and stays out of the way while a clock runs.
//
// Invariants:
//   - River and sched get the same server, the same settings, a fresh database
//     and a checkpoint each, and take turns: River, sched, River, sched. What a
//     figure compares was measured in the same rounds.
//   - A clock starts at the first claim, by the database's clock, and stops when
//     the database holds the last outcome.
//   - A run in which a task failed, ran twice or never ended is an error, not a
//     figure.
//   - Every wait is bounded. Every process started is ended, by its own pid; on
//     Linux they also end with the bench process, however that ends.
//
// On failure nothing is left behind but, with a given DSN and a killed bench
// process, databases named sched_bench_*.
package bench
