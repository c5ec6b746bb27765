package spans

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// scope names this instrumentation.
const scope = "github.com/sched-sidecar/sched/sidecar/spans"

// Attributes, those of the conventions for messaging and our own.
const (
	keySystem        = attribute.Key("messaging.system")
	keyOperation     = attribute.Key("messaging.operation.name")
	keyOperationType = attribute.Key("messaging.operation.type")
	keyDestination   = attribute.Key("messaging.destination.name")
	keyMessageID     = attribute.Key("messaging.message.id")
	keyClientID      = attribute.Key("messaging.client.id")
	keyErrorType     = attribute.Key("error.type")
	keyKind          = attribute.Key("sched.task.kind")
	keyAttempt       = attribute.Key("sched.task.attempt")
	keyOutcome       = attribute.Key("sched.outcome")
	keyStatus        = attribute.Key("sched.task.status")
)

// Tracer makes the spans of attempts. It is safe for concurrent use.
type Tracer struct {
	tracer  trace.Tracer
	roots   float64
	process []trace.SpanStartOption
}

// New returns a tracer, or nil without a provider. Roots is the share of the attempts that
// begin a trace for which the provider is asked at all, 0 to 1.
func New(provider trace.TracerProvider, roots float64) *Tracer {
	if provider == nil {
		return nil
	}
	return &Tracer{
		tracer: provider.Tracer(scope),
		roots:  roots,
		process: []trace.SpanStartOption{
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithAttributes(keySystem.String("sched"), keyOperation.String("process"), keyOperationType.String("process")),
		},
	}
}

// Begin starts the spans of an attempt that was claimed by a statement between asked
// and claimed, and is now handed to the app. It gives the task the headers with which
// the app's own spans join. It returns nil when nothing is recorded; the task is then as
// it was.
func (t *Tracer) Begin(task *dispatch.Task, asked, claimed time.Time) *Attempt {
	if t == nil {
		return nil
	}
	c := carried(task.Headers)
	if !c.parent.IsValid() && t.roots < 1 && rand.Float64() >= t.roots {
		return nil
	}
	ctx := context.Background()
	options := t.process
	if c.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, c.parent)
	}
	if c.parent.IsSampled() || !c.parent.IsValid() {
		// Only what may be recorded is worth the words.
		options = append(options[:len(options):len(options)], trace.WithTimestamp(asked))
		if c.parent.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: c.parent}))
		}
	}
	ctx, span := t.tracer.Start(ctx, "process "+task.Queue, options...)
	if !span.IsRecording() {
		// Its headers stay as they are: to tell the app of each task that nobody records
		// would cost more than to record one in a hundred.
		return nil
	}
	span.SetAttributes(
		keyDestination.String(task.Queue), keyMessageID.String(strconv.FormatInt(task.ID, 10)), keyClientID.String(task.Lease.WorkerID),
		keyKind.String(task.Kind), keyAttempt.Int(task.Attempt))
	a := &Attempt{tracer: t.tracer, ctx: ctx, span: span, task: task}
	claim := a.child("claim", asked, keyOperationType.String("receive"))
	claim.End(trace.WithTimestamp(claimed))
	a.dispatch = a.child("dispatch", time.Now())
	task.Headers = c.headers(trace.ContextWithSpan(ctx, a.dispatch), task)
	return a
}

// Attempt is one that is recorded. Its methods are called one after the other, and do
// nothing on nil.
type Attempt struct {
	tracer   trace.Tracer
	ctx      context.Context //nolint:containedctx // lives as long as the attempt
	span     trace.Span
	dispatch trace.Span
	task     *dispatch.Task
	answered time.Time
}

// child starts a span of a part of the attempt.
func (a *Attempt) child(operation string, from time.Time, more ...attribute.KeyValue) trace.Span {
	_, span := a.tracer.Start(a.ctx, operation+" "+a.task.Queue,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(from),
		trace.WithAttributes(keySystem.String("sched"), keyOperation.String(operation),
			keyDestination.String(a.task.Queue), keyMessageID.String(strconv.FormatInt(a.task.ID, 10))),
		trace.WithAttributes(more...))
	return span
}

// TraceID is that of the attempt if it is sampled, else empty.
func (a *Attempt) TraceID() string {
	if a == nil || !a.span.SpanContext().IsSampled() {
		return ""
	}
	return a.span.SpanContext().TraceID().String()
}

// Context is ctx with the attempt's span in it, which is how the log learns of it.
func (a *Attempt) Context(ctx context.Context) context.Context {
	if a == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, a.span)
}

// Accepted says that the app took the task and settles it later.
func (a *Attempt) Accepted() {
	if a == nil {
		return
	}
	a.dispatch.SetAttributes(keyOutcome.String(jobs.OutcomeAccepted.String()))
	a.dispatch.End()
}

// Outcome says what the attempt came to. From here on it is being settled.
func (a *Attempt) Outcome(outcome *jobs.Outcome) {
	if a == nil {
		return
	}
	a.answered = time.Now()
	for _, span := range []trace.Span{a.dispatch, a.span} {
		span.SetAttributes(keyOutcome.String(outcome.Kind.String()))
		if kind := failure(outcome); kind != "" {
			span.SetAttributes(keyErrorType.String(kind))
			span.SetStatus(codes.Error, outcome.Error)
		}
	}
	a.dispatch.End(trace.WithTimestamp(a.answered)) // for the second time, if it was accepted: that does nothing
}

// failure is the outcome's kind of error; empty if it is none.
func failure(outcome *jobs.Outcome) string {
	switch {
	case outcome.AppDown:
		return "app_down"
	case outcome.UnknownKind:
		return "unknown_kind"
	case outcome.Kind == jobs.OutcomeRetry, outcome.Kind == jobs.OutcomeCancel, outcome.Kind == jobs.OutcomeDiscard:
		return outcome.Kind.String()
	default:
		return ""
	}
}

// errRefused is a settle that changed nothing, since the lease was lost.
var errRefused = errors.New("settle refused: the lease is lost")

// Settled ends the attempt: its outcome was written, or will never be.
func (a *Attempt) Settled(result jobs.SettleResult, err error) {
	if a == nil {
		return
	}
	span := a.child("settle", a.answered, keyOperationType.String("settle"))
	kind := "database"
	if err == nil && result.Verdict == jobs.Refused {
		kind, err = "lease_lost", errRefused
	}
	if err != nil {
		for _, s := range []trace.Span{span, a.span} {
			s.SetAttributes(keyErrorType.String(kind))
			s.SetStatus(codes.Error, err.Error())
		}
	}
	if result.State != "" {
		a.span.SetAttributes(keyStatus.String(result.State))
	}
	span.End()
	a.span.End()
}
