package app

import (
	"context"
	"time"

	"github.com/sched-sidecar/sched/internal/tracing"
)

// flushTimeout bounds the wait for a collector at the end. By then everything else is
// done: what kills the process meanwhile costs spans alone.
const flushTimeout = 2 * time.Second

func newTraces(ctx context.Context, opts Options) (*tracing.Provider, error) {
	if opts.Getenv == nil {
		return nil, nil //nolint:nilnil // a nil provider is one that traces nothing
	}
	return tracing.FromEnv(ctx, tracing.Config{
		Getenv: opts.Getenv, Service: "sched-sidecar", Version: opts.Version, Instance: opts.clientID, Logger: opts.Logger,
	})
}

// endTraces sends what is left, with or without ctx.
func endTraces(ctx context.Context, traces *tracing.Provider) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	traces.Shutdown(ctx)
}
