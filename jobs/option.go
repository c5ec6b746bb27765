package jobs

import "time"

// Option sets one property of a task. What no option sets has the default of the
// task's kind (a row of sched.kind, which an operator may change at any time), or
// else the one that is told here. The SQL API checks every value: one out of range
// comes back as [ErrInvalidArgument].
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
// it: at most 64, names of 1 to 63 characters, values of up to 255. By default
// any worker may run the task. The map must not change until the enqueue
// returns.
func Selector(labels map[string]string) Option {
	return func(o *options) { o.selector = labels }
}

// Protocol restricts the task to workers that reach their app over this
// protocol: [ProtocolHTTP], [ProtocolGRPC] or [ProtocolExec]. The default is
// [ProtocolAny].
func Protocol(name string) Option {
	return func(o *options) { o.protocol = &name }
}

// UniqueKey lets at most one unfinished task of the kind have this key, of 1
// to 255 characters. While there is one, in whatever queue, enqueueing another
// returns its id and changes nothing. While another open transaction enqueues
// the same key, the enqueue waits for its end, which decides the answer. By
// default tasks are not unique.
func UniqueKey(key string) Option {
	return func(o *options) { o.uniqueKey = &key }
}

// MaxAttempts is how often the task may be tried before it is discarded, the
// first attempt included: 1 to 32767. The default is 25.
func MaxAttempts(n int) Option {
	return func(o *options) { o.maxAttempts = &n }
}

// Timeout bounds each attempt; one that takes longer is ended and counts as
// failed. It is over 0, up to 7 days, and kept in whole milliseconds, rounded
// up. By default the sidecar's own limit holds.
func Timeout(d time.Duration) Option {
	return func(o *options) { o.timeout = &d }
}

// Batch names the batch that the task belongs to, with 1 to 127 characters;
// sched.batch shows the progress of each. By default a task belongs to none.
func Batch(name string) Option {
	return func(o *options) { o.batch = &name }
}

// Headers travel with the task to the app, a traceparent for example: at most
// 64, with names as HTTP has them of 1 to 63 characters, and printable values
// of up to 4096. The map must not change until the enqueue returns.
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

// addTo names what is set, in the order of the SQL function's own arguments.
func (o *options) addTo(l *paramList) {
	l.addText("queue", o.queue)
	l.addInt("priority", o.priority)
	l.addTime("run_at", o.runAt)
	if o.delay > 0 {
		l.addInterval(delayParam, &o.delay)
	}
	l.addPairs("selector", o.selector)
	l.addText("protocol", o.protocol)
	l.addText("unique_key", o.uniqueKey)
	l.addInt("max_attempts", o.maxAttempts)
	l.addInterval("timeout", o.timeout)
	l.addText("batch", o.batch)
	l.addPairs("headers", o.headers)
}
