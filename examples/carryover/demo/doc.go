// Demo closes a month for real and kills half of the fleet on the way.
//
// It starts an embedded Postgres with 50,000 orders, two instances of the
// example app and a sidecar beside each, all as processes of their own. One app
// closes the month: one transaction a batch marks 500 orders and enqueues their
// task. Half-way the sidecar that leads the fleet and the other pair's app get
// SIGKILL, with tasks in flight. The app is started again, the sidecar isn't:
// its tasks are rescued once its heartbeat has stood still.
//
// At the end the books are checked in SQL. The exit status is 0 only if every
// order was carried exactly once, to the cent, and the kill really hit tasks
// that had to be rescued. Whatever happens, no process is left behind, and
// nothing waits longer than the overall time limit.
package main
