package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/migrations"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/admin"
	"github.com/sched-sidecar/sched/sidecar/governor"
	"github.com/sched-sidecar/sched/sidecar/health"
	"github.com/sched-sidecar/sched/sidecar/httpapp"
	"github.com/sched-sidecar/sched/sidecar/taskapi"
)

const (
	probeInterval = time.Second
	// stopMargin is the part of the shutdown grace that is kept for handing
	// tasks back, deregistering and closing; a quarter of a short grace.
	stopMargin = 5 * time.Second
)

// Options is what a command passes along besides the configuration.
type Options struct {
	Logger  *slog.Logger
	Version string
	Stdout  io.Writer
}

// RunSidecar runs a sidecar until ctx ends or a part of it fails, then stops it
// within the configured grace: unready, no more claims, running tasks finish or
// are handed back, outcomes are written, the registration ends, listeners and
// the pool are closed.
func RunSidecar(ctx context.Context, cfg config.Sidecar, opts Options) (err error) {
	pool, err := openPool(ctx, cfg.Database, "sched-sidecar")
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.CheckContract(ctx, pool); err != nil {
		return err
	}

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(opts.Version))

	dispatcher, err := newDispatcher(cfg, opts)
	if err != nil {
		return err
	}
	defer dispatcher.Close()
	watcher := health.NewWatcher(dispatcher, probeInterval, opts.Logger)
	gov, err := newGovernor(cfg, opts, pool, dispatcher, watcher, registry)
	if err != nil {
		return err
	}
	watcher.Guard(gov)
	server, err := admin.Listen(ctx, admin.Config{
		Addr: cfg.Admin.ListenAddr(), Pprof: cfg.Admin.Pprof, Gatherer: registry,
		NotReady: func() []string { return gov.Status().Holds },
		Status:   func() any { return gov.Status() },
		Drain:    gov.Drain,
		TaskAPI:  taskapi.Handler(gov, taskapi.Options{MaxBodyBytes: cfg.MaxResponseBytes, Logger: opts.Logger}),
		Logger:   opts.Logger,
	})
	if err != nil {
		return err
	}

	// The parts outlive ctx: its end begins the drain.
	partsCtx, stopParts := context.WithCancel(context.WithoutCancel(ctx))
	defer stopParts()
	parts, partsCtx := errgroup.WithContext(partsCtx)
	parts.Go(func() error { return server.Serve(partsCtx) })
	parts.Go(func() error { return watcher.Run(partsCtx) })
	if err := gov.Start(ctx); err != nil {
		stopParts()
		return errors.Join(err, parts.Wait())
	}
	opts.Logger.InfoContext(ctx, "sidecar ready", slog.String("addr", server.Addr()), slog.String("app", cfg.App.URL),
		slog.String("worker_id", gov.Status().WorkerID), slog.Int("slots", cfg.Slots.Start()))

	select {
	case <-ctx.Done():
		opts.Logger.InfoContext(ctx, "stopping", slog.Any("reason", context.Cause(ctx)), slog.Duration("grace", cfg.ShutdownGrace))
	case <-partsCtx.Done(): // a part failed
	}
	graceCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.ShutdownGrace-min(stopMargin, cfg.ShutdownGrace/4))
	defer cancel()
	err = gov.Stop(graceCtx)
	stopParts()
	err = errors.Join(err, parts.Wait())
	opts.Logger.InfoContext(ctx, "stopped")
	return err
}

func newDispatcher(cfg config.Sidecar, opts Options) (*httpapp.Dispatcher, error) {
	secrets := make([]string, len(cfg.App.Secrets))
	for i, secret := range cfg.App.Secrets {
		secrets[i] = secret.Reveal()
	}
	return httpapp.New(httpapp.Config{
		URL: cfg.App.URL, Secrets: secrets, HealthPath: cfg.App.HealthPath,
		MaxResponseBytes: cfg.MaxResponseBytes, Logger: opts.Logger,
	})
}

func newGovernor(cfg config.Sidecar, opts Options, pool *pgxpool.Pool, dispatcher *httpapp.Dispatcher, watcher *health.Watcher, registerer prometheus.Registerer) (*governor.Governor, error) {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "unknown"
	}
	listen, err := listenConfig(cfg.Database, "sched-sidecar")
	if err != nil {
		return nil, err
	}
	retry := jobs.DefaultRetryPolicy()
	retry.Base, retry.Cap, retry.Jitter = cfg.Retry.Base, cfg.Retry.Cap, cfg.Retry.Jitter
	return governor.New(governor.Config{
		Pool: pool, Listen: listen, Dispatcher: dispatcher, OnAppDown: watcher.Down,
		Logger: opts.Logger, Registerer: registerer,
		ClientID: "sched-sidecar-" + strconv.Itoa(os.Getpid()) + routing.NewWorkerID()[1:],
		Hostname: hostname, PID: os.Getpid(), Version: opts.Version, AppURL: cfg.App.URL,
		Labels: cfg.Labels, Protocols: []string{"http"}, Queues: cfg.Queues, Kinds: cfg.Kinds,
		Slots: cfg.Slots.Start(), Ceiling: cfg.Slots.Ceiling,
		PollInterval: cfg.PollInterval, HeartbeatInterval: cfg.HeartbeatInterval,
		FenceAfter: cfg.FenceAfter, EvictAfter: cfg.EvictAfter, DefaultTimeout: cfg.DefaultTimeout,
		Retry: retry,
	})
}

func buildInfo(version string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "sched", Name: "build_info", Help: "Always 1; the version of this sidecar.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	return info
}
