package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/supervise"
)

const (
	// appGraceMax is the part of the shutdown grace that is kept for the command
	// to end after the sidecar; a quarter of a short grace, but a moment at least.
	appGraceMax = 5 * time.Second
	appGraceMin = time.Second
	// appGraceHurried is what is left of it for somebody in a hurry.
	appGraceHurried = 200 * time.Millisecond
)

// errAppEnded is why a run ended whose command ended by itself.
var errAppEnded = errors.New("the app ended by itself")

// ExitError is returned by [RunSidecar] for a process that should exit as its
// command did.
type ExitError struct {
	Code int   // not 0
	Err  error // what to say besides what was logged; nil: nothing
}

// Error says what happened.
func (e *ExitError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("the app ended with exit code %d", e.Code)
}

func (e *ExitError) Unwrap() error { return e.Err }

// runBesideApp runs the command and the sidecar, and ends both when one does.
func runBesideApp(ctx context.Context, cfg config.Sidecar, opts Options) error {
	warnOfStranger(ctx, cfg, opts)
	command := *opts.App
	command.Env = withAddress(command.Env, cfg.App)
	app, err := supervise.Start(command)
	if err != nil {
		var cause *supervise.StartError
		if errors.As(err, &cause) {
			return &ExitError{Code: cause.Code(), Err: err}
		}
		return err
	}
	opts.Logger.InfoContext(ctx, "app started", slog.Int("pid", app.Pid()), slog.String("command", command.Args[0]))
	opts.appPID = app.Pid()
	if opts.AppStarted != nil {
		opts.AppStarted(app.Kill)
	}

	run, end := context.WithCancelCause(ctx)
	defer end(nil)
	asked := make(chan time.Time, 1) // when the run ended
	stopClock := context.AfterFunc(run, func() { asked <- time.Now() })
	attended := attend(app, opts.AppSignals, func() { end(errAppEnded) })

	grace, appGrace := cfg.ShutdownGrace, appGraceOf(cfg.ShutdownGrace)
	cfg.ShutdownGrace = max(0, grace-appGrace)
	sidecarErr := runSidecar(run, cfg, opts)

	until := time.Now().Add(appGrace)
	if !stopClock() {
		if whole := (<-asked).Add(grace); whole.After(until) {
			until = whole
		}
	}
	byItself := errors.Is(context.Cause(run), errAppEnded)
	if run.Err() != nil && !opts.UntilEmpty && errors.Is(sidecarErr, context.Canceled) {
		sidecarErr = nil // it was still starting
	}
	if err := stopApp(ctx, app, until, opts); err != nil {
		return errors.Join(sidecarErr, err)
	}
	<-attended
	opts.Logger.InfoContext(ctx, "app ended", slog.String("how", app.Exit().String()), slog.Bool("by_itself", byItself))
	return exitOf(app.Exit().Code(), byItself, opts.UntilEmpty, sidecarErr)
}

// exitOf is the error of a run beside a command that ended with the code.
func exitOf(code int, byItself, untilEmpty bool, sidecarErr error) error {
	switch {
	case byItself && code != 0:
		return &ExitError{Code: code, Err: sidecarErr}
	case byItself && sidecarErr != nil:
		return &ExitError{Code: 1, Err: sidecarErr} // nobody else cancelled it
	case sidecarErr != nil || untilEmpty || code == 0:
		return sidecarErr // whether all tasks are done, not how the app takes a SIGTERM
	default:
		return &ExitError{Code: code}
	}
}

// stopApp ends the command and its descendants, asking them first.
func stopApp(ctx context.Context, app *supervise.Process, until time.Time, opts Options) error {
	stopCtx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	stopped, hurried := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(hurried)
		select {
		case <-stopped:
			return
		case <-opts.Hurry:
		}
		select {
		case <-stopped:
		case <-time.After(appGraceHurried):
			cancel()
		}
	}()
	defer func() {
		close(stopped)
		<-hurried
		cancel()
	}()
	select {
	case <-app.Done():
	default:
		opts.Logger.InfoContext(ctx, "stopping the app", slog.Int("pid", app.Pid()), slog.Duration("grace", time.Until(until).Round(time.Millisecond)))
	}
	err := app.Stop(stopCtx, syscall.SIGTERM)
	if stopCtx.Err() != nil {
		opts.Logger.WarnContext(ctx, "the app did not end in time and was killed")
	}
	return err
}

// attend passes signals on to the command until it ends, and says so. What it
// returns is closed after that.
func attend(app *supervise.Process, signals <-chan os.Signal, ended func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-app.Done():
				ended()
				return
			case sig := <-signals:
				app.Signal(sig)
			}
		}
	}()
	return done
}

func appGraceOf(grace time.Duration) time.Duration {
	return max(appGraceMin, min(appGraceMax, grace/4))
}

// warnOfStranger says that somebody answers at the app's URL before the command
// is started: it would get the tasks.
func warnOfStranger(ctx context.Context, cfg config.Sidecar, opts Options) {
	if cfg.App.Protocol != config.ProtocolHTTP {
		return // the app comes to the sidecar
	}
	dispatcher, err := newHTTP(cfg, opts)
	if err != nil {
		return // the sidecar says it
	}
	defer dispatcher.Close()
	if dispatcher.Probe(ctx) == nil {
		opts.Logger.WarnContext(ctx, "something answers at app.url already, before the app was started: it gets tasks until the app takes its place",
			slog.String("app", cfg.App.URL))
	}
}

// withAddress adds where the two meet, unless the environment has it: PORT, the
// port of the app's URL, or SCHED_TARGET, where the app opens its session.
func withAddress(environ []string, app config.App) []string {
	if environ == nil {
		environ = os.Environ()
	}
	name, value := "PORT", PortOf(app.URL)
	if app.Protocol == config.ProtocolGRPC {
		name, value = "SCHED_TARGET", app.Listen
	}
	if value == "" || slices.ContainsFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
		return environ
	}
	return append(slices.Clip(environ), name+"="+value)
}

// PortOf is the TCP port of the app's URL; empty for a Unix socket.
func PortOf(appURL string) string {
	u, err := url.Parse(appURL)
	if err != nil || u.Host == "" {
		return ""
	}
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "h2c": "80", "https": "443"}[u.Scheme]
}
