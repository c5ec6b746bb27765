package routing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// anyProtocol is the protocol of tasks that leave it to the worker.
const anyProtocol = "any"

// namedPairs is how many pairs a text names at most; a selector may have a hundred.
const namedPairs = 5

// Demand is what the tasks of a queue ask of a worker.
type Demand struct {
	Base     string // queue as it was named when enqueueing
	Selector map[string]string
	Protocol string // any, or the one that it must speak
}

// Member is a live worker as routing sees it.
type Member struct {
	ID        string
	Labels    map[string]string
	Bases     []string // queues it is narrowed to; nil: all
	Protocols []string
	State     State
	Health    Health
	// Held: it claims nothing for a reason of its own, such as an app that is
	// down. HeldLong: so it has been for some time.
	Held, HeldLong bool
	// Partial: it takes some kinds only.
	Partial bool
	// Polling: it looks for work by itself, so that nobody need wake it.
	Polling                 bool
	Running, Slots, Ceiling int
	CPU                     float64 // 0 to 1
}

// Serves reports whether m has all that d asks for. An unknown key is a pair that it
// lacks; an empty value must be there and be empty.
func (m *Member) Serves(d Demand) bool {
	for key, value := range d.Selector {
		if !m.hasLabel(key, value) {
			return false
		}
	}
	return m.speaks(d.Protocol) && m.serves(d.Base)
}

// takesWork reports whether m's lifecycle lets it take tasks, now or in a moment.
func (m *Member) takesWork() bool { return m.State == StateActive || m.State == StatePending }

func (m *Member) hasLabel(key, value string) bool {
	got, ok := m.Labels[key]
	return ok && got == value
}

func (m *Member) speaks(protocol string) bool {
	return protocol == anyProtocol || protocol == "" || slices.Contains(m.Protocols, protocol)
}

func (m *Member) serves(base string) bool { return m.Bases == nil || slices.Contains(m.Bases, base) }

// free is how many tasks m could start now.
func (m *Member) free() int { return max(m.Slots-m.Running, 0) }

// load is running ÷ ceiling, 0 to 1.
func (m *Member) load() float64 {
	if m.Ceiling <= 0 {
		return 1
	}
	return min(float64(m.Running)/float64(m.Ceiling), 1)
}

// Unsatisfied says what keeps d from being served: the pairs (or the protocol, or
// the queue's name) that no worker offers, or else those that no worker offers
// together. Empty: somebody serves it, or nobody takes work at all.
func Unsatisfied(d Demand, members []*Member) string {
	var able []*Member
	for _, m := range members {
		if m.takesWork() {
			able = append(able, m)
		}
	}
	if len(able) == 0 || slices.ContainsFunc(able, func(m *Member) bool { return m.Serves(d) }) {
		return ""
	}
	type condition struct {
		name string
		met  []bool // by each of able
	}
	var lacking []string
	var met []condition
	demand := func(name string, check func(*Member) bool) {
		c := condition{name, make([]bool, len(able))}
		for i, m := range able {
			c.met[i] = check(m)
		}
		if slices.Contains(c.met, true) {
			met = append(met, c)
		} else {
			lacking = append(lacking, name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.Selector)) {
		demand(key+"="+d.Selector[key], func(m *Member) bool { return m.hasLabel(key, d.Selector[key]) })
	}
	if d.Protocol != anyProtocol && d.Protocol != "" {
		demand("protocol "+d.Protocol, func(m *Member) bool { return m.speaks(d.Protocol) })
	}
	demand("this queue", func(m *Member) bool { return m.serves(d.Base) })
	if len(lacking) > 0 {
		return list(lacking, ", ")
	}
	for i, a := range met {
		for _, b := range met[i+1:] {
			together := false
			for w := range able {
				together = together || a.met[w] && b.met[w]
			}
			if !together {
				return a.name + " together with " + b.name
			}
		}
	}
	names := make([]string, len(met))
	for i, c := range met {
		names[i] = c.name
	}
	return list(names, " together with ")
}

// pairs writes a selector as people do.
func pairs(selector map[string]string) string {
	all := make([]string, 0, len(selector))
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		all = append(all, key+"="+selector[key])
	}
	return list(all, ", ")
}

func list(names []string, separator string) string {
	if more := len(names) - namedPairs; more > 0 {
		names = append(slices.Clone(names[:namedPairs]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, separator)
}
