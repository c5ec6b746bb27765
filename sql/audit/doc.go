// Package audit holds the questions that auditors ask: each file is one statement
// over the views of the schema sched, with a header that says what it answers, its
// parameters with types and defaults, and what it reads at most.
//
// The statements need the rights of sched_auditor and nothing else. Each takes less
// than 200 ms on five million archived tasks (figure see.audit.max_ms), if it is
// planned for its arguments: bounds on times then tell which months are read.
package audit
