package governor

import (
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// WrapQueries lets a test stand between the governor and the database. To be
// called before Start.
func (g *Governor) WrapQueries(wrap func(dbq.Querier) dbq.Querier) { g.q = wrap(g.q) }

// Observe notes a value with its trace.
var Observe = observe

// RetryDelay is the shortest delay that a kind's policy gives now.
func (g *Governor) RetryDelay(kind string, failures int) time.Duration {
	return g.retryDelay(kind, failures, 0)
}

// PolicyEvery sets how old the policy may get while its changes are heard of. To
// be called before Start.
func (g *Governor) PolicyEvery(d time.Duration) { g.policyEvery = d }
