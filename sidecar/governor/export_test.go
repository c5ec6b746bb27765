package governor

import "github.com/sched-sidecar/sched/sql/dbq"

// WrapQueries lets a test stand between the governor and the database. To be
// called before Start.
func (g *Governor) WrapQueries(wrap func(dbq.Querier) dbq.Querier) { g.q = wrap(g.q) }
