package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The variables that are read here. The exporters read those of their endpoint, TLS,
// headers, compression and timeouts, the provider those of the sampler and the queue,
// all from the process' environment.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	envSampler        = "OTEL_TRACES_SAMPLER"
	envSamplerArg     = "OTEL_TRACES_SAMPLER_ARG"
)

// samplerOfShare is the sampler that records what its parent's is, and of the rest a share.
const samplerOfShare = "parentbased_traceidratio"

const (
	exporterOTLP = "otlp"
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// Config says who sends.
type Config struct {
	// Getenv reads a variable; mostly os.Getenv.
	Getenv func(name string) string
	// Service is the service.name where OTEL_SERVICE_NAME says none.
	Service string
	// Version and Instance are service.version and service.instance.id. Optional.
	Version, Instance string
	Logger            *slog.Logger
}

// Provider makes tracers whose spans are sent. Nil is one that traces nothing.
type Provider struct {
	provider *sdktrace.TracerProvider
	exporter *exporter
	share    float64
}

// FromEnv returns a provider, or nil where the environment doesn't ask for traces that
// can be sent. An error means that it asks for what can't be, and says what.
func FromEnv(ctx context.Context, config Config) (*Provider, error) {
	if !wanted(ctx, config) {
		return nil, nil //nolint:nilnil // a nil provider is one that traces nothing
	}
	client, protocol, err := newExporter(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("traces (%s): %w", protocol, err)
	}
	attributes := []attribute.KeyValue{attribute.String("service.name", config.Service)}
	if config.Version != "" {
		attributes = append(attributes, attribute.String("service.version", config.Version))
	}
	if config.Instance != "" {
		attributes = append(attributes, attribute.String("service.instance.id", config.Instance))
	}
	// The environment comes last: what it says counts.
	described, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(attributes...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	wrapped := newWatched(client, config.Logger)
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(wrapped), sdktrace.WithResource(described)}
	share, drawn := shareOf(config.Getenv)
	if drawn {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	}
	config.Logger.InfoContext(ctx, "sending traces", slog.String("protocol", protocol))
	return &Provider{exporter: wrapped, provider: sdktrace.NewTracerProvider(options...), share: share}, nil
}

// shareOf is what share of the traces that begin here is to be recorded, where that can be
// drawn before a tracer is asked: the SDK makes a span, with ids and options, of each that
// it then doesn't record. All others are left to its sampler.
func shareOf(getenv func(string) string) (share float64, drawn bool) {
	if getenv(envSampler) != samplerOfShare {
		return 1, false
	}
	share, err := strconv.ParseFloat(getenv(envSamplerArg), 64)
	if err != nil || !(share >= 0 && share <= 1) {
		return 1, false // the SDK says what it makes of it
	}
	return share, true
}

// wanted reports whether traces are to be sent: it is said so, or where to.
func wanted(ctx context.Context, config Config) bool {
	if disabled, _ := strconv.ParseBool(config.Getenv(envDisabled)); disabled {
		return false
	}
	switch name := config.Getenv(envExporter); name {
	case "":
		return config.Getenv(envEndpoint) != "" || config.Getenv(envTracesEndpoint) != ""
	case exporterOTLP:
		return true
	case "none":
		return false
	default:
		// The variables may be meant for the app, with which they are shared.
		config.Logger.WarnContext(ctx, "no traces are sent: this program knows otlp and none", slog.String(envKey, name))
		return false
	}
}

// envKey and protocolKey are envExporter and envProtocol as keys of the log.
const (
	envKey      = "otel_traces_exporter"
	protocolKey = "otel_exporter_otlp_protocol"
)

func newExporter(ctx context.Context, config Config) (client sdktrace.SpanExporter, protocol string, err error) {
	protocol = config.Getenv(envTracesProtocol)
	if protocol == "" {
		protocol = config.Getenv(envProtocol)
	}
	switch strings.ToLower(protocol) {
	case protocolGRPC:
		client, err = otlptracegrpc.New(ctx)
		return client, protocolGRPC, err
	case "", protocolHTTP:
		client, err = otlptracehttp.New(ctx)
		return client, protocolHTTP, err
	default:
		config.Logger.WarnContext(ctx, "traces are sent by "+protocolHTTP+": this program knows it and "+protocolGRPC, slog.String(protocolKey, protocol))
		client, err = otlptracehttp.New(ctx)
		return client, protocolHTTP, err
	}
}

// RootShare is what share of the traces that begin here is to be recorded, 0 to 1. Whoever
// begins one draws; what a tracer is asked for then is recorded.
func (p *Provider) RootShare() float64 {
	if p == nil {
		return 1
	}
	return p.share
}

// TracerProvider is what makes tracers, or nil.
func (p *Provider) TracerProvider() trace.TracerProvider {
	if p == nil {
		return nil
	}
	return p.provider
}

// Shutdown sends what is left until ctx ends. What isn't sent then is lost, and said in
// the log.
func (p *Provider) Shutdown(ctx context.Context) {
	if p == nil {
		return
	}
	// An export under way would go on for its own timeout.
	stop := context.AfterFunc(ctx, p.exporter.giveUp)
	defer stop()
	_ = p.provider.Shutdown(ctx) // the exporter tells what went wrong
	p.exporter.close(ctx)
}
