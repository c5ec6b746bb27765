package routing

import (
	"cmp"
	"slices"
)

// wakeMax is the most entries of a wake list.
const wakeMax = 16

// WakeList returns whom an enqueue should wake, one of its entries each time. nil:
// nobody is assigned, so everybody should hear of it. Empty: nobody need be woken,
// since a worker polls by itself or all are full. turn counts up, so that under
// round robin with more workers than entries each gets its time.
//
// Under least_loaded an id occurs in proportion to its worker's free slots (largest
// remainder); the choice among entries is even, so tasks spread as free slots do.
func WakeList(strategy Strategy, assigned []*Member, turn int) []string {
	if len(assigned) == 0 {
		return nil
	}
	candidates := make([]*Member, 0, len(assigned))
	for _, m := range assigned {
		if !m.wakeable() {
			continue
		}
		if m.Polling {
			return []string{}
		}
		if m.free() > 0 {
			candidates = append(candidates, m)
		}
	}
	slices.SortFunc(candidates, func(a, b *Member) int { return cmp.Compare(a.ID, b.ID) })
	if strategy == RoundRobin {
		return inTurn(candidates, turn)
	}
	return byFreeSlots(candidates)
}

// wakeable reports whether m would claim if it were woken and had a free slot.
func (m *Member) wakeable() bool {
	return m.State == StateActive && !m.Held && m.Health != Overloaded
}

// inTurn names each once; of more than wakeMax it takes the next ones each time.
func inTurn(candidates []*Member, turn int) []string {
	n := len(candidates)
	ids := make([]string, min(n, wakeMax))
	first := 0
	if n > wakeMax {
		first = turn * wakeMax % n
	}
	for i := range ids {
		ids[i] = candidates[(first+i)%n].ID
	}
	slices.Sort(ids)
	return ids
}

// byFreeSlots shares wakeMax entries out by largest remainder, or fewer if those
// give the proportions exactly.
func byFreeSlots(candidates []*Member) []string {
	total, divisor := 0, 0
	for _, m := range candidates {
		total += m.free()
		divisor = gcd(m.free(), divisor)
	}
	if total == 0 {
		return []string{}
	}
	entries := min(wakeMax, total/divisor)
	type quota struct {
		member          *Member
		seats, leftover int
	}
	quotas := make([]quota, len(candidates))
	given := 0
	for i, m := range candidates {
		quotas[i] = quota{m, m.free() * entries / total, m.free() * entries % total}
		given += quotas[i].seats
	}
	slices.SortStableFunc(quotas, func(a, b quota) int { return cmp.Compare(b.leftover, a.leftover) })
	for i := range entries - given {
		quotas[i].seats++
	}
	ids := make([]string, 0, entries)
	for _, q := range quotas {
		for range q.seats {
			ids = append(ids, q.member.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
