package fleetfile

import (
	"math"
	"time"
)

// Section is a part of a file, by its key.
type Section string

// The sections of a file, in the order they are written.
const (
	Settings Section = "settings"
	Queues   Section = "queues"
	Kinds    Section = "kinds"
)

// Sections returns all of them in order.
func Sections() []Section { return []Section{Settings, Queues, Kinds} }

// One is what an entry of the section is called.
func (s Section) One() string {
	return string(s[:len(s)-1])
}

// settingKey is the only key of a setting's values.
const settingKey = "value"

// Field is a key that an entry may have.
type Field struct {
	Key  string
	Doc  string
	Type Type
	Enum []string // Text: the only values

	// Integer, Number: as they are. Duration: nanoseconds. Text: characters.
	Min, Max float64
	BelowMax bool // Max itself is too much

	Pattern, Shape string // Text: a regular expression, and what it says

	Default any // of a setting
}

// Fields returns the keys of an entry in the order they are written; for
// settings, the settings themselves.
func (s Section) Fields() []Field {
	switch s {
	case Settings:
		return settingFields()
	case Queues:
		return []Field{descriptionField()}
	case Kinds:
		return kindFields()
	default:
		return nil
	}
}

const (
	week            = 7 * 24 * time.Hour
	maxDescription  = 1000
	maxQueue        = 100
	queuePattern    = `^[a-z0-9]+(?:[_-][a-z0-9]+)*$`
	queueShape      = "lower-case letters and digits, with single _ or - between them"
	maxKind         = 127
	kindPattern     = `^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.·:+]*$`
	kindShape       = "ASCII letters, digits and _-[]<>/.:+, beginning with a letter, digit or _"
	anyProtocol     = "any"
	maxPairs        = 64
	maxLabel        = 63
	maxLabelValue   = 255
	leastResolution = time.Microsecond
)

func descriptionField() Field {
	return Field{Key: "description", Doc: "What it is, for people.", Type: Text, Min: 1, Max: maxDescription}
}

func queueField(key, doc string) Field {
	return Field{Key: key, Doc: doc, Type: Text, Min: 1, Max: maxQueue, Pattern: queuePattern, Shape: queueShape}
}

func selectorField(doc string) Field { return Field{Key: "selector", Doc: doc, Type: Labels} }

func protocolField(doc string) Field {
	return Field{Key: "protocol", Doc: doc, Type: Text, Enum: []string{anyProtocol, "http", "grpc", "exec"}}
}

// identityFields are what tells queues apart.
func identityFields() []Field {
	return []Field{
		queueField("name", "Name of the queue, as enqueue is given it."),
		selectorField("Labels that a worker must all carry to serve it."),
		protocolField("Protocol that a worker must speak to serve it."),
	}
}

func kindFields() []Field {
	return []Field{
		descriptionField(),
		queueField("queue", "Queue of its tasks."),
		selectorField("Labels that its workers must all carry."),
		protocolField("Protocol that its workers must speak."),
		{Key: "priority", Doc: "Priority of its tasks: 1 starts first, 4 last.", Type: Integer, Min: 1, Max: 4},
		{Key: "timeout", Doc: "Time that an attempt may take.", Type: Duration, Min: float64(leastResolution), Max: float64(week)},
		{Key: "max_attempts", Doc: "Attempts after which a failing task is discarded.", Type: Integer, Min: 1, Max: math.MaxInt16},
		{Key: "retry_base", Doc: "Wait after the first failure.", Type: Duration, Min: float64(time.Millisecond), Max: float64(week)},
		{Key: "retry_factor", Doc: "What each further failure multiplies the wait with.", Type: Number, Min: 1, Max: 100},
		{Key: "retry_cap", Doc: "Longest wait between attempts; not under retry_base.", Type: Duration, Min: float64(time.Millisecond), Max: float64(week)},
		{Key: "retry_jitter", Doc: "Part of the wait by which it may be shorter or longer.", Type: Number, Min: 0, Max: 1, BelowMax: true},
	}
}

func settingFields() []Field {
	return []Field{
		{
			Key: "notify", Type: Flag, Default: true,
			Doc: "Whether enqueueing a task wakes a sidecar at once with NOTIFY (true or false). Off, tasks start at the next poll.",
		},
		{
			Key: "max_args_bytes", Type: Integer, Min: 2, Max: 255 << 20, Default: int64(1 << 20),
			Doc: "Largest args of a task and largest output of sched.complete, in bytes of JSON text (2 to 267386880).",
		},
		{
			Key: "max_enqueue_many", Type: Integer, Min: 1, Max: 1e6, Default: int64(1e5),
			Doc: "Most tasks in one call of sched.enqueue_many (1 to 1000000).",
		},
	}
}

// fieldOf finds a field by its key.
func fieldOf(fields []Field, key string) (Field, bool) {
	for _, f := range fields {
		if f.Key == key {
			return f, true
		}
	}
	return Field{}, false
}

func keysOf(fields []Field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	return keys
}
