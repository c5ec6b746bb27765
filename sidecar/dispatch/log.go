package dispatch

import (
	"log/slog"
	"strings"
)

// LogAttrs name the task in a line of the log: task_id, kind, attempt, worker_id and,
// where its headers have a traceparent, trace_id. An attempt that this sidecar records
// has one, whoever began its trace.
func (t *Task) LogAttrs() slog.Attr {
	attrs := []slog.Attr{
		slog.Int64("task_id", t.ID), slog.String("kind", t.Kind), slog.Int("attempt", t.Attempt),
		slog.String("worker_id", t.Lease.WorkerID),
	}
	if id := t.TraceID(); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	// A group without a name is written as if its members stood alone.
	return slog.Attr{Value: slog.GroupValue(attrs...)}
}

// The parts of a traceparent (W3C Trace Context, 3.2): 00-{trace id}-{span id}-{flags}.
const (
	traceparentLen = 55
	traceIDEnd     = 35
)

// TraceID is that of the task's traceparent, as 32 hexadecimal digits; empty where it
// has none.
func (t *Task) TraceID() string {
	for name, value := range t.Headers {
		if strings.EqualFold(name, "traceparent") && len(value) >= traceparentLen && value[2] == '-' && value[traceIDEnd] == '-' {
			return value[3:traceIDEnd]
		}
	}
	return ""
}
