// Package routing knows the fleet: which workers exist, which of them are
// alive, and which queues each may serve.
//
// Decisions are functions of values: [Liveness], [HealthState], [Plan], [WakeList],
// [Pressure], [NextCanary], [Unsatisfied], [DiffTopology]. The [Registry] reads and
// writes a worker's own rows; the [Router] takes the leader's turn each second: it
// reads the fleet, decides, and writes what changed. It waits for nobody's locks, and
// what it couldn't write comes again in the next turn; when nobody leads for a while
// sidecars serve by their labels alone and pressure counts as green. Two routers at
// once, as for a moment after a change of leaders, do no harm: each starts over from
// the rows when the fleet's row names the other.
//
// What sched decides is noted in the [DecisionLog], off the hot path.
//
// A worker is one registration of a sidecar:
// after an eviction the same process comes back under a new id, so an id that
// has ended never returns.
package routing
