// Package cli is the command lines of sched-sidecar and sched. A main function
// hands over its surroundings as a [Process] and exits with what [Sidecar] or
// [Sched] return, so that tests run whole commands in process.
//
// What a command was asked for goes to standard output, all else to standard
// error. An error is printed once, without a stack, after everything was
// stopped. Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 130 or
// 143 ended by SIGINT or SIGTERM before it was done.
//
// The first signal asks to stop: a sidecar drains and exits with 0. A second one
// ends the process at once, whatever it is doing.
package cli
