package remainder

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	lookInterval = 500 * time.Millisecond
	lookTimeout  = 10 * time.Second
)

// Sidecar is the running sidecar, as far as it matters here.
type Sidecar interface {
	Running() int           // tasks that run here
	SkippedKinds() []string // kinds that are not claimed now because the app lacks them
}

// Discoverer makes queues known that tasks were put in without their row.
type Discoverer interface {
	DiscoverQueues(ctx context.Context) error
}

// Config is what the sidecar takes, and where to look. All fields without a note are required.
type Config struct {
	DB        dbq.DBTX
	Queues    Discoverer
	Sidecar   Sidecar
	ClientID  string // as registered
	Labels    map[string]string
	Protocols []string
	Bases     []string // base names of queues; empty: all
	Kinds     []string // empty: all
	Logger    *slog.Logger
}

// Watcher looks for what is left.
type Watcher struct {
	config  Config
	q       *dbq.Queries
	labels  []byte
	lacking lacking
}

// New returns a watcher.
func New(config Config) (*Watcher, error) {
	labels := []byte("{}")
	if config.Labels != nil {
		var err error
		if labels, err = json.Marshal(config.Labels); err != nil {
			return nil, fmt.Errorf("labels: %w", err)
		}
	}
	// An empty list would match nothing where none is meant.
	if len(config.Bases) == 0 {
		config.Bases = nil
	}
	if len(config.Kinds) == 0 {
		config.Kinds = nil
	}
	return &Watcher{config: config, q: dbq.New(config.DB), labels: labels}, nil
}

// AwaitEmpty returns when nothing is left to wait for, or with ctx's error. While the database doesn't answer it looks
// again: the sidecar lives through that, too.
func (w *Watcher) AwaitEmpty(ctx context.Context) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		w.lacking.observe(w.config.Sidecar.SkippedKinds(), time.Now())
		if w.config.Sidecar.Running() == 0 {
			empty, err := w.Empty(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				w.config.Logger.DebugContext(ctx, "the look for tasks that are left failed", slog.Any("error", err))
			case empty:
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Empty reports whether nothing is left now. It looks again with the queues that nobody had noticed.
func (w *Watcher) Empty(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	anything, err := w.anythingLeft(ctx)
	if err != nil || anything {
		return false, err
	}
	if err := w.config.Queues.DiscoverQueues(ctx); err != nil {
		return false, err
	}
	anything, err = w.anythingLeft(ctx)
	return !anything, err
}

func (w *Watcher) anythingLeft(ctx context.Context) (bool, error) {
	return w.q.RemainderLeft(ctx, dbq.RemainderLeftParams{
		Labels: w.labels, Protocols: w.config.Protocols, Bases: w.config.Bases,
		Kinds: w.config.Kinds, Lacking: w.lacking.kinds(),
	})
}
