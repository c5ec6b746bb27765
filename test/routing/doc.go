// Package routing holds the black-box tests of who runs a task, and whether it is
// taken at all: selectors, assignments, strategies, priorities, limits, pressure,
// canaries, topology, and the record of what was decided.
//
// Nothing here looks inside. The sidecars are processes of the built binary and
// the operator's commands are the built sched; Postgres is real; the app is a web
// server in the test. What happened is read from where a user reads it: the tables
// and views of the schema, the commands' output, the metrics, and what the app saw.
//
// The machine may be slow and shared. So the tests compare counts, orders and
// ratios; times appear as upper bounds that are generous, and as rates that the
// database's clock measured.
package routing
