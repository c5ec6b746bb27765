package console

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// worker is a row of sched.worker. What only newer schemas have stays nil.
type worker struct {
	ID           string            `json:"id"`
	Hostname     string            `json:"hostname"`
	PID          int               `json:"pid"`
	Version      string            `json:"version"`
	AppURL       string            `json:"app_url"`
	Labels       map[string]string `json:"labels"`
	Queues       []string          `json:"queues"` // nil: all
	Kinds        []string          `json:"kinds"`  // nil: all
	Protocols    []string          `json:"protocols"`
	State        string            `json:"state"`
	Health       string            `json:"health"`
	StartedAt    time.Time         `json:"started_at"`
	HeartbeatAt  time.Time         `json:"heartbeat_at"`
	EndedAt      *time.Time        `json:"ended_at"`
	Reason       string            `json:"reason"`
	SkippedKinds []string          `json:"skipped_kinds"`
	Holds        []string          `json:"holds"`
	Running      int               `json:"running"`
	Slots        int               `json:"slots"`
	Ceiling      int               `json:"ceiling"`
	CPU          float64           `json:"cpu"` // 0 to 1
	Mem          float64           `json:"mem"` // 0 to 1
	LoadPercent  float64           `json:"load_percent"`
	RTT          float64           `json:"rtt_ms"`
	Polling      bool              `json:"polling"`
	Alive        bool              `json:"alive"`

	// Of a sidecar that sizes itself.
	Demand        *float64 `json:"demand"`
	Arrivals      *float64 `json:"arrivals"`
	Forecast      *float64 `json:"forecast"`
	Score         *float64 `json:"score"`
	ScaleOut      bool     `json:"scale_out"`
	ElasticReason string   `json:"elastic_reason"`

	Assigned int      `json:"-"` // queues
	Heaviest []string `json:"-"` // some of them
}

// pair is a label, or another name with a value.
type pair struct{ Key, Value string }

// Own reports whether it is a label that comes by itself.
func (p pair) Own() bool { return slices.Contains(ownLabels(), p.Key) }

// ownLabels come by themselves on every machine, and say little of what it is for.
func ownLabels() []string {
	return []string{"hostname", "os", "arch", "cpus", "memory_gib"}
}

// LabelList returns the labels that somebody chose first, each part in order.
func (w worker) LabelList() []pair {
	var list []pair
	for _, key := range slices.Sorted(maps.Keys(w.Labels)) {
		list = append(list, pair{key, w.Labels[key]})
	}
	own := ownLabels()
	slices.SortStableFunc(list, func(a, b pair) int {
		return cmp.Compare(slices.Index(own, a.Key), slices.Index(own, b.Key))
	})
	return list
}

// Mood is how a worker does, in a word and a shape.
func (w worker) Mood() mood {
	switch {
	case w.State == "evicted":
		return mood{"bad", "evicted"}
	case w.EndedAt != nil || w.State == "done":
		return mood{"off", "ended"}
	case !w.Alive:
		return mood{"bad", "silent"}
	case w.State == "draining":
		return mood{"wait", "draining"}
	case w.Health == "overloaded":
		return mood{"bad", "overloaded"}
	case len(w.Holds) > 0:
		return mood{"warn", "held back"}
	case w.Health == "strained":
		return mood{"warn", "strained"}
	case w.State == "pending":
		return mood{"wait", "starting"}
	case w.Slots > 0 && w.Running >= w.Slots:
		return mood{"ok", "busy"}
	default:
		return mood{"ok", "active"}
	}
}

// mood is a status as a word, and as the shape and colour that go with it.
type mood struct{ Shape, Word string }

// queue is a queue and what is in it.
type queue struct {
	Name            string            `json:"name"`
	Base            string            `json:"base"`
	Selector        map[string]string `json:"selector"`
	Protocol        string            `json:"protocol"`
	PausedAt        *time.Time        `json:"paused_at"`
	Available       int64             `json:"available"`
	Running         int64             `json:"running"`
	Scheduled       int64             `json:"scheduled"`
	Retryable       int64             `json:"retryable"`
	OldestSeconds   *float64          `json:"oldest_available_seconds"`
	Workers         int64             `json:"workers"`
	AvailableIsMore bool              `json:"available_is_more"`
	RunningIsMore   bool              `json:"running_is_more"`
	TimedIsMore     bool              `json:"timed_is_more"`
	Strategy        string            `json:"strategy"`
	Admission       string            `json:"admission"`
	MaxPending      *int64            `json:"max_pending"`
	MaxRunning      *int64            `json:"max_running"`
	Rate            *float64          `json:"rate"`
	Burst           *int64            `json:"burst"`
	Pinned          bool              `json:"pinned"`
	Pressure        string            `json:"pressure"`
	PressureReason  string            `json:"pressure_reason"`
	Unroutable      string            `json:"unroutable"`
}

// Mood is how a queue does.
func (q queue) Mood() mood {
	switch {
	case q.Unroutable != "":
		return mood{"bad", "nobody serves it"}
	case q.PausedAt != nil:
		return mood{"wait", "paused"}
	default:
		return pressureMood(q.Pressure)
	}
}

// worry is how much a queue needs a look.
func (q queue) worry() int {
	return slices.Index([]string{"off", "ok", "wait", "warn", "bad"}, q.Mood().Shape)
}

func pressureMood(level string) mood {
	switch level {
	case "red":
		return mood{"bad", "red"}
	case "yellow":
		return mood{"warn", "yellow"}
	case "green":
		return mood{"ok", "green"}
	default: // a queue that only River knows
		return mood{"off", "not known"}
	}
}

// Demands are what the queue asks of its workers.
func (q queue) Demands() []pair {
	var list []pair
	for _, key := range slices.Sorted(maps.Keys(q.Selector)) {
		list = append(list, pair{key, q.Selector[key]})
	}
	if q.Protocol != "any" && q.Protocol != "" {
		list = append(list, pair{"protocol", q.Protocol})
	}
	return list
}

// assignment says that a worker serves a queue, and how much of it.
type assignment struct {
	Queue     string    `json:"queue"`
	WorkerID  string    `json:"worker_id"`
	Hostname  string    `json:"hostname"`
	Weight    int64     `json:"weight"`
	Reason    string    `json:"reason"`
	UpdatedAt time.Time `json:"updated_at"`
	Running   int64     `json:"running"`
	Slots     int64     `json:"slots"`

	Share float64 `json:"-"` // of the weights that are listed, 0 to 1
}

// task is a row of sched.task, or the part of it that a list shows.
type task struct {
	ID          int64             `json:"id"`
	Kind        string            `json:"kind"`
	Queue       string            `json:"queue"`
	Status      string            `json:"status"`
	StartTime   *time.Time        `json:"start_time"`
	EndTime     *time.Time        `json:"end_time"`
	WorkerID    string            `json:"worker_id"`
	Attempt     int               `json:"attempt"`
	MaxAttempts int               `json:"max_attempts"`
	Priority    int               `json:"priority"`
	RunAt       time.Time         `json:"run_at"`
	CreatedAt   time.Time         `json:"created_at"`
	Error       string            `json:"error"`
	Args        json.RawMessage   `json:"args"`
	Output      json.RawMessage   `json:"output"`
	Selector    map[string]string `json:"selector"`
	Protocol    string            `json:"protocol"`
	Batch       string            `json:"batch"`
	UniqueKey   string            `json:"unique_key"`
	Headers     map[string]string `json:"headers"`
	Lost        int               `json:"lost"`
	Snoozes     int               `json:"snoozes"`
	EnqueuedBy  string            `json:"enqueued_by"`
	EnqueuedApp string            `json:"enqueued_app"`
	Timeout     string            `json:"timeout"`
	Attempts    []attempt         `json:"attempts"`

	Looked int64 `json:"looked"`
}

// Mood is how a task does.
func (t task) Mood() mood { return statusMood(t.Status) }

// Ended reports whether nothing more will happen by itself.
func (t task) Ended() bool { return t.EndTime != nil }

// HasOutput reports whether there is an output, a JSON null included.
func (t task) HasOutput() bool {
	return len(t.Output) > 0 && (string(t.Output) != "null" || t.Status == "completed")
}

// HeaderList returns the headers in order.
func (t task) HeaderList() []pair {
	var list []pair
	for _, key := range slices.Sorted(maps.Keys(t.Headers)) {
		list = append(list, pair{key, t.Headers[key]})
	}
	return list
}

// Demands are what the task asks of its worker.
func (t task) Demands() []pair { return queue{Selector: t.Selector, Protocol: t.Protocol}.Demands() }

func statusMood(status string) mood {
	shape := map[string]string{
		"completed": "ok", "running": "run", "retryable": "warn", "discarded": "bad", "cancelled": "off",
		"available": "wait", "scheduled": "wait", "pending": "wait",
	}[status]
	return mood{cmp.Or(shape, "off"), status}
}

// attempt is a row of sched.attempt.
type attempt struct {
	Attempt   int        `json:"attempt"`
	WorkerID  string     `json:"worker_id"`
	StartTime time.Time  `json:"start_time"`
	EndTime   *time.Time `json:"end_time"`
	Outcome   string     `json:"outcome"`
	Error     string     `json:"error"`
}

// Mood is how an attempt went.
func (a attempt) Mood() mood {
	if a.Outcome == "" {
		return mood{"run", "running"}
	}
	shape := map[string]string{"completed": "ok", "retry": "warn", "rescued": "bad", "discarded": "bad"}[a.Outcome]
	return mood{cmp.Or(shape, "off"), a.Outcome}
}

func statuses() []string {
	return []string{"available", "running", "scheduled", "retryable", "pending", "completed", "cancelled", "discarded"}
}
