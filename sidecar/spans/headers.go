package spans

import (
	"context"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// Names of W3C Trace Context and W3C Baggage, and the members that we add.
const (
	nameParent   = "traceparent"
	nameState    = "tracestate"
	nameBaggage  = "baggage"
	memberTask   = "task_id"
	memberWorker = "worker_id"
)

// carrier is what the headers of a task carry of a trace.
type carrier struct {
	parent  trace.SpanContext // not valid: none
	baggage string
}

// carried reads headers, whose names may be in any case. What is malformed counts as
// not there.
func carried(headers map[string]string) carrier {
	var c carrier
	var parent, state string
	for name, value := range headers {
		switch {
		case strings.EqualFold(name, nameParent):
			parent = value
		case strings.EqualFold(name, nameState):
			state = value
		case strings.EqualFold(name, nameBaggage):
			c.baggage = value
		}
	}
	if parent != "" {
		found := propagation.MapCarrier{nameParent: parent, nameState: state}
		c.parent = trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), found))
	}
	return c
}

// headers are the task's own with the context of the span in ctx, and the baggage.
func (c carrier) headers(ctx context.Context, task *dispatch.Task) map[string]string {
	headers := make(map[string]string, len(task.Headers)+3)
	for name, value := range task.Headers {
		if !strings.EqualFold(name, nameParent) && !strings.EqualFold(name, nameState) && !strings.EqualFold(name, nameBaggage) {
			headers[name] = value
		}
	}
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(headers))
	headers[nameBaggage] = c.bag(task)
	return headers
}

// bag is the task's baggage with the task and the worker in it. What can't be read is
// replaced; what has no room left stays as it is.
func (c carrier) bag(task *dispatch.Task) string {
	own := memberTask + "=" + strconv.FormatInt(task.ID, 10) + "," + memberWorker + "=" + task.Lease.WorkerID
	if c.baggage == "" {
		return own
	}
	theirs, err := baggage.Parse(c.baggage)
	if err != nil {
		return own
	}
	theirs = theirs.DeleteMember(memberTask).DeleteMember(memberWorker)
	if theirs.Len() == 0 {
		return own
	}
	both, err := baggage.Parse(theirs.String() + "," + own)
	if err != nil {
		return c.baggage
	}
	return both.String()
}
