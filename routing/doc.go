// Package routing knows the fleet: which workers exist, which of them are
// alive, and which queues each may serve.
//
// Decisions are functions of values (see [Liveness]); the [Registry] reads and
// writes the rows they are made from. A worker is one registration of a sidecar:
// after an eviction the same process comes back under a new id, so an id that
// has ended never returns.
package routing
