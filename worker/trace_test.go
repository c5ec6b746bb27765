package worker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHandlersStartFromTheTracesOfTheirTasks(t *testing.T) {
	t.Parallel()
	ctx := traced(map[string]string{
		"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "baggage": "task_id=7,worker_id=w-1", "x-own": "1",
	})
	span := trace.SpanContextFromContext(ctx)
	require.True(t, span.IsRemote())
	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", span.TraceID().String())
	require.Equal(t, "7", baggage.FromContext(ctx).Member("task_id").Value())
	require.Equal(t, "w-1", baggage.FromContext(ctx).Member("worker_id").Value())
}

//nolint:paralleltest // allocations are counted for the whole process
func TestTasksWithoutTracesCostNothingMore(t *testing.T) {
	require.False(t, trace.SpanContextFromContext(traced(map[string]string{"x-own": "1"})).IsValid())
	require.Zero(t, testing.AllocsPerRun(100, func() { traced(nil) }))
}
