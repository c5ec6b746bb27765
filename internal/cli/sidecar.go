package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/app"
	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/version"
)

// runFunc runs a sidecar until ctx ends.
type runFunc func(ctx context.Context, cfg config.Sidecar, opts app.Options) error

// Sidecar runs the command line of sched-sidecar and returns the exit code.
func Sidecar(p Process) int {
	return p.execute(sidecarCommand(p.Environ, runProgram))
}

// gcPercent is what GOGC is where nobody says: a sidecar has some MB alive, and Go's 100
// would have it collect many times a second while tasks flow.
const gcPercent = 200

// runProgram runs the sidecar of this process. What net/http says by itself, of an app
// that sends more than it announced for one, comes in the format of the log.
func runProgram(ctx context.Context, cfg config.Sidecar, opts app.Options) error {
	slog.SetDefault(opts.Logger)
	if opts.Getenv == nil || opts.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return app.RunSidecar(ctx, cfg, opts)
}

func sidecarCommand(environ []string, run runFunc) *cobra.Command {
	root := group("sched-sidecar", "Claims tasks from Postgres and delivers them to the app beside it",
		runCommand(environ, run),
		group("config", "Check or print the configuration", configCheckCommand(environ), configPrintCommand(environ)),
		versionCommand("sched-sidecar"),
	)
	root.Long = `sched-sidecar runs beside an app: it claims tasks from Postgres, delivers them to
the app, and records how each attempt ended.

Settings come from defaults, a YAML file, SCHED_* variables and flags; see
"sched-sidecar run --help" and docs/config.md.

` + exitCodesHelp

	return withVersion(root)
}

// withVersion gives a program the flag --version, which says what its command version does.
func withVersion(root *cobra.Command) *cobra.Command {
	root.Version = version.Get().String()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.Flags().Bool("version", false, "print which build this is") // cobra's own would also be -v

	return root
}

// newLogger returns the logger that the configuration asks for.
func newLogger(w io.Writer, cfg config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // a valid configuration has one of the four names
	}
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		opts.ReplaceAttr = durationsInWords
		return slog.New(slog.NewJSONHandler(w, opts))
	}

	return slog.New(slog.NewTextHandler(w, opts))
}

// durationsInWords writes a duration with its unit, as the text format does.
func durationsInWords(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func configCheckCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the configuration is valid, or all that is wrong with it",
		Args:  noArgs,
	}
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := config.Load(config.Sources{Environ: environ, Flags: cmd.Flags()})
		if err != nil {
			return err
		}
		from := "without a file"
		if loaded.File != "" {
			from = "with " + loaded.File
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "configuration is valid (%s)\n", from)

		return err
	}

	return cmd
}

func configPrintCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print every setting and where it comes from, secrets redacted",
		Args:  noArgs,
	}
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := config.Load(config.Sources{Environ: environ, Flags: cmd.Flags()})
		if err != nil {
			return err
		}
		var out strings.Builder
		if err := loaded.WriteYAML(&out); err != nil {
			return err
		}
		_, err = io.WriteString(cmd.OutOrStdout(), out.String())

		return err
	}

	return cmd
}

func versionCommand(program string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := version.Get()
			if asJSON {
				return newScreen(cmd, nil, true).object(struct {
					Program string `json:"program"`
					Version string `json:"version"`
					Commit  string `json:"commit"`
					Dirty   bool   `json:"dirty"`
					Go      string `json:"go"`
				}{program, info.Version, info.Commit, info.Dirty, info.Go})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", program, info)

			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object, for programs")

	return cmd
}
