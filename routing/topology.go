package routing

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// ErrNoTopology is returned by [Registry.TopologyAt] when what was then is not
// kept any more, or was not yet.
var ErrNoTopology = errors.New("no topology is known of then")

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

// Apply returns the topology after the changes of the next version.
func (t Topology) Apply(changes []TopologyChange) Topology {
	return t.with(changes, func(c TopologyChange) *TopologyEntry { return c.After })
}

// Undo returns the topology before the changes of its version.
func (t Topology) Undo(changes []TopologyChange) Topology {
	return t.with(changes, func(c TopologyChange) *TopologyEntry { return c.Before })
}

func (t Topology) with(changes []TopologyChange, side func(TopologyChange) *TopologyEntry) Topology {
	next := maps.Clone(t)
	if next == nil {
		next = Topology{}
	}
	for _, c := range changes {
		if entry := side(c); entry != nil {
			next[c.WorkerID] = *entry
		} else {
			delete(next, c.WorkerID)
		}
	}
	return next
}

// Reconstruct returns the topology of a version from a snapshot of any other and
// the change log between the two, by version. It fails if a version is missing.
func Reconstruct(snapshot Topology, at int64, changes map[int64][]TopologyChange, version int64) (Topology, error) {
	for at != version {
		step, next := at, at-1
		if at < version {
			step, next = at+1, at+1
		}
		log, ok := changes[step]
		if !ok {
			return nil, fmt.Errorf("version %d: the changes of version %d are not kept: %w", version, step, ErrNoTopology)
		}
		if at < version {
			snapshot = snapshot.Apply(log)
		} else {
			snapshot = snapshot.Undo(log)
		}
		at = next
	}
	return snapshot, nil
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

// Digest returns the SHA-256 of a topology's text as Postgres writes it (column
// topology::text), in hex.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
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
