package fleetfile

import (
	"encoding/json"
	"reflect"
	"time"
)

// Fleet is what a file or a database says: the entries of each section. In a
// file, a section that isn't there is not in the map.
type Fleet map[Section][]Entry

// Entry is one queue, kind or setting.
type Entry struct {
	Name     string            // of the kind or setting; base name of the queue
	Selector map[string]string // of a queue
	Protocol string            // of a queue
	Values   Values

	// What only the database knows.
	Pinned bool
	By     string    // who changed it last; empty when unknown
	At     time.Time // when; zero when unknown

	line int // in the file
}

// id is what tells the entries of a section apart.
func (e Entry) id() string {
	if len(e.Selector) == 0 && (e.Protocol == anyProtocol || e.Protocol == "") {
		return e.Name
	}
	selector, _ := json.Marshal(e.Selector) // strings; the keys come sorted
	return e.Name + "|" + string(selector) + "|" + e.Protocol
}

// Title is how people are told of it: render (gpu=a100, grpc).
func (e Entry) Title() string {
	demands := ""
	if len(e.Selector) > 0 {
		demands = showLabels(e.Selector)
	}
	if e.Protocol != "" && e.Protocol != anyProtocol {
		if demands != "" {
			demands += ", "
		}
		demands += e.Protocol
	}
	if demands == "" {
		return e.Name
	}
	return e.Name + " (" + demands + ")"
}

// equalValue compares two values of one key; nil is not set.
func equalValue(a, b any) bool { return reflect.DeepEqual(a, b) }
