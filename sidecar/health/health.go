// Package health watches whether the app beside the sidecar is there, and holds
// claims back while it is not: a task is not claimed for an app that can't take it.
package health

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// startInterval is how often an app is probed that hasn't come up yet: it was
// probably started a moment ago, and somebody waits.
const startInterval = 100 * time.Millisecond

// startPatience is how long such an app is waited for in silence.
const startPatience = time.Second

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

// Watcher probes the app at an interval, and hears of calls that found nobody.
type Watcher struct {
	prober   Prober
	interval time.Duration
	logger   *slog.Logger

	mu     sync.Mutex
	holder Holder
	down   bool
}

// NewWatcher returns a watcher. The app counts as down until a probe succeeds.
func NewWatcher(prober Prober, interval time.Duration, logger *slog.Logger) *Watcher {
	return &Watcher{prober: prober, interval: interval, logger: logger, down: true}
}

// Guard makes the watcher hold claims back at holder while the app is down, which
// is where it begins. To be called once, before Run.
func (w *Watcher) Guard(holder Holder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holder = holder
	holder.Hold(HoldName)
}

// Down notes that the app took no connection. It holds claims back at once, until
// the next probe that succeeds.
func (w *Watcher) Down(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return
	}
	w.down = true
	w.holder.Hold(HoldName)
	w.logger.Warn("the app is down: claiming nothing until it is back", slog.String("error", reason))
}

// up notes that the app gave a sign of life.
func (w *Watcher) up() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.down {
		return
	}
	w.down = false
	w.holder.Release(HoldName)
	w.logger.Info("the app is up")
}

// Run probes until ctx ends, more often until the app is up for the first time.
// One failure is enough for down: the next probe that succeeds ends it, and
// nothing is lost meanwhile.
func (w *Watcher) Run(ctx context.Context) error {
	ticker := time.NewTicker(min(startInterval, w.interval))
	defer ticker.Stop()
	begun := time.Now()
	for started, warned := false, false; ; {
		err := w.prober.Probe(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if !started {
				started = true
				ticker.Reset(w.interval)
			}
			w.up()
		case started:
			w.Down(err.Error())
		case !warned && time.Since(begun) >= startPatience:
			warned = true
			w.logger.WarnContext(ctx, "waiting for the app", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
