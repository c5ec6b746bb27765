// Package operator is what a person who runs a fleet asks and does: listing and
// explaining tasks, workers, queues and batches, changing many tasks at once, and
// taking tasks in from a file. The command line shows it; it prints nothing
// itself.
//
// Every answer carries the row as the database gave it, in JSON, under the names
// of the SQL views. Lists come in pages that continue at a cursor, and cost a page
// or what an index finds, never the table, unless the filter has no index (kind,
// queue, label): then the newest tasks are walked until the page is full.
//
// Reads run in one read-only transaction each, without JIT compilation, which
// would take longer than the statements. A change of many tasks decides first
// which ones it means, and then works in small transactions that wait for nobody:
// a task that an app holds open is left out and told.
package operator
