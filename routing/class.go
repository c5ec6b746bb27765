package routing

import (
	"maps"
	"slices"
)

// classKey names queues that demand the same. base is empty unless a worker is
// narrowed to queues of this name: it makes no difference otherwise.
type classKey struct{ selector, protocol, base string }

// class is which workers could serve such queues. It holds until a worker comes,
// goes or changes its labels.
type class struct {
	members    []*Member // that could serve them, whatever their state
	unroutable string
}

type groupKey struct {
	class    classKey
	strategy Strategy
}

// shares are the assignments of queues with the same demand and strategy. It never
// changes: what changes becomes another.
type shares struct{ rows map[string]Share }

// group is what holds for all queues with the same demand and strategy.
type group struct {
	shares     *shares
	load       float64
	freeSlots  int
	weight     int64
	wake       []string
	wakeable   map[string]bool // ids that would claim if they were woken
	canaries   int
	unroutable string

	turn    int // in which it was last asked for
	seen    int // fleetState.changes for which it holds
	rotates bool
}

// groupOf returns the group of a queue as of this turn. What didn't change is not
// computed again, so that ten thousand idle queues cost next to nothing.
func (r *Router) groupOf(q *queueState) *group {
	key := groupKey{class: q.class, strategy: q.strategy}
	if !r.fleet.named[q.demand.Base] {
		key.class.base = ""
	}
	g, ok := r.groups[key]
	if !ok {
		g = &group{shares: &shares{}, seen: -1}
		r.groups[key] = g
	}
	if g.seen != r.fleet.changes || g.rotates && g.turn != r.turn {
		c, ok := r.classes[key.class]
		if !ok {
			c = r.newClass(q.demand)
			r.classes[key.class] = c
		}
		g.compute(q.demand, q.strategy, c, r.turn)
		g.seen = r.fleet.changes
	}
	g.turn = r.turn
	return g
}

func (g *group) compute(d Demand, strategy Strategy, c *class, turn int) {
	before := g.shares.rows
	rows := planAble(d, strategy, c.members, before)
	if len(rows) != len(before) || !maps.Equal(rows, before) {
		g.shares = &shares{rows: rows}
	}
	g.weight = totalWeight(rows)
	g.unroutable = c.unroutable
	g.freeSlots, g.canaries = 0, 0
	g.wakeable = map[string]bool{}
	var assigned []*Member
	for _, m := range c.members {
		if _, ok := rows[m.ID]; !ok {
			continue
		}
		assigned = append(assigned, m)
		if m.wakeable() {
			g.freeSlots += m.free()
			g.wakeable[m.ID] = true
		}
		if m.isCanary() {
			g.canaries++
		}
	}
	g.load = meanLoad(assigned)
	if len(assigned) == 0 {
		g.load = meanLoad(c.members) // overloaded, held or draining: busy all the same
	}
	g.wake = WakeList(strategy, assigned, turn)
	if g.mixed(assigned) && slices.ContainsFunc(assigned, func(m *Member) bool { return m.wakeable() && !m.Polling && m.free() > 0 }) {
		g.wake = nil // the one that is woken, or that polls, may not be one that takes the task
	}
	g.rotates = strategy == RoundRobin && len(assigned) > wakeMax
}

// mixed reports whether not every worker takes every task: canaries have shares of
// their own, and some take some kinds only.
func (g *group) mixed(assigned []*Member) bool {
	return g.canaries > 0 && g.canaries < len(assigned) || slices.ContainsFunc(assigned, func(m *Member) bool { return m.Partial })
}

func (r *Router) newClass(d Demand) *class {
	c := &class{unroutable: Unsatisfied(d, r.fleet.members)}
	for _, m := range r.fleet.members {
		if m.Serves(d) {
			c.members = append(c.members, m)
		}
	}
	return c
}

// forgetGroups drops groups that no queue was in for a turn.
func (r *Router) forgetGroups() {
	for key, g := range r.groups {
		if g.turn != r.turn {
			delete(r.groups, key)
		}
	}
}

func (m *Member) isCanary() bool { return m.hasLabel(canaryLabel, canaryTrack) }
