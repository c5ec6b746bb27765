package tracing_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/sched-sidecar/sched/internal/tracing"
	"github.com/sched-sidecar/sched/internal/tracing/otlptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// written is a log that may be read while it is written.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func config(log *written, getenv func(string) string) tracing.Config {
	return tracing.Config{
		Getenv: getenv, Service: "sched-sidecar", Version: "v1.2.3", Instance: "i-1",
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
}

func receiver(t *testing.T) *otlptest.Receiver {
	t.Helper()
	r, err := otlptest.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

func shutdown(p *tracing.Provider, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	p.Shutdown(ctx)
}

// The exporters read the process' environment: these tests take turns.
func TestSpansReachACollector(t *testing.T) {
	for protocol, endpoint := range map[string]func(*otlptest.Receiver) string{
		"grpc":          func(r *otlptest.Receiver) string { return r.GRPC },
		"http/protobuf": func(r *otlptest.Receiver) string { return r.HTTP },
	} {
		t.Run(protocol, func(t *testing.T) {
			r := receiver(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint(r))
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
			log := &written{}
			p, err := tracing.FromEnv(t.Context(), config(log, os.Getenv))
			require.NoError(t, err)
			_, span := p.TracerProvider().Tracer("test").Start(t.Context(), "a span")
			span.End()
			require.Empty(t, r.Spans(), "spans are sent together")
			shutdown(p, time.Minute)

			spans := r.Spans()
			require.Len(t, spans, 1, log)
			require.Equal(t, "a span", spans[0].Name)
			require.Equal(t, "sched-sidecar", spans[0].Resource["service.name"])
			require.Equal(t, "v1.2.3", spans[0].Resource["service.version"])
			require.Equal(t, "i-1", spans[0].Resource["service.instance.id"])
			require.Equal(t, "test", spans[0].Resource["deployment.environment.name"])
			require.Contains(t, log.String(), "protocol="+protocol)
		})
	}
}

func TestEnvironmentNamesServiceAndSampler(t *testing.T) {
	for _, tc := range []struct {
		sampler, arg string
		share        float64 // that is drawn by whoever begins a trace
		recorded     float64 // of what a tracer is asked for
	}{
		{"traceidratio", "0.5", 1, 0.5},
		{"parentbased_traceidratio", "0.5", 0.5, 1},
		{"parentbased_traceidratio", "0", 0, 1},
		{"parentbased_traceidratio", "half", 1, 1},
		{"parentbased_traceidratio", "", 1, 1},
	} {
		t.Run(tc.sampler+" "+tc.arg, func(t *testing.T) {
			r := receiver(t)
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", r.HTTP+"/v1/traces")
			t.Setenv("OTEL_SERVICE_NAME", "jobs-eu")
			t.Setenv("OTEL_TRACES_SAMPLER", tc.sampler)
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", tc.arg)
			p, err := tracing.FromEnv(t.Context(), config(&written{}, os.Getenv))
			require.NoError(t, err)
			require.InDelta(t, tc.share, p.RootShare(), 0)
			const n = 1000
			tracer := p.TracerProvider().Tracer("test")
			for range n {
				_, span := tracer.Start(t.Context(), "a span")
				span.End()
			}
			_, left := tracer.Start(trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
				TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1},
			})), "of a trace that isn't recorded")
			if tc.sampler != "traceidratio" {
				require.False(t, left.IsRecording())
			}
			left.End()
			shutdown(p, time.Minute)
			require.InDelta(t, n*tc.recorded, len(r.Spans()), n/5)
			require.Equal(t, "jobs-eu", r.Spans()[0].Service)
		})
	}
}

func TestOffUnlessAskedFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env  map[string]string
		says string
	}{
		"nothing said":     {nil, ""},
		"none":             {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, ""},
		"disabled":         {map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, ""},
		"only a sampler":   {map[string]string{"OTEL_TRACES_SAMPLER": "always_on"}, ""},
		"another exporter": {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, "otel_traces_exporter=zipkin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &written{}
			p, err := tracing.FromEnv(t.Context(), config(log, func(name string) string { return tc.env[name] }))
			require.NoError(t, err)
			require.Nil(t, p)
			require.Nil(t, p.TracerProvider(), "a nil interface, which the sidecar takes for off")
			p.Shutdown(t.Context())
			if tc.says == "" {
				require.Empty(t, log.String())
			}
			require.Contains(t, log.String(), tc.says)
		})
	}
}

func TestUnknownProtocolIsWarnedOf(t *testing.T) {
	t.Parallel()
	env := map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}
	log := &written{}
	p, err := tracing.FromEnv(t.Context(), config(log, func(name string) string { return env[name] }))
	require.NoError(t, err)
	p.Shutdown(t.Context())
	require.Contains(t, log.String(), "otel_exporter_otlp_protocol=http/json")
	require.Contains(t, log.String(), "sending traces")
}

// A collector that is away costs spans, a line, and no time but a bounded one at the end.
func TestCollectorThatIsAway(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // nobody listens there
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
			t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "20")
			t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
			log := &written{}
			p, err := tracing.FromEnv(t.Context(), config(log, os.Getenv))
			require.NoError(t, err)
			tracer := p.TracerProvider().Tracer("test")
			started := time.Now()
			for range 20_000 { // ten times what the queue holds
				_, span := tracer.Start(t.Context(), "a span")
				span.End()
			}
			require.Less(t, time.Since(started), 30*time.Second, "nobody waits for the collector")
			require.Eventually(t, func() bool { return strings.Contains(log.String(), "spans could not be sent") }, time.Minute, 5*time.Millisecond)

			started = time.Now()
			shutdown(p, 200*time.Millisecond)
			require.Less(t, time.Since(started), 30*time.Second)
			require.Equal(t, 1, strings.Count(log.String(), "spans could not be sent"), log)
		})
	}
}
