package bench

import (
	"context"
	"io"
	"sync"
	"time"
)

const (
	seeMetricsMin = 0.97
	// scrapeEvery is more often than anybody scrapes.
	scrapeEvery = time.Second
	pathMetrics = "/metrics"
)

// metrics measures a sidecar that shows its metrics, is scraped each second and logs
// all that it can, by one that measures nothing and logs its start and end.
func (r *Runner) metrics(ctx context.Context) ([]Figure, error) {
	off, on := r.schedOver(protocolGRPC), r.schedOver(protocolGRPC)
	off.name, on.name = "sched_unmeasured", "sched_measured"
	startOff, startOn := off.start, on.start
	off.start = func(ctx context.Context, db *database, set sidecarOptions) (*crew, error) {
		set.env = append(set.env, "SCHED_ADMIN_METRICS=false")
		return startOff(ctx, db, set)
	}
	var scrapes sync.WaitGroup
	defer scrapes.Wait()
	on.start = func(ctx context.Context, db *database, set sidecarOptions) (*crew, error) {
		set.env = append(set.env, "SCHED_LOG_LEVEL=debug")
		crew, err := startOn(ctx, db, set)
		if err == nil {
			scrapes.Go(func() { scrape(ctx, crew.client) })
		}
		return crew, err
	}
	result, err := r.compared(ctx, off, on)
	if err != nil {
		return nil, err
	}
	return []Figure{newFigure("see.metrics.vs_off", result[1], "ratio", AtLeast(seeMetricsMin), r.config.Rounds)}, nil
}

// scrape reads a sidecar's metrics each second, until ctx or the sidecar ends.
func scrape(ctx context.Context, sidecar *child) {
	ticker := time.NewTicker(scrapeEvery)
	defer ticker.Stop()
	for {
		_ = sidecar.get(ctx, pathMetrics, func(body io.Reader) error { // it may be on its way down
			_, err := io.Copy(io.Discard, body)
			return err
		})
		select {
		case <-ctx.Done():
			return
		case <-sidecar.exited:
			return
		case <-ticker.C:
		}
	}
}
