package tracing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// quiet is how long the log says nothing more of a collector that takes nothing.
const quiet = time.Minute

// exporter tells of failures in the log, rarely, where the SDK would tell each to a
// handler that the whole process shares.
type exporter struct {
	sdktrace.SpanExporter
	logger *slog.Logger
	ended  context.Context //nolint:containedctx // ends exports when nobody waits any longer
	giveUp context.CancelFunc

	mu   sync.Mutex
	lost int       // spans since it was last said
	said time.Time // when it was last said
}

func newWatched(client sdktrace.SpanExporter, logger *slog.Logger) *exporter {
	ended, giveUp := context.WithCancel(context.Background())
	return &exporter{SpanExporter: client, logger: logger, ended: ended, giveUp: giveUp}
}

// ExportSpans sends spans. A failure is for the log; nobody could do anything about it.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(e.ended, cancel)
	defer stop()
	e.note(ctx, len(spans), e.SpanExporter.ExportSpans(ctx, spans), time.Now())
	return nil
}

// note says that an export failed, if it is time to.
func (e *exporter) note(ctx context.Context, spans int, err error, now time.Time) {
	if err == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost += spans
	if !e.said.IsZero() && now.Sub(e.said) < quiet {
		return
	}
	e.said = now
	e.logger.WarnContext(ctx, "spans could not be sent and are lost; nothing else is affected",
		slog.Int("spans_lost", e.lost), slog.Any("error", err))
	e.lost = 0
}

// close says what was lost since the log was last told.
func (e *exporter) close(ctx context.Context) {
	e.giveUp()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost > 0 {
		e.logger.WarnContext(ctx, "spans were lost", slog.Int("spans_lost", e.lost))
		e.lost = 0
	}
}
