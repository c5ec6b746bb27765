package spans_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/spans"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	sampled = "00-" + traceID + "-00f067aa0ba902b7-01"
	dropped = "00-" + traceID + "-00f067aa0ba902b7-00"
)

func newTask(headers map[string]string) *dispatch.Task {
	return &dispatch.Task{
		ID: 42, Kind: "mail.send", Queue: "mail", Attempt: 2, MaxAttempts: 25, Headers: headers,
		Lease: jobs.Lease{WorkerID: "w-0123456789ab", AttemptedAt: time.Unix(1, 0)},
	}
}

func newTracer(t *testing.T, options ...sdktrace.TracerProviderOption) (*spans.Tracer, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(recorder))...)
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) }) // the test's own has ended
	return spans.New(provider, 1), recorder
}

func byName(t *testing.T, recorder *tracetest.SpanRecorder) map[string]sdktrace.ReadOnlySpan {
	t.Helper()
	found := map[string]sdktrace.ReadOnlySpan{}
	for _, span := range recorder.Ended() {
		require.NotContains(t, found, span.Name())
		found[span.Name()] = span
	}
	return found
}

func attributes(span sdktrace.ReadOnlySpan) map[string]any {
	found := map[string]any{}
	for _, a := range span.Attributes() {
		found[string(a.Key)] = a.Value.AsInterface()
	}
	return found
}

func TestAttemptIsATree(t *testing.T) {
	t.Parallel()
	tracer, recorder := newTracer(t)
	task := newTask(map[string]string{"Traceparent": sampled, "TraceState": "vendor=1", "BAGGAGE": "user=ann", "X-Own": "kept"})
	asked := time.Now().Add(-time.Second)
	claimed := asked.Add(10 * time.Millisecond)

	attempt := tracer.Begin(task, asked, claimed)
	require.Equal(t, traceID, trace.SpanContextFromContext(attempt.Context(t.Context())).TraceID().String())
	attempt.Outcome(&jobs.Outcome{Kind: jobs.OutcomeComplete})
	attempt.Settled(jobs.SettleResult{Verdict: jobs.Settled, State: "completed"}, nil)

	found := byName(t, recorder)
	require.Len(t, found, 4)
	process := found["process mail"]
	require.Equal(t, trace.SpanKindConsumer, process.SpanKind())
	require.Equal(t, "00f067aa0ba902b7", process.Parent().SpanID().String(), "the enqueue's span is the parent")
	require.Len(t, process.Links(), 1)
	require.Equal(t, process.Parent().SpanID(), process.Links()[0].SpanContext.SpanID(), "and linked")
	require.WithinDuration(t, asked, process.StartTime(), 0)
	require.Equal(t, codes.Unset, process.Status().Code)
	require.Equal(t, map[string]any{
		"messaging.system": "sched", "messaging.operation.name": "process", "messaging.operation.type": "process",
		"messaging.destination.name": "mail", "messaging.message.id": "42", "messaging.client.id": "w-0123456789ab",
		"sched.task.kind": "mail.send", "sched.task.attempt": int64(2), "sched.task.status": "completed", "sched.outcome": "complete",
	}, attributes(process))
	for _, name := range []string{"claim mail", "dispatch mail", "settle mail"} {
		child := found[name]
		require.NotNil(t, child, name)
		require.Equal(t, process.SpanContext().SpanID(), child.Parent().SpanID(), name)
		require.Equal(t, trace.SpanKindClient, child.SpanKind(), name)
		require.False(t, child.EndTime().After(process.EndTime()), name)
	}
	require.WithinDuration(t, claimed, found["claim mail"].EndTime(), 0)
	require.WithinDuration(t, found["dispatch mail"].EndTime(), found["settle mail"].StartTime(), 0)

	require.Equal(t, map[string]string{
		"traceparent": "00-" + traceID + "-" + found["dispatch mail"].SpanContext().SpanID().String() + "-01",
		"tracestate":  "vendor=1", "X-Own": "kept", "baggage": task.Headers["baggage"],
	}, task.Headers, "the app's spans are children of the dispatch")
	require.ElementsMatch(t, []string{"user=ann", "task_id=42", "worker_id=w-0123456789ab"}, members(t, task))
}

func TestAttemptsThatDoNotEndWell(t *testing.T) {
	t.Parallel()
	settled := jobs.SettleResult{Verdict: jobs.Settled, State: "retryable"}
	for name, tc := range map[string]struct {
		outcome jobs.Outcome
		result  jobs.SettleResult
		err     error
		kind    any // error.type; nil: it is no error
		text    string
		settle  codes.Code
	}{
		"retry":   {jobs.Outcome{Kind: jobs.OutcomeRetry, Error: "smtp: 451"}, settled, nil, "retry", "smtp: 451", codes.Unset},
		"cancel":  {jobs.Outcome{Kind: jobs.OutcomeCancel, Error: "gone"}, settled, nil, "cancel", "gone", codes.Unset},
		"down":    {jobs.Outcome{Kind: jobs.OutcomeHandBack, AppDown: true, Error: "refused"}, settled, nil, "app_down", "refused", codes.Unset},
		"lacks":   {jobs.Outcome{Kind: jobs.OutcomeHandBack, UnknownKind: true, Error: "404"}, settled, nil, "unknown_kind", "404", codes.Unset},
		"snooze":  {jobs.Outcome{Kind: jobs.OutcomeSnooze}, settled, nil, nil, "", codes.Unset},
		"refused": {jobs.Outcome{Kind: jobs.OutcomeComplete}, jobs.SettleResult{Verdict: jobs.Refused}, nil, "lease_lost", "settle refused: the lease is lost", codes.Error},
		"unwritten": {
			jobs.Outcome{Kind: jobs.OutcomeComplete}, jobs.SettleResult{}, errors.New("no database"), "database", "no database", codes.Error,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer, recorder := newTracer(t)
			attempt := tracer.Begin(newTask(nil), time.Now(), time.Now())
			attempt.Outcome(&tc.outcome)
			attempt.Settled(tc.result, tc.err)
			found := byName(t, recorder)
			process := found["process mail"]
			require.Equal(t, tc.kind, attributes(process)["error.type"])
			require.Equal(t, tc.kind != nil, process.Status().Code == codes.Error)
			require.Equal(t, tc.text, process.Status().Description)
			require.Equal(t, tc.settle, found["settle mail"].Status().Code)
		})
	}
}

func TestAcceptedTaskEndsItsDispatchEarly(t *testing.T) {
	t.Parallel()
	tracer, recorder := newTracer(t)
	attempt := tracer.Begin(newTask(nil), time.Now(), time.Now())
	attempt.Accepted()
	require.Equal(t, "accepted", attributes(byName(t, recorder)["dispatch mail"])["sched.outcome"])
	ended := byName(t, recorder)["dispatch mail"].EndTime()
	attempt.Outcome(&jobs.Outcome{Kind: jobs.OutcomeComplete})
	attempt.Settled(jobs.SettleResult{Verdict: jobs.Replayed}, nil)
	require.Equal(t, ended, byName(t, recorder)["dispatch mail"].EndTime())
	require.Len(t, recorder.Ended(), 4)
}

func TestWithoutAParentTheAttemptIsATraceOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string]map[string]string{
		"none": nil, "malformed": {"traceparent": "00-xyz"}, "zero": {"traceparent": "00-00000000000000000000000000000000-00f067aa0ba902b7-01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer, recorder := newTracer(t)
			task := newTask(headers)
			attempt := tracer.Begin(task, time.Now(), time.Now())
			attempt.Outcome(&jobs.Outcome{Kind: jobs.OutcomeComplete})
			attempt.Settled(jobs.SettleResult{Verdict: jobs.Settled}, nil)
			process := byName(t, recorder)["process mail"]
			require.False(t, process.Parent().IsValid())
			require.Empty(t, process.Links())
			require.Equal(t, process.SpanContext().TraceID().String(), task.TraceID())
			var line strings.Builder
			slog.New(slog.NewTextHandler(&line, nil)).Info("said", task.LogAttrs())
			require.Contains(t, line.String(), " trace_id="+process.SpanContext().TraceID().String(), "the log names a trace that began here")
		})
	}
}

// An app that follows its parent does what it would without this sidecar's traces.
func TestWhatIsNotSampledIsPassedOnAsItIs(t *testing.T) {
	t.Parallel()
	tracer, recorder := newTracer(t, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0))))
	for _, headers := range []map[string]string{nil, {"traceparent": dropped}} {
		task := newTask(headers)
		attempt := tracer.Begin(task, time.Now(), time.Now())
		require.Nil(t, attempt)
		attempt.Accepted()
		attempt.Outcome(&jobs.Outcome{Kind: jobs.OutcomeComplete})
		attempt.Settled(jobs.SettleResult{}, nil)
		require.Equal(t, t.Context(), attempt.Context(t.Context()))
		require.Equal(t, headers, task.Headers)
	}
	require.Empty(t, recorder.Started())

	task := newTask(map[string]string{"traceparent": sampled})
	require.NotNil(t, tracer.Begin(task, time.Now(), time.Now()), "who enqueued it records: so do we")
}

//nolint:paralleltest // allocations are counted for the whole process
func TestOffCostsNothing(t *testing.T) {
	tracer := spans.New(nil, 1)
	require.Nil(t, tracer)
	headers := map[string]string{"traceparent": sampled}
	task, outcome := newTask(headers), &jobs.Outcome{Kind: jobs.OutcomeComplete}
	now, ctx := time.Now(), t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		attempt := tracer.Begin(task, now, now)
		_ = attempt.Context(ctx)
		attempt.Accepted()
		attempt.Outcome(outcome)
		attempt.Settled(jobs.SettleResult{}, nil)
	}))
	require.Equal(t, map[string]string{"traceparent": sampled}, task.Headers, "the task's own headers pass as they are")
}

// Of the attempts that begin a trace a share is recorded; those of a trace follow it.
func TestShareOfTracesThatBeginHere(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) }) // the test's own has ended
	begun := func(tracer *spans.Tracer, headers map[string]string) (n int) {
		for range 1000 {
			if tracer.Begin(newTask(headers), time.Now(), time.Now()) != nil {
				n++
			}
		}
		return n
	}
	require.InDelta(t, 250, begun(spans.New(provider, 0.25), nil), 150)
	none := spans.New(provider, 0)
	require.Zero(t, begun(none, nil))
	require.Equal(t, 1000, begun(none, map[string]string{"traceparent": sampled}))
	require.Zero(t, begun(spans.New(provider, 1), map[string]string{"traceparent": dropped}))
}

func members(t *testing.T, task *dispatch.Task) []string {
	t.Helper()
	return splitBaggage(task.Headers["baggage"])
}

// BenchmarkBegin is what tracing costs an attempt, on the sidecar's side.
func BenchmarkBegin(b *testing.B) {
	for name, share := range map[string]float64{"unsampled": 0, "sampled": 1} {
		b.Run(name, func(b *testing.B) {
			tracer := spans.New(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample()))), share)
			outcome := &jobs.Outcome{Kind: jobs.OutcomeComplete}
			b.ReportAllocs()
			for b.Loop() {
				attempt := tracer.Begin(newTask(nil), time.Now(), time.Now())
				attempt.Outcome(outcome)
				attempt.Settled(jobs.SettleResult{Verdict: jobs.Settled, State: "completed"}, nil)
			}
		})
	}
}
