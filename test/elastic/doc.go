// Package elastic_test runs sidecars that size themselves as their users do: real
// processes with "elastic: on" on a real database, beside an app whose behaviour is
// the test's, watched through sched.worker and sched.decision.
//
// How well slots follow, and what that costs, are figures: `sched bench elastic`.
package elastic_test
