// Package mainjob holds the black-box tests of sched's main job: a task that
// was enqueued in a transaction runs, survives whatever dies in the middle, and
// has its effect once.
//
// Nothing here looks inside. The sidecars are processes of the built binary,
// configured by their environment; Postgres is real; the app is a web server,
// in the test or, where it must die, a process too. What happened is read from
// where a user reads it: the views sched.task, sched.attempt and sched.worker,
// the sidecar's admin address, and what the app saw.
//
// The sidecars' timing is shortened (see quick) so that an eviction takes a
// second and the whole package a few minutes. The build tag verify adds the
// same scenarios at their full length, with the timing that ships.
package mainjob
