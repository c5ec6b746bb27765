package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/sched-sidecar/sched/internal/tracing/otlptest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/worker"
)

// shop is an app with traces of its own.
type shop struct {
	tracer trace.Tracer
	flush  func(context.Context) error
}

func newShop(t *testing.T, r *otlptest.Receiver) *shop {
	t.Helper()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(r.HTTP+"/v1/traces"))
	require.NoError(t, err)
	described, err := resource.New(t.Context(), resource.WithFromEnv())
	require.NoError(t, err)
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) }) // t's own context has ended
	return &shop{tracer: provider.Tracer("shop"), flush: provider.ForceFlush}
}

// work makes a span of what a task's context says, with the task and the worker in its name.
func (s *shop) work(ctx context.Context) {
	bag := baggage.FromContext(ctx)
	_, span := s.tracer.Start(ctx, "work on "+bag.Member("task_id").Value()+" at "+bag.Member("worker_id").Value())
	span.End()
}

// overHTTP serves tasks as an app with OpenTelemetry's middleware would.
func (s *shop) overHTTP(t *testing.T, r *run) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		both := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
		s.work(both.Extract(request.Context(), propagation.HeaderCarrier(request.Header)))
	}))
	t.Cleanup(server.Close)
	r.cfg.App.Protocol, r.cfg.App.URL = "http", server.URL
}

func (s *shop) overGRPC(t *testing.T, r *run) {
	t.Helper()
	r.cfg.App.Protocol, r.cfg.App.Listen = "grpc", "unix://"+filepath.Join(t.TempDir(), "s.sock")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- worker.Run(ctx, worker.Options{Target: r.cfg.App.Listen, Handlers: map[string]worker.Handler{
			"receipt": func(ctx context.Context, _ *worker.Task) (any, error) { s.work(ctx); return nil, nil },
		}})
	}()
	t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
}

// OpenTelemetry's exporters read the process' environment: these tests take turns.
func TestOneTraceFromEnqueueToSettle(t *testing.T) {
	for protocol, serve := range map[string]func(*shop, *testing.T, *run){"http": (*shop).overHTTP, "grpc": (*shop).overGRPC} {
		t.Run(protocol, func(t *testing.T) {
			receiver, err := otlptest.Start(t.Context())
			require.NoError(t, err)
			t.Cleanup(receiver.Close)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", map[string]string{"http": receiver.HTTP, "grpc": receiver.GRPC}[protocol])
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", map[string]string{"http": "http/protobuf", "grpc": "grpc"}[protocol])
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
			s := newShop(t, receiver)
			r := prepare(t, "")
			r.opts.App, r.opts.Getenv = nil, os.Getenv
			serve(s, t, r)
			r.start(t)

			ctx, order := s.tracer.Start(t.Context(), "order")
			byGo, err := jobs.Enqueue(ctx, r.pool, jobs.Raw("receipt", nil), jobs.Queue("mail"))
			require.NoError(t, err)
			order.End()
			bySQL := r.enqueue(t, `'receipt', queue => 'mail', headers => '{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}'`)
			plain := r.enqueue(t, `'receipt', queue => 'mail'`)
			for _, id := range []int64{byGo, bySQL, plain} {
				r.requireTask(t, id, "completed")
			}
			require.NoError(t, s.flush(t.Context()))
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			spans := receiver.Wait(ctx, func(spans []otlptest.Span) bool { return len(spans) >= 2+3*5 })
			require.Len(t, spans, 2+3*5, "two of the order, five of each task")

			send := find(t, spans, order.SpanContext().TraceID().String(), "enqueue mail")
			require.Equal(t, strconv.FormatInt(byGo, 10), send.Attributes["messaging.message.id"])
			requireAttempt(t, spans, byGo, send.TraceID, send.ID)
			requireAttempt(t, spans, bySQL, "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
			requireAttempt(t, spans, plain, "", "")
		})
	}
}

func find(t *testing.T, spans []otlptest.Span, traceID, name string) otlptest.Span {
	t.Helper()
	for _, span := range spans {
		if span.TraceID == traceID && strings.HasPrefix(span.Name, name) {
			return span
		}
	}
	require.Fail(t, "no span "+name, "%v", spans)
	return otlptest.Span{}
}

// requireAttempt finds the whole attempt of a task, below its parent.
func requireAttempt(t *testing.T, spans []otlptest.Span, id int64, traceID, parent string) {
	t.Helper()
	for _, span := range spans {
		if traceID == "" && span.Name == "process mail" && span.Attributes["messaging.message.id"] == strconv.FormatInt(id, 10) {
			traceID = span.TraceID
		}
	}
	process := find(t, spans, traceID, "process mail")
	require.Equal(t, parent, process.ParentID)
	if parent != "" {
		require.Equal(t, []string{traceID + "-" + parent}, process.Links)
	}
	require.Equal(t, "completed", process.Attributes["sched.task.status"])
	require.Equal(t, "sched-sidecar", process.Service)
	for _, name := range []string{"claim mail", "dispatch mail", "settle mail"} {
		require.Equal(t, process.ID, find(t, spans, traceID, name).ParentID, name)
	}
	dispatch := find(t, spans, traceID, "dispatch mail")
	work := find(t, spans, traceID, "work on "+strconv.FormatInt(id, 10)+" at "+process.Attributes["messaging.client.id"].(string))
	require.Equal(t, dispatch.ID, work.ParentID, "the app's own span")
}

// What is left is sent when the sidecar stops, and a collector that hangs doesn't keep it.
func TestTracesAreFlushedAtTheEnd(t *testing.T) {
	receiver, err := otlptest.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(receiver.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.HTTP)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
	s := newShop(t, receiver)
	r := prepare(t, "")
	r.opts.App, r.opts.Getenv = nil, os.Getenv
	s.overHTTP(t, r)
	r.start(t)
	r.requireTask(t, r.enqueue(t, `'receipt', queue => 'mail'`), "completed")
	require.Empty(t, receiver.Spans())
	r.stop(nil)
	require.NoError(t, r.ends(t))
	require.NotEmpty(t, find(t, receiver.Spans(), receiver.Spans()[0].TraceID, "process mail"))
}

func TestCollectorThatHangsDoesNotKeepTheSidecar(t *testing.T) {
	hung := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		select {
		case <-hung:
		case <-request.Context().Done():
		}
	}))
	t.Cleanup(collector.Close)
	t.Cleanup(func() { close(hung) })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000")
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	r := prepare(t, "")
	r.opts.App, r.opts.Getenv = nil, os.Getenv
	r.cfg.App.Protocol, r.cfg.App.URL = "http", app.URL
	r.start(t)
	r.requireTask(t, r.enqueue(t, `'receipt'`), "completed")
	stopped := time.Now()
	r.stop(nil)
	require.NoError(t, r.ends(t))
	require.Less(t, time.Since(stopped), flushTimeout+10*time.Second)
}
