package routing

import (
	"reflect"
	"slices"
	"time"
)

// TopologyEntry is what a topology says of one worker.
type TopologyEntry struct {
	Hostname  string            `json:"hostname"`
	Labels    map[string]string `json:"labels"`
	State     State             `json:"state"`
	Health    Health            `json:"health"`
	Slots     int               `json:"slots"`
	Ceiling   int               `json:"ceiling"`
	Protocols []string          `json:"protocols"`
	Queues    []string          `json:"queues"` // base names it is narrowed to; null: all
}

// Topology is the fleet at a moment: its live workers by id.
type Topology map[string]TopologyEntry

// The kinds of change, and the reasons for a snapshot.
const (
	ChangeJoin   = "join"
	ChangeLeave  = "leave"
	ChangeChange = "change"
)

// TopologyChange is how one worker's entry changed with a version.
type TopologyChange struct {
	WorkerID string         `json:"worker"`
	What     string         `json:"what"`
	Before   *TopologyEntry `json:"before"` // nil: it joined
	After    *TopologyEntry `json:"after"`  // nil: it left
}

// DiffTopology returns what leads from before to after, by worker id.
func DiffTopology(before, after Topology) []TopologyChange {
	var changes []TopologyChange
	for id, entry := range after {
		old, ok := before[id]
		switch {
		case !ok:
			changes = append(changes, TopologyChange{WorkerID: id, What: ChangeJoin, After: &entry})
		case !reflect.DeepEqual(old, entry):
			changes = append(changes, TopologyChange{WorkerID: id, What: ChangeChange, Before: &old, After: &entry})
		}
	}
	for id, old := range before {
		if _, ok := after[id]; !ok {
			changes = append(changes, TopologyChange{WorkerID: id, What: ChangeLeave, Before: &old})
		}
	}
	slices.SortFunc(changes, func(a, b TopologyChange) int {
		if a.WorkerID < b.WorkerID {
			return -1
		}
		return 1 // ids are unique
	})
	return changes
}

// calm returns t with the slots of before where they changed by less than a tenth:
// resizing is no news each second.
func (t Topology) calm(before Topology) Topology {
	for id, entry := range t {
		old, ok := before[id]
		if !ok {
			continue
		}
		if !changed(old.Slots, entry.Slots) {
			entry.Slots = old.Slots
			t[id] = entry
		}
	}
	return t
}

// Cadence returns how often a fleet of so many workers is looked at for changes
// other than a worker that joins or leaves, which are taken down at once.
func Cadence(workers int) time.Duration {
	switch {
	case workers >= 1000:
		return 10 * time.Second
	case workers > 100:
		return 5 * time.Second
	default:
		return 2 * time.Second
	}
}

// snapshotReason says why a snapshot with these changes is taken: the weightiest of
// them.
func snapshotReason(changes []TopologyChange) string {
	reason := ChangeChange
	for _, c := range changes {
		switch c.What {
		case ChangeLeave:
			return ChangeLeave
		case ChangeJoin:
			reason = ChangeJoin
		}
	}
	return reason
}
