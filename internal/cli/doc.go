// Package cli is the command lines of sched-sidecar and sched. A main function
// hands over its surroundings as a [Process] and exits with what [Sidecar] or
// [Sched] return, so that tests run whole commands in process.
//
// What a command was asked for goes to standard output, all else to standard
// error. An error is printed once, without a stack, after everything was
// stopped. Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 what
// was named isn't there; 130 or 143 ended by SIGINT or SIGTERM before it was done.
//
// Tables and sentences are for people, and may change. With --json there is one
// object a line, whose names are those of the SQL views. What the database says is
// cleaned of control characters before a terminal gets it. docs/cli.md is written
// from the commands.
//
// The first signal asks to stop: a sidecar drains and exits with 0. A second one
// ends the process at once, whatever it is doing.
package cli

//go:generate go test . -run TestReference -update
