package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/supervise"
	"github.com/sched-sidecar/sched/internal/tracing"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/migrations"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/schedule"
	"github.com/sched-sidecar/sched/sidecar/admin"
	"github.com/sched-sidecar/sched/sidecar/console"
	"github.com/sched-sidecar/sched/sidecar/governor"
	"github.com/sched-sidecar/sched/sidecar/health"
	"github.com/sched-sidecar/sched/sidecar/host"
	"github.com/sched-sidecar/sched/sidecar/load"
	"github.com/sched-sidecar/sched/sidecar/sizer"
	"github.com/sched-sidecar/sched/sidecar/spans"
	"github.com/sched-sidecar/sched/sidecar/taskapi"
	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	probeInterval = time.Second
	// The last quarter of the shutdown grace, at most stopMarginMax, is kept for
	// handing tasks back, deregistering and closing. That may take stopMarginMin
	// in any case, also where a short grace is overrun by it.
	stopMarginMin = time.Second
	stopMarginMax = 5 * time.Second
	// poolCloseTimeout bounds the wait for connections that don't answer.
	poolCloseTimeout = time.Second
)

// Options is what a command passes along besides the configuration.
type Options struct {
	Logger  *slog.Logger
	Version string
	Stdout  io.Writer

	// App is a command to start and to run beside; nil: the app is somebody
	// else's to run. See [RunSidecar].
	App *supervise.Command
	// AppSignals are passed on to the command as they come. Optional.
	AppSignals <-chan os.Signal
	// AppStarted is told how to end the command and all its descendants at once.
	// Optional.
	AppStarted func(kill func())

	// Getenv reads the standard variables of OpenTelemetry, which say whether and where
	// traces are sent: os.Getenv. Nil: nowhere.
	Getenv func(name string) string

	// Hurry, when it is closed, ends the shutdown grace at once. Optional.
	Hurry <-chan struct{}

	// UntilEmpty ends the run when nothing is left that this sidecar could run, as
	// package remainder has it. The error is then a [remainder.ErrFailed] unless
	// everything succeeded.
	UntilEmpty bool

	clientID string
	traces   *tracing.Provider // nil: none
	appPID   int               // of App, once it runs
}

// RunSidecar runs a sidecar until ctx ends or a part of it fails, then stops it
// within the configured grace: unready, no more claims, running tasks finish or
// are handed back, outcomes are written, the registration ends, listeners and
// the pool are closed.
//
// With a command it starts that first, claims nothing before it answers, and
// stops it after the sidecar, in what is left of the grace and at least a moment
// longer: SIGTERM, then SIGKILL. The end of the command ends the run. The error
// is then an [ExitError] unless the command's exit code was 0.
func RunSidecar(ctx context.Context, cfg config.Sidecar, opts Options) error {
	cfg.Labels = host.Merge(host.Labels("", hostname()), cfg.Labels)
	opts.clientID = "sched-sidecar-" + strconv.Itoa(os.Getpid()) + routing.NewWorkerID()[1:]
	if opts.App != nil {
		return runBesideApp(ctx, cfg, opts)
	}
	return runSidecar(ctx, cfg, opts)
}

func runSidecar(ctx context.Context, cfg config.Sidecar, opts Options) error {
	pool, err := openPool(ctx, cfg.Database, "sched-sidecar", opts.Logger)
	if err != nil {
		return err
	}
	defer closePool(pool)
	if err := migrations.CheckContract(ctx, pool); err != nil {
		return err
	}
	if opts.traces, err = newTraces(ctx, opts); err != nil {
		return err
	}
	defer endTraces(ctx, opts.traces)
	link, err := newLink(ctx, cfg, opts)
	if err != nil {
		return err
	}
	defer link.close()
	s, err := newSidecar(ctx, cfg, opts, pool, link)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// sidecar is one that runs, or is about to.
type sidecar struct {
	cfg       config.Sidecar
	opts      Options
	link      *link
	watcher   *health.Watcher
	sampler   *load.Sampler
	governor  *governor.Governor
	sizer     *sizer.Sizer // nil: the slots stay
	server    *admin.Server
	console   *console.Console // nil: it is off
	remaining *remaining       // nil: it runs until it is stopped
}

func newSidecar(ctx context.Context, cfg config.Sidecar, opts Options, pool *pgxpool.Pool, link *link) (*sidecar, error) {
	registry := newRegistry(opts.Version, pool)
	s, err := newParts(cfg, opts, pool, link, measured(cfg, registry))
	if err != nil {
		return nil, err
	}
	gov := s.governor
	if opts.UntilEmpty {
		if s.remaining, err = newRemaining(cfg, opts, pool, gov); err != nil {
			return nil, err
		}
	}
	pages, err := s.openConsole(ctx, pool)
	if err != nil {
		return nil, err
	}
	s.server, err = admin.Listen(ctx, admin.Config{
		Addr: cfg.Admin.ListenAddr(), Pprof: cfg.Admin.Pprof, Gatherer: gathered(cfg, registry),
		NotReady: func() []string { return gov.Status().Holds },
		Status:   func() any { return gov.Status() },
		Drain:    gov.Drain,
		TaskAPI:  taskapi.Handler(gov, taskapi.Options{MaxBodyBytes: cfg.MaxResponseBytes, Logger: opts.Logger}),
		Console:  pages,
		Logger:   opts.Logger,
	})
	if err == nil {
		link.announce(s.server.Addr())
	}
	return s, err
}

// newParts returns a sidecar that lacks what needs a database, or an address, to be
// there. A nil registerer takes no metrics.
func newParts(cfg config.Sidecar, opts Options, pool *pgxpool.Pool, link *link, registerer prometheus.Registerer) (*sidecar, error) {
	watcher := health.NewWatcher(link.dispatcher, probeInterval, opts.Logger)
	sampler := load.NewSampler(load.Config{PID: func() int { return appPID(cfg, opts) }})
	gov, err := newGovernor(cfg, opts, pool, link.dispatcher, watcher, sampler, registerer)
	if err != nil {
		return nil, err
	}
	link.bind(gov, sampler.Report)
	watcher.Guard(gov)
	s := &sidecar{cfg: cfg, opts: opts, link: link, watcher: watcher, sampler: sampler, governor: gov}
	if cfg.Elastic != config.ElasticOff {
		s.sizer = sizer.New(sizer.Config{
			Governor: gov, Store: dbq.New(pool), Load: func() (load.Usage, bool) { return sampler.Usage().App() }, Observe: cfg.Elastic == config.ElasticObserve,
			AppDown: health.HoldName, Logger: opts.Logger, Registerer: orUnread(registerer),
		})
	}
	return s, nil
}

func (s *sidecar) run(ctx context.Context) error {
	log := s.opts.Logger
	// The parts outlive ctx: its end begins the drain.
	partsCtx, stopParts := context.WithCancel(context.WithoutCancel(ctx))
	defer stopParts()
	parts, partsCtx := errgroup.WithContext(partsCtx)
	parts.Go(func() error { return s.server.Serve(partsCtx) })
	parts.Go(func() error { return s.watcher.Run(partsCtx) })
	parts.Go(func() error { return s.sampler.Run(partsCtx) })
	if s.console != nil {
		parts.Go(func() error { return s.console.Run(partsCtx) })
	}
	if s.link.serve != nil {
		parts.Go(func() error { return s.link.serve(partsCtx) })
	}
	if err := s.governor.Start(ctx); err != nil {
		stopParts()
		return errors.Join(err, parts.Wait())
	}
	if s.sizer != nil {
		parts.Go(func() error { return s.sizer.Run(partsCtx) })
	}
	log.InfoContext(ctx, "sidecar ready", slog.String("addr", s.server.Addr()), slog.String("console", s.consoleURL()), slog.String("app", s.cfg.App.Address()),
		slog.String("worker_id", s.governor.Status().WorkerID), slog.Int("slots", s.cfg.StartSlots()))
	if s.remaining != nil {
		ctx = s.remaining.watch(ctx, partsCtx, parts)
	}

	select {
	case <-ctx.Done():
		log.InfoContext(ctx, "stopping", slog.Any("reason", context.Cause(ctx)), slog.Duration("grace", s.cfg.ShutdownGrace))
	case <-partsCtx.Done(): // a part failed
	}
	margin := min(stopMarginMax, s.cfg.ShutdownGrace/4)
	graceCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ShutdownGrace-margin)
	defer cancel()
	parts.Go(func() error {
		select {
		case <-s.opts.Hurry:
			log.WarnContext(ctx, "told to stop at once: handing running tasks back")
			cancel()
		case <-partsCtx.Done():
		}
		return nil
	})
	if deadline, ok := graceCtx.Deadline(); ok {
		s.link.drain(deadline)
	}
	err := s.governor.Stop(graceCtx, max(margin, stopMarginMin))
	stopParts()
	err = errors.Join(err, parts.Wait())
	log.InfoContext(ctx, "stopped")
	if err == nil && s.remaining != nil {
		err = s.remaining.verdict(ctx)
	}
	return err
}

func newGovernor(cfg config.Sidecar, opts Options, pool *pgxpool.Pool, dispatcher dispatcher, watcher *health.Watcher, sampler *load.Sampler, registerer prometheus.Registerer) (*governor.Governor, error) {
	listen, err := listenConfig(cfg.Database, "sched-sidecar")
	if err != nil {
		return nil, err
	}
	retry := jobs.DefaultRetryPolicy()
	retry.Base, retry.Cap, retry.Jitter = cfg.Retry.Base, cfg.Retry.Cap, cfg.Retry.Jitter
	return governor.New(governor.Config{
		Pool: pool, Listen: listen, Dispatcher: dispatcher, OnAppDown: watcher.Down, Load: func() governor.Usage { return appUsage(sampler.Usage(), cfg.Elastic == config.ElasticOn) },
		Logger: opts.Logger, Registerer: registerer, Schedules: schedule.NewRunner(pool, orUnread(registerer), opts.Logger),
		ClientID: opts.clientID,
		Hostname: hostname(), PID: os.Getpid(), Version: opts.Version, AppURL: cfg.App.Address(),
		Spans:  spans.New(opts.traces.TracerProvider(), opts.traces.RootShare()),
		Labels: cfg.Labels, Protocols: []string{cfg.App.Protocol}, Queues: cfg.Queues, Kinds: cfg.Kinds,
		Slots: cfg.StartSlots(), Ceiling: cfg.Slots.Ceiling,
		TokenRate: cfg.Tokens.Rate, TokenBurst: cfg.Tokens.Burst,
		PollInterval: cfg.PollInterval, HeartbeatInterval: cfg.HeartbeatInterval,
		FenceAfter: cfg.FenceAfter, EvictAfter: cfg.EvictAfter, DefaultTimeout: cfg.DefaultTimeout,
		Retry: retry,
	})
}

// appUsage is what a governor is told of the app, which is sized or not.
func appUsage(u load.Usage, sized bool) governor.Usage {
	usage := governor.Usage{CPU: u.CPU, Mem: u.Mem, App: routing.AppLoad{Report: u.Report, Reported: u.Reported, Sized: sized}}
	if u.Of == load.App {
		usage.App.CPU, usage.App.Mem = u.CPU, u.Mem
	}
	return usage
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// appPID returns the process id of the app, or 0 where it isn't known (now).
func appPID(cfg config.Sidecar, opts Options) int {
	if cfg.App.Protocol == config.ProtocolExec {
		return os.Getpid() // its commands are this process' children
	}
	if opts.appPID > 0 || cfg.App.PIDFile == "" {
		return opts.appPID
	}
	text, err := os.ReadFile(cfg.App.PIDFile)
	if err != nil {
		return 0 // it may come, or be on its way to another
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
