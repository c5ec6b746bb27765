// Package firstminutes tests what a user meets first, black-box, with real processes: every command
// of the README word for word, and that `sched dev` and `sched-sidecar run -- command` leave nothing behind, however they end.
package firstminutes
