package routing_test

// The sidecar's metrics that the tests look at (docs/metrics.md).
const (
	metricUnroutable = "sched_queues_unroutable"
	metricClaims     = "sched_claims_total"
	metricLeading    = "sched_leading"
)
