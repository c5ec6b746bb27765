package dev

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/sched-sidecar/sched/internal/app"
	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/supervise"
)

// Options says what to run.
type Options struct {
	Command []string // the app; empty: somebody starts it elsewhere
	Environ []string // of the app, before what is added; as of os.Environ

	// Sidecar is the sidecar's configuration. Its database is this server's. Given says which of its keys somebody set;
	// the others may be changed to what suits a developer.
	Sidecar config.Sidecar
	Given   func(key string) bool

	Dir       string // where the data are kept; not used if Ephemeral
	Ephemeral bool   // throw the data away in the end
	Port      int    // of Postgres; 0: the last one of these data, or 54329 or one of the next, or any

	Stdout  io.Writer
	Colour  bool
	Version string // of this program
	Program string // how it was called

	// Hurry, when it is closed, ends the shutdown grace at once. Optional.
	Hurry <-chan struct{}
	// AppStarted is told how to end the app and all its descendants at once. Optional.
	AppStarted func(kill func())
}

// server is a running `sched dev`.
type server struct {
	opts    Options
	console *console
	cfg     config.Sidecar
}

// Run runs Postgres, a sidecar and the app until ctx ends, the app ends by itself, or a part fails. The error is an
// [app.ExitError] when the app ended by itself with another exit code than 0; a run that ctx ended is a success.
func Run(ctx context.Context, opts Options) error {
	s := &server{opts: opts, console: &console{out: opts.Stdout, colour: opts.Colour}, cfg: opts.Sidecar}
	if err := s.checkApp(ctx); err != nil {
		return err
	}
	postgres, err := s.startPostgres(ctx)
	if err != nil {
		return err
	}
	// Only now: what is free at the start may be taken by the time Postgres is up.
	places, err := s.choosePlaces(ctx)
	if err != nil {
		return errors.Join(err, postgres.stop())
	}
	s.cfg.Database.URL, s.cfg.Database.ListenURL = config.DSN(postgres.dsn), ""
	s.console.write(s.banner(postgres, places))
	err = s.runBeside(ctx, postgres)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // the sidecar was still starting
	}
	s.console.say(postgresSource(), "stopping")
	return errors.Join(err, postgres.stop())
}

// checkApp refuses a command that can't run, before anything is started.
func (s *server) checkApp(ctx context.Context) error {
	if len(s.opts.Command) == 0 {
		return nil
	}
	_, err := supervise.Find(s.opts.Command[0])
	var cause *supervise.StartError
	if errors.As(err, &cause) {
		return &app.ExitError{Code: cause.Code(), Err: err}
	}
	if err != nil {
		return err
	}
	if s.opts.Given("app.url") && answers(ctx, s.cfg.App.URL) {
		return s.stranger()
	}
	return nil
}

// runBeside runs the sidecar, and the app if there is one, while Postgres runs.
func (s *server) runBeside(ctx context.Context, postgres *postgres) error {
	stopFollowing, err := s.console.follow(postgresSource(), postgres.log)
	if err != nil {
		return err
	}
	defer stopFollowing()
	log := s.console.writer(sidecarSource())
	defer log.flush()
	opts := app.Options{
		Logger: s.logger(log), Version: s.opts.Version, Stdout: log, AppStarted: s.opts.AppStarted, Hurry: s.opts.Hurry,
		Getenv: func(name string) string { return variable(s.opts.Environ, name) },
	}
	if len(s.opts.Command) == 0 {
		return app.RunSidecar(ctx, s.cfg, opts)
	}

	stdout, err := s.console.pipe(appSource())
	if err != nil {
		return err
	}
	stderr, err := s.console.pipe(appSource())
	if err != nil {
		return errors.Join(err, stdout.close())
	}
	opts.App = &supervise.Command{Args: s.opts.Command, Env: s.appEnv(postgres.dsn), Stdout: stdout.file, Stderr: stderr.file}
	hinted := s.hintIfSilent(ctx)
	err = app.RunSidecar(ctx, s.cfg, opts)
	hinted()
	if closeErr := errors.Join(stdout.close(), stderr.close()); closeErr != nil {
		return errors.Join(err, closeErr)
	}
	var exit *app.ExitError
	if ctx.Err() != nil && errors.As(err, &exit) && exit.Err == nil {
		return nil // how the app takes a SIGTERM is no failure here
	}
	return err
}

// logger logs for a person who watches: without the time, and without the level where it says nothing.
func (s *server) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.cfg.Log.Level)); err != nil {
		level = slog.LevelInfo // a valid configuration has one of the four names
	}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey && a.Value.Any() == slog.LevelInfo) {
			return slog.Attr{}
		}
		return a
	}}
	if s.cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// hintAfter is how long an app may take to come up before somebody asks why.
const hintAfter = 10 * time.Second

// hintIfSilent says what to look at when the app doesn't come up. The returned function ends that.
func (s *server) hintIfSilent(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for since := time.Now(); time.Since(since) < hintAfter; {
			if answers(ctx, s.cfg.App.URL) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		s.console.say(sidecarSource(), "nothing listens on %s so far: let the app listen on the port in PORT, or say where it does with --app-url", s.cfg.App.URL)
	}()
	return func() {
		cancel()
		<-done
	}
}
