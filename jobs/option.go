package jobs

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Option sets one property of a task. What no option sets keeps the default of
// the SQL API, and the SQL API checks every value: one out of range comes back
// as [ErrInvalidArgument].
type Option func(*options)

// Protocols of [Protocol].
const (
	ProtocolAny  = "any"
	ProtocolHTTP = "http"
	ProtocolGRPC = "grpc"
	ProtocolExec = "exec"
)

// Queue puts the task into the queue with this base name: 1 to 100 lower-case
// ASCII letters and digits, with single - or _ between them. The default is
// "default".
func Queue(name string) Option {
	return func(o *options) { o.queue = &name }
}

// Priority orders the tasks of a queue: 1 (the default) runs first, 4 last.
func Priority(p int) Option {
	return func(o *options) { o.priority = &p }
}

// RunAt makes the task wait until t, on the database's clock. A zero time, as
// a time in the past, means now. Precision is one microsecond. Of RunAt and
// [Delay], the one given last holds.
func RunAt(t time.Time) Option {
	return func(o *options) { o.runAt, o.delay = t, 0 }
}

// Delay makes the task wait for d, counted from the enqueue on the database's
// clock, so that a wrong clock here doesn't matter. Zero or less means now.
// Precision is one microsecond. Of [RunAt] and Delay, the one given last holds.
func Delay(d time.Duration) Option {
	return func(o *options) { o.runAt, o.delay = time.Time{}, d }
}

// Selector restricts the task to workers whose labels contain every pair of
// it. By default any worker may run the task. The map must not change until
// the enqueue returns.
func Selector(labels map[string]string) Option {
	return func(o *options) { o.selector = labels }
}

// Protocol restricts the task to workers that reach their app over this
// protocol: [ProtocolHTTP], [ProtocolGRPC] or [ProtocolExec]. The default is
// [ProtocolAny].
func Protocol(name string) Option {
	return func(o *options) { o.protocol = &name }
}

// UniqueKey lets at most one unfinished task of the kind have this key. While
// there is one, in whatever queue, enqueueing another returns its id and
// changes nothing. By default tasks are not unique.
func UniqueKey(key string) Option {
	return func(o *options) { o.uniqueKey = &key }
}

// MaxAttempts is how often the task may be tried before it is discarded, the
// first attempt included: 1 to 32767. The default is 25.
func MaxAttempts(n int) Option {
	return func(o *options) { o.maxAttempts = &n }
}

// Timeout bounds each attempt; one that takes longer is ended and counts as
// failed. It is kept in milliseconds. By default the sidecar's own limit holds.
func Timeout(d time.Duration) Option {
	return func(o *options) { o.timeout = &d }
}

// Batch names the batch that the task belongs to; sched.batch shows the
// progress of each. By default a task belongs to none.
func Batch(name string) Option {
	return func(o *options) { o.batch = &name }
}

// Headers travel with the task to the app, a traceparent for example. The map
// must not change until the enqueue returns.
func Headers(h map[string]string) Option {
	return func(o *options) { o.headers = h }
}

// options is what a task's options come to. Nil, or zero where zero means
// nothing, is "not set": the SQL API's default, which is written down only
// there.
type options struct {
	queue, protocol, uniqueKey, batch *string
	priority, maxAttempts             *int
	timeout                           *time.Duration
	runAt                             time.Time
	delay                             time.Duration
	selector, headers                 map[string]string
}

func (o *options) apply(opts []Option) {
	for _, opt := range opts {
		if opt != nil {
			opt(o)
		}
	}
}

// param is one argument of sched.enqueue. Value is a string, an int32, a
// time.Time or, for jsonb, a json.RawMessage: what all drivers and
// encoding/json agree on.
type param struct {
	name, cast string
	value      any
}

// delayParam carries a [Delay]; no argument of sched.enqueue has its name.
const delayParam = "delay"

func (o *options) params() ([]param, error) {
	var params []param
	add := func(name, cast string, value any) {
		params = append(params, param{name: name, cast: cast, value: value})
	}
	addText := func(name string, value *string) {
		if value != nil {
			add(name, "text", *value)
		}
	}
	addInt := func(name string, value *int) error {
		if value == nil {
			return nil
		}
		if *value < math.MinInt32 || *value > math.MaxInt32 {
			return fmt.Errorf("%s %d is no 32-bit number", name, *value)
		}
		add(name, "int", int32(*value))
		return nil
	}
	addPairs := func(name string, pairs map[string]string) error {
		if len(pairs) == 0 {
			return nil
		}
		body, err := json.Marshal(pairs)
		add(name, "jsonb", json.RawMessage(body))
		return err
	}

	addText("queue", o.queue)
	if err := addInt("priority", o.priority); err != nil {
		return nil, err
	}
	if !o.runAt.IsZero() {
		if y := o.runAt.UTC().Year(); y < 1 || y > 9999 {
			return nil, fmt.Errorf("run_at is in the year %d; use one from 1 to 9999", y)
		}
		add("run_at", "timestamptz", o.runAt.UTC())
	}
	if o.delay > 0 {
		add(delayParam, "interval", interval(o.delay))
	}
	if err := addPairs("selector", o.selector); err != nil {
		return nil, err
	}
	addText("protocol", o.protocol)
	addText("unique_key", o.uniqueKey)
	if err := addInt("max_attempts", o.maxAttempts); err != nil {
		return nil, err
	}
	if o.timeout != nil {
		add("timeout", "interval", interval(*o.timeout))
	}
	addText("batch", o.batch)
	if err := addPairs("headers", o.headers); err != nil {
		return nil, err
	}
	return params, nil
}

// interval renders d as Postgres reads it, without a float on the way.
func interval(d time.Duration) string {
	return strconv.FormatInt(d.Microseconds(), 10) + " microseconds"
}
