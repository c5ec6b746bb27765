package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sched-sidecar/sched/internal/tracing/otlptest"
)

// SeeConfig is what is measured of looking on.
type SeeConfig struct {
	Parts []string // seeParts
}

const (
	seeTracing = "tracing"
	seeMetrics = "metrics"

	seeRatio      = 0.01 // of the tasks, as is usual
	seeTracingMin = 0.95
)

func seeParts() []string { return []string{seeTracing, seeMetrics} }

func defaultSee() SeeConfig { return SeeConfig{Parts: seeParts()} }

func (c SeeConfig) validate() error {
	for _, part := range c.Parts {
		if !slices.Contains(seeParts(), part) {
			return fmt.Errorf("--parts %q: use %s", part, strings.Join(seeParts(), ", "))
		}
	}
	return nil
}

// see measures what it costs to be watched: drains over sessions, the fast way, by
// such in the same rounds that nobody watches.
func (r *Runner) see(ctx context.Context) error {
	err := r.report.limits("see", []limit{
		{"tasks", strconv.Itoa(r.config.Drain.Tasks)},
		{"sidecar slots", strconv.Itoa(r.config.Drain.Slots)},
		{"traced", fmt.Sprintf("%g of the tasks, sent by OTLP over HTTP to this process", seeRatio)},
		{"scraped", "each " + scrapeEvery.String()},
	})
	if err != nil {
		return err
	}
	for _, part := range r.config.See.Parts {
		var figures []Figure
		switch part {
		case seeTracing:
			figures, err = r.tracing(ctx)
		case seeMetrics:
			figures, err = r.metrics(ctx)
		default:
			err = errors.New("no such part")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		if err := r.report.add(figures...); err != nil {
			return err
		}
	}
	return nil
}

// tracing measures a sidecar that traces some tasks and tells the app of all.
func (r *Runner) tracing(ctx context.Context) ([]Figure, error) {
	receiver, err := otlptest.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer receiver.Close()
	traced := r.schedOver(protocolGRPC)
	traced.name = "sched_traced"
	start := traced.start
	traced.start = func(ctx context.Context, db *database, set sidecarOptions) (*crew, error) {
		set.env = append(set.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+receiver.HTTP,
			"OTEL_TRACES_SAMPLER=parentbased_traceidratio", fmt.Sprintf("OTEL_TRACES_SAMPLER_ARG=%g", seeRatio))
		return start(ctx, db, set)
	}
	result, err := r.compared(ctx, r.schedOver(protocolGRPC), traced)
	if err != nil {
		return nil, err
	}
	spans := len(receiver.Spans())
	r.report.note("%d spans came", spans)
	// Of a backlog of some size a part is sampled for certain; if nothing came, nothing was measured.
	if float64(r.config.Drain.Tasks)*seeRatio > 20 && spans == 0 {
		return nil, errors.New("no span came: the sidecar didn't trace")
	}
	return []Figure{newFigure("see.tracing_1pct.vs_off", result[1], "ratio", AtLeast(seeTracingMin), r.config.Rounds)}, nil
}
