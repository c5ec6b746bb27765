package jobs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// scope names this package's spans.
const scope = "github.com/sched-sidecar/sched/jobs"

// headersMax is how many headers a task may have.
const headersMax = 64

// send is an enqueue in a trace. The zero value is one in none: it costs nothing.
type send struct {
	span    trace.Span        // nil: nothing is recorded
	context map[string]string // traceparent and tracestate, for the tasks; nil: no trace
}

// startSend begins the span of an enqueue, if ctx has a span that is recorded. Its
// provider is that span's, so there is nothing to set up.
func startSend(ctx context.Context, queue *string, more ...attribute.KeyValue) send {
	parent := trace.SpanFromContext(ctx)
	if !parent.SpanContext().IsValid() {
		return send{}
	}
	var s send
	if parent.IsRecording() {
		name := "enqueue"
		attributes := slices.Concat(more, []attribute.KeyValue{
			attribute.String("messaging.system", "sched"),
			attribute.String("messaging.operation.name", "enqueue"), attribute.String("messaging.operation.type", "send"),
		})
		if queue != nil {
			name += " " + *queue
			attributes = append(attributes, attribute.String("messaging.destination.name", *queue))
		}
		ctx, s.span = parent.TracerProvider().Tracer(scope).Start(ctx, name,
			trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...))
	}
	s.context = map[string]string{}
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(s.context))
	return s
}

// startSendMany is startSend for several tasks. Their queue is named when it is one.
func startSendMany(ctx context.Context, tasks []Task) send {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return send{}
	}
	queue := tasks[0].options().queue
	for _, task := range tasks {
		if q := task.options().queue; q == nil || queue == nil || *q != *queue {
			queue = nil
			break
		}
	}
	return startSend(ctx, queue, attribute.Int("messaging.batch.message_count", len(tasks)))
}

// carry gives a task's headers the context of the enqueue, unless they have one.
func (s send) carry(o *options) {
	if len(s.context) == 0 || len(o.headers)+len(s.context) > headersMax {
		return
	}
	for name := range o.headers {
		if strings.EqualFold(name, "traceparent") {
			return
		}
	}
	headers := maps.Clone(s.context) // the caller's map is the caller's
	for name, value := range o.headers {
		if !strings.EqualFold(name, "tracestate") {
			headers[name] = value
		}
	}
	o.headers = headers
}

// end ends the span. On a transaction the tasks exist only once that commits.
func (s send) end(err error, ids ...int64) {
	if s.span == nil {
		return
	}
	switch {
	case err != nil:
		s.span.SetStatus(codes.Error, err.Error())
		s.span.SetAttributes(attribute.String("error.type", errorType(err)))
	case len(ids) == 1:
		s.span.SetAttributes(attribute.String("messaging.message.id", strconv.FormatInt(ids[0], 10)))
	}
	s.span.End()
}

// errorType is the SQLSTATE, where there is one.
func errorType(err error) string {
	if answer, ok := readAnswer(err); ok {
		return answer.state
	}
	if errors.Is(err, ErrInvalidArgument) {
		return "22023"
	}
	return "_OTHER"
}
