package routing

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

// heldLong is how long a worker may claim nothing, for reasons of its own, before
// its assignments go to others.
const heldLong = 10 * time.Second

// fleetState is the live workers as the leader sees them, from turn to turn.
type fleetState struct {
	members []*Member // by id
	byID    map[string]*Member
	named   map[string]bool // base names of queues that a worker is narrowed to
	watch   map[string]*workerWatch
	gone    []string // since the turn before
	// traits are what decides who could serve what: ids, labels, protocols, queues
	// and state.
	traits string
	// changes counts the turns in which anything about a worker changed.
	changes int
}

type workerWatch struct {
	health    HealthState
	heldSince time.Time // zero: not held
	weightOf  string    // why it has no assignments; empty: it has
	seen      bool      // weightOf is known
}

// seeWorkers takes all live workers as they were read, and decides on their health.
func (r *Router) seeWorkers(ctx context.Context, now time.Time, rows []dbq.RoutingWorkersRow) error {
	before := r.fleet
	next := fleetState{
		changes: before.changes, named: map[string]bool{}, byID: make(map[string]*Member, len(rows)), watch: make(map[string]*workerWatch, len(rows)),
	}
	var traits strings.Builder
	var changed []healthRow
	r.present = make(Topology, len(rows))
	for _, row := range rows {
		watch, known := before.watch[row.ID]
		if !known {
			watch = &workerWatch{health: HealthState{Health: Health(row.Health)}}
		}
		next.watch[row.ID] = watch
		m := memberOf(row)
		r.examine(m, watch, row, now)
		if Health(row.Health) != m.Health {
			changed = append(changed, healthRow{m.ID, string(m.Health)})
		}
		next.members = append(next.members, m)
		next.byID[m.ID] = m
		for _, base := range m.Bases {
			next.named[base] = true
		}
		fmt.Fprintf(&traits, "%s %s %v %q %s\n", m.ID, row.Labels, m.Protocols, m.Bases, m.State)
		r.present[m.ID] = TopologyEntry{
			Hostname: row.Hostname, Labels: m.Labels, State: m.State, Health: m.Health, Slots: m.Slots, Ceiling: m.Ceiling,
			Protocols: m.Protocols, Queues: m.Bases,
		}
	}
	next.traits = traits.String()
	next.follow(before)
	if next.traits != before.traits {
		clear(r.classes)
	}
	r.fleet = next
	r.noteAssignable(before)
	return r.putHealth(ctx, changed)
}

// examine decides on a worker's health, and for how long it has been held.
func (r *Router) examine(m *Member, watch *workerWatch, row dbq.RoutingWorkersRow, now time.Time) {
	was := watch.health.Health
	var reason string
	watch.health, reason = watch.health.Next(Vitals{
		Seq: row.HeartbeatSeq, LoadPercent: float64(row.LoadPercent), RoundTrip: time.Duration(float64(row.RttMs) * float64(time.Millisecond)),
	})
	m.Health = watch.health.Health
	if reason != "" {
		r.decisions.Note(Decision{
			What: "health", Subject: m.ID, From: string(was), To: string(m.Health), Reason: reason,
			Signals: map[string]any{"load_percent": row.LoadPercent, "rtt_ms": row.RttMs},
		})
	}
	switch {
	case !m.Held:
		watch.heldSince = time.Time{}
	case watch.heldSince.IsZero():
		watch.heldSince = now
	}
	m.HeldLong = m.Held && now.Sub(watch.heldSince) >= heldLong
}

// follow finds who is gone and whether anything changed since before. While nobody
// comes, goes or changes its traits, the members stay the same values, since classes
// hold them.
func (f *fleetState) follow(before fleetState) {
	for id := range before.byID {
		if _, lives := f.byID[id]; !lives {
			f.gone = append(f.gone, id)
		}
	}
	if f.traits != before.traits {
		f.changes++
		return
	}
	if !slices.EqualFunc(f.members, before.members, (*Member).same) {
		f.changes++
	}
	for i, m := range before.members {
		*m = *f.members[i]
	}
	f.members, f.byID = before.members, before.byID
}

type healthRow struct {
	ID     string `json:"id"`
	Health string `json:"health"`
}

func (r *Router) putHealth(ctx context.Context, changed []healthRow) error {
	if len(changed) == 0 {
		return nil
	}
	entries, err := json.Marshal(changed)
	if err != nil {
		return fmt.Errorf("write health: %w", err)
	}
	if err := r.q.RoutingHealth(ctx, entries); err != nil {
		return fmt.Errorf("write health: %w", err)
	}
	return nil
}

// noteAssignable notes which workers became able to have assignments, or lost them.
func (r *Router) noteAssignable(before fleetState) {
	for _, m := range r.fleet.members {
		watch := r.fleet.watch[m.ID]
		_, why := m.weight(LeastLoaded)
		if watch.seen && watch.weightOf == why {
			continue
		}
		fresh := !watch.seen
		had := watch.seen && watch.weightOf == ""
		watch.seen, watch.weightOf = true, why
		switch {
		case why == "" && fresh && r.turn == 0: // a new leader: nothing changed
		case why == "":
			r.decisions.Note(Decision{What: "assignment", Subject: m.ID, From: "none", To: "assigned", Reason: "active and able: it gets its share of the queues that its labels match"})
		case had:
			r.decisions.Note(Decision{What: "assignment", Subject: m.ID, From: "assigned", To: "none", Reason: why})
		}
	}
	for _, id := range r.fleet.gone {
		if watch := before.watch[id]; watch.seen && watch.weightOf == "" {
			r.decisions.Note(Decision{What: "assignment", Subject: id, From: "assigned", To: "none", Reason: "its registration ended"})
		}
	}
}

// same reports whether two members whose traits are the same are the same.
func (m *Member) same(other *Member) bool {
	return m.ID == other.ID && m.Health == other.Health && m.Held == other.Held && m.HeldLong == other.HeldLong && m.Polling == other.Polling &&
		m.Partial == other.Partial && m.Running == other.Running && m.Slots == other.Slots && m.Ceiling == other.Ceiling
}

func memberOf(row dbq.RoutingWorkersRow) *Member {
	return &Member{
		ID: row.ID, Labels: textPairs(row.Labels), Bases: row.Queues, Protocols: row.Protocols, State: State(row.State),
		Held: row.Held, Partial: row.Partial, Polling: row.Polling, Running: int(row.Running), Slots: int(row.Slots), Ceiling: int(row.Ceiling),
		CPU: float64(row.Cpu),
	}
}

// textPairs reads a JSON object of texts. A value that is no text, which only a
// foreign client writes, becomes one that equals no other.
func textPairs(object string) map[string]string {
	var values map[string]any
	if json.Unmarshal([]byte(object), &values) != nil {
		return map[string]string{}
	}
	all := make(map[string]string, len(values))
	for key, value := range values {
		text, ok := value.(string)
		if !ok {
			text = fmt.Sprintf("%v (no text)", value)
		}
		all[key] = text
	}
	return all
}

// meanLoad is the mean running ÷ ceiling of members, 0 if there are none.
func meanLoad(members []*Member) float64 {
	if len(members) == 0 {
		return 0
	}
	var sum float64
	for _, m := range members {
		sum += m.load()
	}
	return sum / float64(len(members))
}

// active are the members that take tasks.
func (f fleetState) active() []*Member {
	return slices.DeleteFunc(slices.Clone(f.members), func(m *Member) bool { return m.State != StateActive })
}

func (f fleetState) total(of func(*Member) int) (sum int) {
	for m := range maps.Values(f.byID) {
		sum += of(m)
	}
	return sum
}
