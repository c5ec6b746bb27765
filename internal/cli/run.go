package cli

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sched-sidecar/sched/internal/app"
	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/supervise"
	"github.com/sched-sidecar/sched/internal/version"
)

const runHelp = `Runs the sidecar. SIGTERM or SIGINT drains it: it stops claiming, lets running
tasks finish for shutdown_grace, hands the rest back unspent, and exits with 0. A
second signal ends the grace: it hands back at once, and exits with 130 or 143.

With a command, that is the app, and both are one: it is started, nothing is
claimed before it answers, and after the sidecar has drained it gets SIGTERM, in
the end SIGKILL, with all it started. The run exits with its exit code, 128 and
the signal's number if a signal ended it. When it ends by itself the sidecar
drains, and the run exits with its code; nothing restarts it: that's for what runs
this, such as systemd or Kubernetes. SIGHUP, SIGUSR1 and SIGUSR2 are passed on to it.
PORT, where it is not set, is the port of app.url.

With --until-empty the run ends when no task is left that this sidecar could run:
none waits, runs anywhere or is to be retried. Tasks that somebody scheduled for
later and kinds that the app lacks are not waited for. It exits with 0 if all that
it ran succeeded, with 1 if a task was discarded, was refused by the app for good,
or was left behind because the app lacks its kind. See docs/run.md.

` + exitCodesHelp

func runCommand(environ []string, run runFunc) *cobra.Command {
	var untilEmpty bool
	cmd := &cobra.Command{
		Use:   "run [flags] [-- command [argument ...]]",
		Short: "Run the sidecar until SIGTERM or SIGINT, or beside a command until that ends",
		Long:  runHelp,
		Args:  commandAfterDash,

		DisableFlagsInUseLine: true,
	}
	config.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&untilEmpty, "until-empty", false, "end when no task is left that this sidecar could run; 1 if one failed for good")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		loaded, err := config.Load(config.Sources{Environ: environ, Flags: cmd.Flags()})
		if err != nil {
			return err
		}
		opts := app.Options{
			Logger:     newLogger(cmd.ErrOrStderr(), loaded.Sidecar.Log),
			Version:    version.Get().Version,
			Stdout:     cmd.OutOrStdout(),
			UntilEmpty: untilEmpty,
			Getenv:     func(name string) string { return variable(environ, name) },
		}
		opts.Hurry = hurry(cmd.Context())
		if len(args) > 0 {
			opts.App = &supervise.Command{
				Args: args, Env: environ,
				Stdin: inputFile(cmd.InOrStdin()), Stdout: fileOf(cmd.OutOrStdout()), Stderr: fileOf(cmd.ErrOrStderr()),
			}
			opts.AppStarted = func(kill func()) { beforeExit(cmd.Context(), kill) }
			signals, stop := passedOn(syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
			defer stop()
			opts.AppSignals = signals
		}

		return run(cmd.Context(), loaded.Sidecar, opts)
	}

	return cmd
}

// commandAfterDash takes arguments only as a command that follows "--", so that
// nobody's flags are taken for the command's.
func commandAfterDash(cmd *cobra.Command, args []string) error {
	before, dash := cmd.ArgsLenAtDash(), true
	if before < 0 {
		before, dash = len(args), false
	}
	switch {
	case before > 0:
		return &usageError{fmt.Errorf("%stakes a command after -- only, got %q before it: write %s -- node app.js; see %[3]s --help",
			pathBelowRoot(cmd), args[:before], cmd.CommandPath())}
	case dash && len(args) == 0:
		return &usageError{fmt.Errorf("%sthere is no command after --", pathBelowRoot(cmd))}
	default:
		return nil
	}
}

// passedOn returns a channel that gets the signals until stop. One that our own
// parent has had ignored, as nohup does, stays ignored by all.
func passedOn(signals ...os.Signal) (ch <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 8)
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}

	return c, func() { signal.Stop(c) }
}

// fileOf returns the file behind a reader or writer; nil when it is none.
func fileOf(stream any) *os.File {
	file, _ := stream.(*os.File)

	return file
}

// inputFile is fileOf for a command's standard input. It gets no terminal: in a
// process group of its own a read from there would stop it.
func inputFile(stream any) *os.File {
	file := fileOf(stream)
	if file == nil || term.IsTerminal(int(file.Fd())) {
		return nil
	}

	return file
}
