package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/dev"
	"github.com/sched-sidecar/sched/internal/version"
)

// envDevDir names the data directory where --dir doesn't.
const envDevDir = "SCHED_DEV_DIR"

const devHelp = `Runs all that an app needs on one machine: a Postgres of its own with the schema
sched, a sidecar, and the app itself, whose command follows --. Their lines are
interleaved; Ctrl-C stops the sidecar, the app and Postgres, in this order, and a
second one without waiting. When the app ends by itself, so does the rest, with its exit code.

The app gets DATABASE_URL, SCHED_DATABASE_URL and PORT, where it is to listen.
Without a command it says what to do next, and waits for an app at app.url.

The data are kept for the project (the directory with .git) from run to run, and the
DSN stays the same while its port is free. It's for development: no backups, and
whoever may read the directory may log in as superuser.

Every flag and variable of "sched-sidecar run" works too, other than those of the
database. Without --port and the like, what is taken is replaced by what is free.

` + exitCodesHelp

// devOptions are the flags of `sched dev`.
type devOptions struct {
	dir       string
	ephemeral bool
	port      int
	printDSN  bool
}

func devCommand(environ []string) *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev [flags] [-- command [argument ...]]",
		Short: "Run Postgres, a sidecar and an app for development",
		Long:  devHelp,
		Args:  commandAfterDash,

		DisableFlagsInUseLine: true,
	}
	fs := cmd.Flags()
	fs.StringVar(&o.dir, "dir", "", "where to keep the data ("+envDevDir+"; default: a directory of the project's own in the user's state)")
	fs.BoolVar(&o.ephemeral, "ephemeral", false, "keep no data: a new database that is thrown away in the end")
	fs.IntVar(&o.port, "port", 0, "port of Postgres (default 54329, or another one if it is taken)")
	fs.BoolVar(&o.printDSN, "print-dsn", false, `print the DSN of the one that runs for this project: export DSN="$(sched dev --print-dsn)"`)
	config.AddFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		shown := []string{"dir", "ephemeral", "port", "print-dsn", "app-url", "admin-addr", "config"}
		f.Hidden = !slices.Contains(shown, f.Name)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.run(cmd, environ, args) }

	return cmd
}

func (o *devOptions) run(cmd *cobra.Command, environ, command []string) error {
	if cmd.Flags().Changed("database-url") || cmd.Flags().Changed("database-listen-url") {
		return &usageError{errors.New("dev: has a database of its own: for another one use sched migrate up and sched-sidecar run")}
	}
	dir, err := o.dataDir(environ)
	if err != nil {
		return err
	}
	if o.printDSN {
		if len(command) > 0 {
			return &usageError{errors.New("dev: --print-dsn runs no command")}
		}
		dsn, err := dev.RunningDSN(cmd.Context(), dir)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), dsn)

		return err
	}

	loaded, err := config.Load(config.Sources{Environ: without(environ, dev.DatabaseVariables()), Flags: cmd.Flags()})
	if err != nil {
		return err
	}
	ctx, stop := endsAtHangup(cmd.Context())
	defer stop()

	return dev.Run(ctx, dev.Options{
		Command: command, Environ: environ,
		Sidecar: loaded.Sidecar, Given: func(key string) bool { return loaded.Source(key) != "default" },
		Dir: dir, Ephemeral: o.ephemeral, Port: o.port,
		Stdout: cmd.OutOrStdout(), Colour: wantsColour(cmd.OutOrStdout(), environ),
		Version: version.Get().Version, Program: os.Args[0],
		Hurry: hurry(cmd.Context()), AppStarted: func(kill func()) { beforeExit(cmd.Context(), kill) },
	})
}

// dataDir is where the data are kept.
func (o *devOptions) dataDir(environ []string) (string, error) {
	getenv := lookup(environ)
	dir := o.dir
	if dir == "" {
		dir = getenv(envDevDir)
	}
	if dir != "" || o.ephemeral && !o.printDSN {
		return dir, nil
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}

	return dev.Place(here, getenv, os.Geteuid() == 0)
}

// lookup returns a function as os.Getenv.
func lookup(environ []string) func(string) string {
	return func(name string) string {
		for _, kv := range environ {
			if value, found := strings.CutPrefix(kv, name+"="); found {
				return value
			}
		}

		return ""
	}
}

// without returns the entries whose names are none of these.
func without(environ, names []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")

		return slices.Contains(names, name)
	})
}

// endsAtHangup returns a context that SIGHUP ends, too: the terminal was closed.
func endsAtHangup(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	hangups, stopSignals := passedOn(syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-hangups:
			cancel(&signalError{sig})
		case <-ctx.Done():
		}
	}()

	return ctx, func() {
		stopSignals()
		cancel(nil)
		<-done
	}
}

// wantsColour reports whether a stream is a terminal that shows colours, and a
// person hasn't asked for none.
func wantsColour(stream any, environ []string) bool {
	getenv := lookup(environ)
	file := fileOf(stream)

	return file != nil && term.IsTerminal(int(file.Fd())) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}
