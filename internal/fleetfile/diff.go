package fleetfile

import (
	"slices"
	"strings"
)

// Action is what an apply does about an entry.
type Action string

// The actions.
const (
	Add    Action = "add"
	Alter  Action = "change"
	Remove Action = "remove" // of a setting or queue: back to its defaults
	Pinned Action = "pinned" // differs and is left as it is
	Extra  Action = "extra"  // not in the file and left as it is
)

// Change is a difference between a file and the database, and what is done about
// it.
type Change struct {
	Action  Action
	Section Section
	Entry   Entry // as it is to be; of Remove, Pinned and Extra: as it is
	Fields  []FieldChange
}

// FieldChange is a value that differs; nil is not set.
type FieldChange struct {
	Key      string
	From, To any
}

// Diff returns what makes the database follow the file, in the order of the file
// and then of the names that it doesn't have. Equal entries are not in it.
func Diff(file, database Fleet, prune bool) []Change {
	var changes []Change
	for _, section := range Sections() {
		wanted, given := file[section]
		if !given {
			continue
		}
		have := make(map[string]Entry, len(database[section]))
		for _, e := range database[section] {
			have[e.id()] = e
		}
		for _, want := range wanted {
			current, exists := have[want.id()]
			delete(have, want.id())
			if change, differs := compare(section, want, current, exists); differs {
				changes = append(changes, change)
			}
		}
		for _, e := range database[section] {
			if _, left := have[e.id()]; left && section.configured(e) {
				changes = append(changes, leftover(section, e, prune))
			}
		}
	}
	return changes
}

// compare says what is to be done about an entry of the file.
func compare(section Section, want, current Entry, exists bool) (Change, bool) {
	change := Change{Action: Alter, Section: section, Entry: want, Fields: differences(section, current.Values, want.Values)}
	switch {
	case !exists:
		change.Action = Add
		return change, true
	case len(change.Fields) == 0:
		return Change{}, false
	case current.Pinned:
		change.Action, change.Entry = Pinned, current
	}
	return change, true
}

// leftover says what is to be done about an entry that the file doesn't have.
func leftover(section Section, e Entry, prune bool) Change {
	change := Change{Action: Extra, Section: section, Entry: e, Fields: differences(section, e.Values, section.defaults(e.Name))}
	switch {
	case e.Pinned && prune:
		change.Action = Pinned
	case prune:
		change.Action = Remove
	}
	return change
}

// differences takes what is not set for its default.
func differences(section Section, from, to Values) []FieldChange {
	fieldsOf := section.Fields()
	if section == Settings {
		fieldsOf = []Field{{Key: settingKey}}
	}
	var fields []FieldChange
	for _, f := range fieldsOf {
		before, after := f.orDefault(from), f.orDefault(to)
		if !equalValue(before, after) {
			fields = append(fields, FieldChange{Key: f.Key, From: before, To: after})
		}
	}
	return fields
}

// defaults are an entry's values when nothing is configured.
func (s Section) defaults(name string) Values {
	if s == Settings {
		f, _ := fieldOf(settingFields(), name)
		return Values{settingKey: f.Default}
	}
	return Values{}
}

// configured reports whether somebody has set anything: queues come into being by
// themselves, and settings are always there. The row of a kind or a schedule is always somebody's.
func (s Section) configured(e Entry) bool {
	return s == Kinds || s == Schedules || len(differences(s, e.Values, s.defaults(e.Name))) > 0
}

// Configured returns the part of a database's state that a file is made of.
func (f Fleet) Configured() Fleet {
	result := Fleet{}
	for _, section := range Sections() {
		entries := []Entry{}
		for _, e := range f[section] {
			if section == Settings || section.configured(e) {
				entries = append(entries, e)
			}
		}
		slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.id(), b.id()) })
		result[section] = entries
	}
	return result
}
