package routing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

const (
	// turnWeight is the weight of each worker under round robin.
	turnWeight = 100
	// weightStep is the part of a weight by which it must change to be written.
	weightStep = 0.1
)

// Share is one worker's part in a queue: an assignment.
type Share struct {
	Weight int // above 0
	Reason string

	strained bool
}

// Plan returns the shares that members should have in queues which demand d, by
// worker id, given what they have: a share whose weight changed by less than a tenth
// stays as it is. It returns before itself when nothing changes.
//
// Weights follow what a worker is, not how busy it is at the moment: who is woken,
// and how often a worker looks, follows that.
func Plan(d Demand, strategy Strategy, members []*Member, before map[string]Share) map[string]Share {
	return planAble(d, strategy, slices.DeleteFunc(slices.Clone(members), func(m *Member) bool { return !m.Serves(d) }), before)
}

// planAble is Plan for members that have all that d asks for.
func planAble(d Demand, strategy Strategy, members []*Member, before map[string]Share) map[string]Share {
	next := make(map[string]Share, len(before))
	same := true
	for _, m := range members {
		weight, _ := m.weight(strategy)
		if weight == 0 {
			continue
		}
		share, ok := before[m.ID]
		if !ok || share.strained != (m.Health == Strained) || changed(share.Weight, weight) {
			share = Share{Weight: weight, Reason: m.reason(d, strategy, weight), strained: m.Health == Strained}
			same = false
		}
		next[m.ID] = share
	}
	if same && len(next) == len(before) {
		return before
	}
	return next
}

// weight returns m's share of a queue whose tasks it can run, or 0 and why it has
// none.
func (m *Member) weight(strategy Strategy) (weight int, why string) {
	switch {
	case m.State != StateActive:
		return 0, string(m.State)
	case m.Health == Overloaded:
		return 0, "overloaded"
	case m.HeldLong:
		return 0, "it has claimed nothing for a while, for reasons of its own (column holds)"
	case m.Slots < 1:
		return 0, "no slots"
	}
	weight = m.Slots
	if strategy == RoundRobin {
		weight = turnWeight
	}
	if m.Health == Strained {
		weight = max(weight/2, 1)
	}
	return weight, ""
}

func (m *Member) reason(d Demand, strategy Strategy, weight int) string {
	reason := "any worker may run it"
	if len(d.Selector) > 0 {
		reason = "labels match " + pairs(d.Selector)
	}
	if d.Protocol != anyProtocol && d.Protocol != "" {
		reason += "; speaks " + d.Protocol
	}
	if strategy == RoundRobin {
		reason += "; each in turn"
	} else {
		reason += fmt.Sprintf("; %d slots", m.Slots)
	}
	if m.Health == Strained {
		reason += fmt.Sprintf("; weight halved to %d: strained", weight)
	}
	return reason
}

// changed reports whether a weight, or a number of slots, became one that is worth
// telling.
func changed(old, now int) bool {
	change := float64(now - old)
	return change != 0 && max(change, -change) >= weightStep*float64(old)
}

// assignmentRow is a row of sched.assignment to write, or to delete.
type assignmentRow struct {
	Queue  string `json:"queue"`
	Worker string `json:"worker"`
	Weight int    `json:"weight,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// diffShares returns the rows of a queue to write and to delete so that its
// assignments become those in next, by worker id.
func diffShares(queue string, before, next map[string]Share) (put, drop []assignmentRow) {
	for id, share := range next {
		old, ok := before[id]
		if !ok || changed(old.Weight, share.Weight) || old.Weight == share.Weight && old.Reason != share.Reason {
			put = append(put, assignmentRow{queue, id, share.Weight, share.Reason})
		}
	}
	for id := range before {
		if _, ok := next[id]; !ok {
			drop = append(drop, assignmentRow{Queue: queue, Worker: id})
		}
	}
	byWorker := func(a, b assignmentRow) int { return cmp.Compare(a.Worker, b.Worker) }
	slices.SortFunc(put, byWorker)
	slices.SortFunc(drop, byWorker)
	return put, drop
}

func totalWeight(shares map[string]Share) (total int64) {
	for share := range maps.Values(shares) {
		total += int64(share.Weight)
	}
	return total
}
