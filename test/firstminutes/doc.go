// Package firstminutes tests what a user meets first, black-box, with real processes: the README's section "First five
// minutes" word for word, and that `sched dev` and `sched-sidecar run -- command` leave nothing behind, however they end.
package firstminutes
