package jobs_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
)

// traced returns a context with a span, and what is recorded.
func traced(t *testing.T, sampler sdktrace.Sampler) (context.Context, trace.Span, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithSpanProcessor(recorder))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) }) // t's own context has ended
	ctx, span := provider.Tracer("shop").Start(t.Context(), "order")
	return ctx, span, recorder
}

// headersOf are the headers in what was sent for a single task.
func headersOf(t *testing.T, db *recordingDB) map[string]string {
	t.Helper()
	require.Contains(t, db.query, "headers => ")
	var headers map[string]string
	require.NoError(t, json.Unmarshal([]byte(db.values[len(db.values)-1].(string)), &headers))
	return headers
}

func traceparent(span trace.SpanContext) string {
	return "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-" + span.TraceFlags().String()
}

func TestEnqueueGoesIntoTheTraceOfItsContext(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx, order, recorder := traced(t, sdktrace.AlwaysSample())
	own := map[string]string{"x-tenant": "acme", "Tracestate": "is=dropped"}
	id, err := jobs.Enqueue(ctx, pool, note{"hello"}, jobs.Queue("mail"), jobs.Headers(own))
	require.NoError(t, err)
	require.Len(t, own, 2, "the caller's map is the caller's")

	require.Len(t, recorder.Ended(), 1)
	span := recorder.Ended()[0]
	require.Equal(t, "enqueue mail", span.Name())
	require.Equal(t, trace.SpanKindProducer, span.SpanKind())
	require.Equal(t, order.SpanContext().SpanID(), span.Parent().SpanID())
	got := attribute.NewSet(span.Attributes()...)
	for key, want := range map[attribute.Key]string{
		"messaging.system": "sched", "messaging.operation.name": "enqueue", "messaging.operation.type": "send", "messaging.destination.name": "mail",
	} {
		value, _ := got.Value(key)
		require.Equal(t, want, value.AsString(), key)
	}
	var headers map[string]string
	require.NoError(t, json.Unmarshal([]byte(taskOf(t, pool, id).Headers), &headers))
	require.Equal(t, map[string]string{"x-tenant": "acme", "traceparent": traceparent(span.SpanContext())}, headers)
}

func TestEnqueueManyIsOneSpan(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx, _, recorder := traced(t, sdktrace.AlwaysSample())
	ids, err := jobs.EnqueueMany(ctx, pool, []jobs.Task{
		{Args: note{"a"}, Options: []jobs.Option{jobs.Queue("mail")}},
		{Args: note{"b"}, Options: []jobs.Option{jobs.Queue("mail")}},
	})
	require.NoError(t, err)
	_, err = jobs.EnqueueMany(ctx, pool, []jobs.Task{{Args: note{"a"}}, {Args: urgentNote{}}})
	require.NoError(t, err)
	require.Len(t, recorder.Ended(), 2)
	span := recorder.Ended()[0]
	require.Equal(t, "enqueue mail", span.Name())
	require.Equal(t, "enqueue", recorder.Ended()[1].Name(), "of several queues none is named")
	attributes := attribute.NewSet(span.Attributes()...)
	count, _ := attributes.Value("messaging.batch.message_count")
	require.EqualValues(t, 2, count.AsInt64())
	for _, id := range ids {
		require.Contains(t, taskOf(t, pool, id).Headers, traceparent(span.SpanContext()))
	}
}

func TestEnqueueThatFailsEndsItsSpan(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx, _, recorder := traced(t, sdktrace.AlwaysSample())
	_, err := jobs.Enqueue(ctx, pool, note{}, jobs.Priority(9))
	require.ErrorIs(t, err, jobs.ErrInvalidArgument)
	_, err = jobs.Enqueue(ctx, pool, nil)
	require.ErrorIs(t, err, jobs.ErrInvalidArgument)
	_, err = jobs.EnqueueMany(ctx, pool, []jobs.Task{{Args: unmarshalable{}}})
	require.ErrorIs(t, err, jobs.ErrInvalidArgument)
	require.Len(t, recorder.Ended(), 3)
	for _, span := range recorder.Ended() {
		require.Equal(t, codes.Error, span.Status().Code)
		attributes := attribute.NewSet(span.Attributes()...)
		kind, _ := attributes.Value("error.type")
		require.Equal(t, "22023", kind.AsString())
	}
}

func TestTraceparentOfTheCallerComesFirst(t *testing.T) {
	t.Parallel()
	ctx, _, _ := traced(t, sdktrace.AlwaysSample())
	const theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	db := &recordingDB{}
	_, _ = jobs.Enqueue(ctx, db, note{}, jobs.Headers(map[string]string{"Traceparent": theirs}))
	require.Equal(t, map[string]string{"Traceparent": theirs}, headersOf(t, db))
}

func TestTraceThatIsNotSampledIsPassedOn(t *testing.T) {
	t.Parallel()
	ctx, order, recorder := traced(t, sdktrace.NeverSample())
	db := &recordingDB{}
	_, _ = jobs.Enqueue(ctx, db, note{})
	require.Equal(t, map[string]string{"traceparent": traceparent(order.SpanContext())}, headersOf(t, db))
	require.Empty(t, recorder.Started())
}

// A task may have 64 headers; the 65th would make the enqueue fail.
func TestNoRoomForATraceparentIsNoError(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx, _, _ := traced(t, sdktrace.AlwaysSample())
	full := map[string]string{}
	for i := range 64 {
		full["x-"+string(rune('a'+i%26))+string(rune('a'+i/26))] = "v"
	}
	id, err := jobs.Enqueue(ctx, pool, note{}, jobs.Headers(full))
	require.NoError(t, err)
	require.NotContains(t, taskOf(t, pool, id).Headers, "traceparent")
}

// Allocations of an enqueue without a trace are those of the statement alone.
//
//nolint:paralleltest // allocations are counted for the whole process
func TestWithoutATraceAnEnqueueCarriesNothing(t *testing.T) {
	db := &recordingDB{}
	_, _ = jobs.Enqueue(t.Context(), db, note{}, jobs.Queue("mail"))
	require.NotContains(t, db.query, "headers")
	plain := testing.AllocsPerRun(100, func() { _, _ = jobs.Enqueue(t.Context(), db, note{}, jobs.Queue("mail")) })
	ctx, _, _ := traced(t, sdktrace.NeverSample())
	require.Less(t, plain, testing.AllocsPerRun(100, func() { _, _ = jobs.Enqueue(ctx, db, note{}, jobs.Queue("mail")) }))
}
