package worker

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
)

// traced is the context that a task's handler starts from: the span that the headers
// name is the parent of those that the handler starts, and their baggage is there.
func traced(headers map[string]string) context.Context {
	ctx := context.Background()
	var found propagation.MapCarrier
	for name, value := range headers {
		switch lower := strings.ToLower(name); lower {
		case "traceparent", "tracestate", "baggage":
			if found == nil {
				found = propagation.MapCarrier{}
			}
			found[lower] = value
		}
	}
	if len(found) == 0 {
		return ctx
	}
	ctx = propagation.TraceContext{}.Extract(ctx, found)
	return propagation.Baggage{}.Extract(ctx, found)
}
