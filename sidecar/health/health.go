// Package health watches whether the app beside the sidecar is there, and holds
// claims back while it is not: a task is not claimed for an app that can't take it.
package health

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// HoldName is the hold that is on while the app is down.
const HoldName = "app down"

// Prober asks the app for a sign of life. It returns nil or why there is none.
type Prober interface {
	Probe(ctx context.Context) error
}

// Holder stops claims for a reason until it is released.
type Holder interface {
	Hold(reason string)
	Release(reason string)
}

// Watcher probes the app at an interval.
type Watcher struct {
	prober   Prober
	holder   Holder
	interval time.Duration
	logger   *slog.Logger
	down     atomic.Bool
}

// NewWatcher returns a watcher; claims are held until its first probe succeeds.
func NewWatcher(prober Prober, holder Holder, interval time.Duration, logger *slog.Logger) *Watcher {
	w := &Watcher{prober: prober, holder: holder, interval: interval, logger: logger}
	w.down.Store(true)
	holder.Hold(HoldName)
	return w
}

// Up reports whether the last probe succeeded.
func (w *Watcher) Up() bool { return !w.down.Load() }

// Run probes until ctx ends. One failure is enough for down: the next probe
// that succeeds ends it, and nothing is lost meanwhile.
func (w *Watcher) Run(ctx context.Context) error {
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	first := true
	for {
		err := w.prober.Probe(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (first || !w.down.Swap(true)):
			w.holder.Hold(HoldName)
			w.logger.WarnContext(ctx, "the app is down: claiming nothing until it is back", slog.Any("error", err))
		case err == nil && w.down.Swap(false):
			w.holder.Release(HoldName)
			w.logger.InfoContext(ctx, "the app is up")
		}
		first = false
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
