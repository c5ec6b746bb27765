package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/execapp"
	"github.com/sched-sidecar/sched/sidecar/governor"
	"github.com/sched-sidecar/sched/sidecar/grpcapp"
	"github.com/sched-sidecar/sched/sidecar/health"
	"github.com/sched-sidecar/sched/sidecar/httpapp"
)

// dispatcher is what hands tasks to the app and knows whether it is there.
type dispatcher interface {
	dispatch.Dispatcher
	health.Prober
}

// link is the way to the app: its dispatcher, and what that needs beside it.
type link struct {
	// dispatcher is handed on as it is: what else it can do, such as revoking accepted
	// tasks, is found by its type.
	dispatcher dispatcher
	// serve, if any, runs with the sidecar until its context ends.
	serve func(ctx context.Context) error
	// bind tells the dispatcher of the governor, and where an app's word for its own
	// load goes. It runs before anything is dispatched.
	bind func(g *governor.Governor, report func(percent float64))
	// announce tells the dispatcher where the sidecar's API is, as host:port. It runs
	// before anything is dispatched.
	announce func(addr string)
	// drain tells the app that no more tasks come.
	drain func(deadline time.Time)
	close func()
}

// newLink opens the way that the configuration names. Callers must close it.
func newLink(ctx context.Context, cfg config.Sidecar, opts Options) (*link, error) {
	switch cfg.App.Protocol {
	case config.ProtocolGRPC:
		return newSessions(ctx, cfg, opts)
	case config.ProtocolExec:
		d, err := execapp.New(execapp.Config{Command: cfg.App.Command, MaxOutputBytes: cfg.MaxResponseBytes, KillAfter: killAfter(cfg), Logger: opts.Logger})
		if err != nil {
			return nil, err
		}
		return plainLink(d, func() {}), nil
	default:
		d, err := newHTTP(cfg, opts)
		if err != nil {
			return nil, err
		}
		l := plainLink(d, d.Close)
		if cfg.App.SendAPI {
			l.announce = func(addr string) { d.TellAPI("http://" + localAddr(addr)) }
		}
		return l, nil
	}
}

// killAfter is how long a command that is told to end may take: half of what is
// left, at a shutdown, for handing tasks back, and at a fence, before others get them.
func killAfter(cfg config.Sidecar) time.Duration {
	margin := max(min(stopMarginMax, cfg.ShutdownGrace/4), stopMarginMin)
	return min(margin, cfg.EvictAfter-cfg.FenceAfter) / 2
}

// plainLink is one without anything beside the dispatcher.
func plainLink(d dispatcher, closeIt func()) *link {
	return &link{
		dispatcher: d, bind: func(*governor.Governor, func(float64)) {}, announce: func(string) {}, drain: func(time.Time) {}, close: closeIt,
	}
}

// localAddr is a listener's address as a program on this machine can use it.
func localAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

func newHTTP(cfg config.Sidecar, opts Options) (*httpapp.Dispatcher, error) {
	secrets := make([]string, len(cfg.App.Secrets))
	for i, secret := range cfg.App.Secrets {
		secrets[i] = secret.Reveal()
	}
	return httpapp.New(httpapp.Config{
		URL: cfg.App.URL, Secrets: secrets, HealthPath: cfg.App.HealthPath,
		MaxResponseBytes: cfg.MaxResponseBytes, Logger: opts.Logger,
	})
}

// newSessions listens for the app's sessions.
func newSessions(ctx context.Context, cfg config.Sidecar, opts Options) (*link, error) {
	var gov *governor.Governor
	var report func(percent float64)
	d := grpcapp.New(grpcapp.Config{
		Listen: cfg.App.Listen, MaxOutputBytes: cfg.MaxResponseBytes, Logger: opts.Logger,
		WorkerID:   func() string { return gov.Status().WorkerID },
		OnCapacity: func(tasks int) { gov.SetAppCapacity(tasks) },
		OnLoad:     func(percent float64) { report(percent) },
	})
	server, err := d.Listen(ctx)
	if err != nil {
		return nil, fmt.Errorf("app.listen: %w", err)
	}
	opts.Logger.InfoContext(ctx, "waiting for the app's sessions", slog.String("listen", server.Addr()))
	return &link{
		dispatcher: d, serve: server.Serve, announce: func(string) {}, drain: d.Drain, close: server.Close,
		bind: func(g *governor.Governor, r func(float64)) {
			gov, report = g, r
			d.SettleLate(g)
			g.SetAppCapacity(0)
		},
	}, nil
}
