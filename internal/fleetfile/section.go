package fleetfile

import (
	"math"
	"slices"
	"time"

	"github.com/sched-sidecar/sched/schedule"
)

// Section is a part of a file, by its key.
type Section string

// The sections of a file, in the order they are written.
const (
	Settings  Section = "settings"
	Queues    Section = "queues"
	Kinds     Section = "kinds"
	Schedules Section = "schedules"
)

// Sections returns all of them in order.
func Sections() []Section { return []Section{Settings, Queues, Kinds, Schedules} }

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

	Default any // of a setting, and of what a queue always has
}

// Fields returns the keys of an entry in the order they are written; for
// settings, the settings themselves.
func (s Section) Fields() []Field {
	switch s {
	case Settings:
		return settingFields()
	case Queues:
		return queueFields()
	case Kinds:
		return kindFields()
	case Schedules:
		return scheduleFields()
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
	maxSchedule     = 100
	schedulePattern = `^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$`
	scheduleShape   = "ASCII letters, digits and _.:/-, beginning with a letter, digit or _"
	weightsPattern  = `^(?:profile|(?:0|1|0\.[0-9]{1,6}|1\.0{1,6})(?:/(?:0|1|0\.[0-9]{1,6}|1\.0{1,6})){2})$`
	weightsShape    = "profile, or three numbers that are together 1, such as 0.4/0.3/0.3"
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

func queueFields() []Field {
	return []Field{
		descriptionField(),
		{
			Key: "strategy", Type: Text, Enum: []string{"least_loaded", "round_robin"}, Default: "least_loaded",
			Doc: "How its work spreads over its workers: to the one with the most room, or to each in turn.",
		},
		{
			Key: "admission", Type: Text, Enum: []string{"accept", "delay", "reject"}, Default: "accept",
			Doc: "What enqueue does under pressure: take the task, delay it (more at red), or refuse it (at red).",
		},
		{Key: "max_pending", Doc: "Tasks waiting and due that count as full. Left out: the setting max_pending.", Type: Integer, Min: 1, Max: 1e6},
		{Key: "max_running", Doc: "Most tasks of it that run at once in the whole fleet.", Type: Integer, Min: 0, Max: 1e6},
		rateField(),
		burstField(),
	}
}

func rateField() Field {
	return Field{Key: "rate", Doc: "Most tasks of it that are claimed a second in the whole fleet.", Type: Number, Min: 0.001, Max: 1e6}
}

func burstField() Field {
	return Field{
		Key: "burst", Type: Integer, Min: 1, Max: 1e6,
		Doc: "Tasks that may be claimed at once after a pause. Left out: a twentieth of a second of rate, at least 1.",
	}
}

// requiredKeys is how many of the keys of a schedule, the first, must be given.
const requiredKeys = 2

func scheduleFields() []Field {
	return []Field{
		{Key: "cron", Doc: "When: minute, hour, day of month, month and day of week, or @hourly, @daily, @weekly, @monthly, @yearly, @every 10m.", Type: Text, Min: 1, Max: schedule.MaxExpression},
		{Key: "kind", Doc: "Kind of its tasks.", Type: Text, Min: 1, Max: maxKind, Pattern: kindPattern, Shape: kindShape},
		{Key: "timezone", Doc: "Whose clock cron means, such as Europe/Berlin.", Type: Text, Min: 1, Max: 100, Default: "UTC"},
		descriptionField(),
		{Key: "args", Doc: "Args of its tasks.", Type: JSON, Default: map[string]any{}},
		queueField("queue", "Queue of its tasks. This and what follows: the kind's default if it is left out."),
		selectorField("Labels that their workers must all carry."),
		protocolField("Protocol that their workers must speak."),
		{Key: "priority", Doc: "Priority of its tasks: 1 starts first, 4 last.", Type: Integer, Min: 1, Max: 4},
		{Key: "timeout", Doc: "Time that an attempt may take.", Type: Duration, Min: float64(leastResolution), Max: float64(week)},
		{Key: "max_attempts", Doc: "Attempts after which a failing task is discarded.", Type: Integer, Min: 1, Max: math.MaxInt16},
		{Key: "overlap", Doc: "Whether a task is enqueued while the one before it is unfinished.", Type: Flag, Default: true},
		{Key: "paused", Doc: "Whether nothing is enqueued.", Type: Flag, Default: false},
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
		rateField(),
		burstField(),
	}
}

// settingFields are in the order in which people look for them. Each Doc is the
// description that the table has.
func settingFields() []Field {
	return slices.Concat(enqueueSettings(), pressureSettings(), routingSettings(), elasticSettings(), retentionSettings())
}

func enqueueSettings() []Field {
	return []Field{
		{
			Key: "notify", Type: Flag, Default: true,
			Doc: "Whether enqueueing a task wakes a sidecar at once with NOTIFY (true or false). Off, tasks start at the next poll.",
		},
		{
			Key: "max_args_bytes", Type: Integer, Min: 8192, Max: 255 << 20, Default: int64(1 << 20),
			Doc: "Largest args of a task and largest output of sched.complete, in bytes of JSON text (8192 to 267386880).",
		},
		{
			Key: "max_enqueue_many", Type: Integer, Min: 1, Max: 1e6, Default: int64(1e5),
			Doc: "Most tasks in one call of sched.enqueue_many (1 to 1000000).",
		},
	}
}

func pressureSettings() []Field {
	share := func(key string, value float64, doc string) Field {
		return Field{Key: key, Type: Number, Min: 0.01, Max: 1, Default: value, Doc: doc}
	}
	delay := func(key string, value int64, doc string) Field {
		return Field{Key: key, Type: Integer, Min: 0, Max: 3600000, Default: value, Doc: doc}
	}
	return []Field{
		{
			Key: "max_pending", Type: Integer, Min: 1, Max: 1e6, Default: int64(1000),
			Doc: "Tasks waiting and due that count as full, of the fleet and of each queue without its own max_pending (1 to 1000000).",
		},
		share("pending_yellow", 0.7, "Part of max_pending from which pressure is yellow (0.01 to 1)."),
		share("pending_red", 0.9, "Part of max_pending from which pressure is red (0.01 to 1)."),
		share("load_yellow", 0.68, "Mean running / ceiling of the workers from which pressure is yellow (0.01 to 1)."),
		share("load_red", 0.85, "Mean running / ceiling of the workers from which pressure is red (0.01 to 1)."),
		{
			Key: "pressure_hysteresis", Type: Number, Min: 0, Max: 0.5, Default: 0.05,
			Doc: "How far below a threshold pressure must fall before its level goes down (0 to 0.5).",
		},
		delay("admission_delay_yellow_ms", 500, "How much later a task becomes due that is enqueued at yellow into a queue with admission delay, in milliseconds (0 to 3600000)."),
		delay("admission_delay_red_ms", 2000, "How much later a task becomes due that is enqueued at red into a queue with admission delay, in milliseconds (0 to 3600000)."),
	}
}

func routingSettings() []Field {
	return []Field{
		{
			Key: "busy_polls_per_second", Type: Number, Min: 1, Max: 10000, Default: 500.0,
			Doc: "How often a second a busy queue is looked at, by all of its workers together (1 to 10000).",
		},
		{
			Key: "priority_ageing_seconds", Type: Number, Min: 0, Max: week.Seconds(), Default: 60.0,
			Doc: "How long a task waits for each step of priority before it starts ahead of younger tasks of a higher one, in seconds (0 to 604800; 0: never).",
		},
	}
}

func elasticSettings() []Field {
	return []Field{
		{
			Key: "elastic_profile", Type: Text, Enum: []string{"default", "compute", "memory", "realtime"}, Default: "default",
			Doc: "What counts in the joint score, cpu/memory/waiting: default 0.4/0.3/0.3, compute 0.6/0.2/0.2, memory 0.2/0.6/0.2, realtime 0.25/0.25/0.5.",
		},
		{
			Key: "elastic_weights", Type: Text, Min: 1, Max: 30, Pattern: weightsPattern, Shape: weightsShape, Default: "profile",
			Doc: "Weights of its own instead of the profile's, cpu/memory/waiting, such as 0.5/0.1/0.4; together 1. profile: those of elastic_profile.",
		},
		{
			Key: "elastic_preset", Type: Text, Enum: []string{"default", "steady", "warm", "fast"}, Default: "default",
			Doc: "How fast the forecast of arrivals follows: steady (alpha 0.2), warm (0.6), default (0.7) or fast (0.9).",
		},
		{
			Key: "elastic_alpha", Type: Number, Min: 0, Max: 1, Default: 0.0,
			Doc: "Smoothing of the forecast of its own instead of the preset's (0 to 1; 0: that of elastic_preset).",
		},
		{
			Key: "elastic_threshold", Type: Number, Min: 0.01, Max: 1, Default: 0.75,
			Doc: "Joint score above which slots grow, or the fleet is to scale out (0.01 to 1).",
		},
		{
			Key: "elastic_min", Type: Integer, Min: 1, Max: 5000, Default: int64(2),
			Doc: "Least slots of a sidecar that sizes itself (1 to 5000; never more than its ceiling).",
		},
		{
			Key: "elastic_cooldown_seconds", Type: Number, Min: 1, Max: 3600, Default: 10.0,
			Doc: "How long fewer slots must have been enough before any are given up, in seconds (1 to 3600).",
		},
		{
			Key: "elastic_drain_seconds", Type: Number, Min: 1, Max: 3600, Default: 5.0,
			Doc: "In what time a backlog should be gone, in seconds (1 to 3600).",
		},
	}
}

func retentionSettings() []Field {
	days := func(key string, value int64, what string) Field {
		return Field{Key: key, Type: Integer, Min: 1, Max: 36500, Default: value, Doc: "How long " + what + " kept, in days (1 to 36500)."}
	}
	return []Field{
		days("decision_keep_days", 30, "decisions are"),
		days("topology_keep_days", 7, "changes of the topology are"),
		days("operator_action_keep_days", 365, "actions of operators are"),
		{
			Key: "archive_after_seconds", Type: Integer, Min: 10, Max: 2592000, Default: int64(900),
			Doc: "How long a task that ended stays in the hot table before it goes to the archive, in seconds (10 to 2592000).",
		},
		{
			Key: "archive_keep_days", Type: Integer, Min: 1, Max: 36500, Default: int64(90),
			Doc: "How long archived tasks are kept, in days (1 to 36500): a month is dropped when all of it is older.",
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
