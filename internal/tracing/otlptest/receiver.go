// Package otlptest is a receiver of OTLP in this process, over grpc and HTTP, for tests
// and benchmarks. It keeps the spans that it gets.
package otlptest

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Span is one span, as the receiver got it.
type Span struct {
	Name                  string
	TraceID, ID, ParentID string // hexadecimal
	Kind                  tracev1.Span_SpanKind
	Start, End            time.Time
	Links                 []string       // the trace ids and span ids, as traceid-spanid
	Attributes            map[string]any // strings and int64s
	Service               string         // service.name of the resource
	Resource              map[string]any
	Failed                bool
}

// Receiver takes OTLP over both of its protocols.
type Receiver struct {
	// GRPC and HTTP are what the exporters' endpoint should be: http://host:port.
	GRPC, HTTP string

	collectorv1.UnimplementedTraceServiceServer
	grpc    *grpc.Server
	http    *http.Server
	serving sync.WaitGroup

	mu    sync.Mutex
	spans []Span
	news  chan struct{} // closed and replaced when spans come
}

// Start listens on loopback, on free ports. Callers must Close it.
func Start(ctx context.Context) (*Receiver, error) {
	r := &Receiver{grpc: grpc.NewServer(), news: make(chan struct{})}
	var config net.ListenConfig
	forGRPC, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	forHTTP, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, forGRPC.Close())
	}
	r.GRPC, r.HTTP = "http://"+forGRPC.Addr().String(), "http://"+forHTTP.Addr().String()
	collectorv1.RegisterTraceServiceServer(r.grpc, r)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", r.post)
	r.http = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	r.serving.Go(func() { _ = r.grpc.Serve(forGRPC) })
	r.serving.Go(func() { _ = r.http.Serve(forHTTP) })
	return r, nil
}

// Close ends both servers.
func (r *Receiver) Close() {
	r.grpc.Stop()
	_ = r.http.Close() // it ends either way
	r.serving.Wait()
}

// Export takes spans over grpc.
func (r *Receiver) Export(_ context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	r.keep(request)
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// post takes spans over HTTP.
func (r *Receiver) post(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	var spans collectorv1.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &spans)
	}
	if err != nil || request.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not spans in protobuf", http.StatusBadRequest)
		return
	}
	r.keep(&spans)
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(http.StatusOK)
}

func (r *Receiver) keep(request *collectorv1.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		described := attributesOf(resource.GetResource().GetAttributes())
		service, _ := described["service.name"].(string)
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				span := Span{
					Name: s.GetName(), TraceID: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
					ParentID: hex.EncodeToString(s.GetParentSpanId()), Kind: s.GetKind(),
					Start: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
					Attributes: attributesOf(s.GetAttributes()), Service: service, Resource: described,
					Failed: s.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR,
				}
				for _, link := range s.GetLinks() {
					span.Links = append(span.Links, hex.EncodeToString(link.GetTraceId())+"-"+hex.EncodeToString(link.GetSpanId()))
				}
				r.spans = append(r.spans, span)
			}
		}
	}
	close(r.news)
	r.news = make(chan struct{})
}

func attributesOf(list []*commonv1.KeyValue) map[string]any {
	attributes := make(map[string]any, len(list))
	for _, a := range list {
		switch value := a.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			attributes[a.GetKey()] = value.StringValue
		case *commonv1.AnyValue_IntValue:
			attributes[a.GetKey()] = value.IntValue
		}
	}
	return attributes
}

// Spans are those that have come so far.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}

// Wait returns the spans as soon as done holds for them, or what there is when ctx ends.
func (r *Receiver) Wait(ctx context.Context, done func([]Span) bool) []Span {
	for {
		r.mu.Lock()
		spans, news := append([]Span(nil), r.spans...), r.news
		r.mu.Unlock()
		if done(spans) {
			return spans
		}
		select {
		case <-news:
		case <-ctx.Done():
			return spans
		}
	}
}
