package cli

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/bench"
)

// benchOptions are the flags of the bench commands.
type benchOptions struct {
	bench.Config

	json    bool
	sidecar string
	before  string
	svg     string
}

func benchCommand(environ []string) *cobra.Command {
	cmd := group("bench", "Measure the figures of docs/verify.md",
		benchScenario("drain", "Drain a backlog over each protocol, against River in the same rounds", func(cmd *cobra.Command, o *benchOptions) {
			addDrainFlags(cmd, o)
			cmd.Flags().StringVar(&o.Drain.Profile, "profile", "", "directory for CPU profile and statements of one round more over the first protocol")
		}, bench.Drain),
		benchScenario("latency", "From commit to start, task by task, against River in the same rounds", func(cmd *cobra.Command, o *benchOptions) {
			cmd.Flags().StringSliceVar(&o.Latency.Protocols, "protocol", o.Latency.Protocols, "between sidecar and app, each in all rounds: http, grpc")
			cmd.Flags().IntVar(&o.Latency.Rate, "rate", o.Latency.Rate, "tasks a second")
			cmd.Flags().DurationVar(&o.Latency.Duration, "duration", o.Latency.Duration, "length of a round")
		}, bench.Latency),
		benchScenario("governor", "Move the limit of running tasks under load", func(*cobra.Command, *benchOptions) {}, bench.Governor),
		benchScenario("idle", "What a sidecar without work costs", func(cmd *cobra.Command, o *benchOptions) {
			cmd.Flags().DurationVar(&o.Idle.Duration, "duration", o.Idle.Duration, "length of a round")
		}, bench.Idle),
		benchScenario("enqueue", "Enqueues beside bare INSERTs and beside River's, in the same rounds", func(cmd *cobra.Command, o *benchOptions) {
			cmd.Flags().IntSliceVar(&o.Enqueue.Connections, "connections", o.Enqueue.Connections, "numbers of connections to measure with")
			cmd.Flags().DurationVar(&o.Enqueue.Duration, "duration", o.Enqueue.Duration, "of each contender in a round")
		}, bench.Enqueue),
		benchScenario("routing", "How evenly work is spread, what a wake-up, an idle fleet and limits cost", addRoutingFlags, bench.Routing),
		benchScenario("timers", "How late tasks start that were enqueued for later, beside many that aren't due", func(cmd *cobra.Command, o *benchOptions) {
			cmd.Flags().IntVar(&o.Timers.Rate, "rate", o.Timers.Rate, "how many become due in a second")
			cmd.Flags().DurationVar(&o.Timers.Duration, "duration", o.Timers.Duration, "length of a round")
			cmd.Flags().IntVar(&o.Timers.Future, "future", o.Timers.Future, "tasks in the table that aren't due")
		}, bench.Timers),
		benchScenario("backlog", "Drains beside a million other rows, claims beside an open transaction", addBacklogFlags, bench.Backlog),
		benchScenario("elastic", "How slots follow what arrives and what an app bears, beside fixed ones", addElasticFlags, bench.Elastic),
		benchScenario("see", "What it costs to be watched", func(cmd *cobra.Command, o *benchOptions) {
			addDrainFlags(cmd, o)
			cmd.Flags().StringSliceVar(&o.See.Parts, "parts", o.See.Parts, "what to measure of it")
		}, bench.See),
		benchScenario("audit", "Each audit on an archive of millions of tasks", func(cmd *cobra.Command, o *benchOptions) {
			cmd.Flags().IntVar(&o.Audit.Rows, "rows", o.Audit.Rows, "archived tasks")
		}, bench.Audit),
		benchScenario("peers", "Drain a backlog by graphile-worker and pg-boss, against River in the same rounds", addBacklogSize, bench.Peers),
		benchScenario("all", "All of them", func(cmd *cobra.Command, o *benchOptions) {
			addDrainFlags(cmd, o)
			o.Peers.Optional = true
		}, bench.Scenarios()...),
	)
	cmd.AddCommand(benchWorker(bench.WorkerApp), benchWorker(bench.WorkerSession), benchWorker(bench.WorkerRiver), benchWorker(bench.WorkerFleet), benchSidecar(environ)) // hidden
	cmd.Long = `Measures, and holds what has a bound to it: exit code 1 when a figure falls short.
Without --dsn a Postgres server is started for it and removed afterwards; the
database variables of other commands are not read. With --dsn, databases named
sched_bench_* are made there and dropped again.`

	return cmd
}

func addDrainFlags(cmd *cobra.Command, o *benchOptions) {
	cmd.Flags().StringSliceVar(&o.Drain.Protocols, "protocol", o.Drain.Protocols, "between sidecar and app, each in all rounds: http, http-tcp, grpc, exec")
	addBacklogSize(cmd, o)
}

func addBacklogSize(cmd *cobra.Command, o *benchOptions) {
	cmd.Flags().IntVar(&o.Drain.Tasks, "tasks", o.Drain.Tasks, "tasks in the backlog that is drained")
	cmd.Flags().IntVar(&o.Drain.Slots, "slots", o.Drain.Slots, "tasks that the sidecar runs at once")
}

func addBacklogFlags(cmd *cobra.Command, o *benchOptions) {
	addDrainFlags(cmd, o)
	flags, set := cmd.Flags(), &o.Backlog
	flags.StringSliceVar(&set.Parts, "parts", set.Parts, "what to measure of it")
	flags.IntVar(&set.Rows, "rows", set.Rows, "rows in the table beside the backlog that is drained")
	flags.IntVar(&set.Rate, "rate", set.Rate, "tasks a second beside the open transaction")
	flags.DurationVar(&set.Baseline, "baseline", set.Baseline, "how long they come before it is opened")
	flags.DurationVar(&set.Pinned, "pinned", set.Pinned, "how long it stays open")
}

func addRoutingFlags(cmd *cobra.Command, o *benchOptions) {
	addDrainFlags(cmd, o)
	flags, set := cmd.Flags(), &o.Routing
	flags.StringSliceVar(&set.Parts, "parts", set.Parts, "what to measure of it")
	flags.DurationVar(&set.Duration, "duration", set.Duration, "how long tasks are paced where their spread is measured")
	flags.DurationVar(&set.FleetDuration, "fleet-duration", set.FleetDuration, "how long the idle fleet is watched")
	flags.IntVar(&set.Fleet, "fleet", set.Fleet, "sidecars of the idle fleet")
	flags.IntVar(&set.Idle, "idle", set.Idle, "idle sidecars where wake-ups are counted")
	flags.IntVar(&set.Enqueues, "enqueues", set.Enqueues, "tasks that wake them, in a round")
	flags.IntVar(&set.Backlog, "backlog", set.Backlog, "tasks that wait where the leader's look at them is timed")
	flags.IntVar(&set.Paused, "paused", set.Paused, "tasks of a paused kind at the head of a queue")
	flags.StringVar(&o.before, "before", "", "directory with sched and sched-sidecar of the release before (default: build it from the repository)")
}

func addElasticFlags(cmd *cobra.Command, o *benchOptions) {
	flags, set := cmd.Flags(), &o.Elastic
	flags.StringSliceVar(&set.Parts, "parts", set.Parts, "what to measure of it")
	flags.DurationVar(&set.Duration, "duration", set.Duration, "length of a run; fixed settings run for a third of it")
	flags.IntVar(&set.Ceiling, "ceiling", set.Ceiling, "slots at most, and those of the greatest fixed setting")
	flags.IntVar(&set.Cores, "cores", set.Cores, "cores that the app which computes may use (default half of the machine's)")
	flags.IntVar(&set.Resizes, "resizes", set.Resizes, "random resizes under load")
}

func benchScenario(use, short string, addFlags func(*cobra.Command, *benchOptions), scenarios ...bench.Scenario) *cobra.Command {
	o := benchOptions{Config: bench.DefaultConfig()}
	cmd := &cobra.Command{Use: use, Short: short, Args: noArgs}
	cmd.Flags().StringVar(&o.DSN, "dsn", "", "measure on this server (default: start one)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object a line instead of a table")
	cmd.Flags().IntVar(&o.Rounds, "rounds", o.Rounds, "rounds, of which the medians count")
	cmd.Flags().StringVar(&o.sidecar, "sidecar", "", "sched-sidecar to measure (default: the one beside this program, or this build)")
	cmd.Flags().StringVar(&o.svg, "svg", "", "draw the figures into this file, too")
	addFlags(cmd, &o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.Validate(); err != nil {
			return &usageError{err}
		}
		if err := o.findPrograms(); err != nil {
			return err
		}
		if dir := filepath.Dir(o.svg); !isDir(dir) {
			return &usageError{fmt.Errorf("--svg: there is no directory %s", dir)}
		}
		o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
		report := bench.NewReport(cmd.OutOrStdout(), cmd.ErrOrStderr(), o.json)
		if err := bench.Run(cmd.Context(), o.Config, report, scenarios...); err != nil {
			return err
		}
		if err := drawFigures(report, o.svg, cmd.CommandPath()); err != nil {
			return err
		}

		return report.Close()
	}

	return cmd
}

// drawFigures writes the chart of a run, if one is asked for.
func drawFigures(report *bench.Report, path, title string) error {
	if path == "" {
		return nil
	}
	var b bytes.Buffer
	if err := report.WriteSVG(&b, title); err != nil {
		return err
	}

	return os.WriteFile(path, b.Bytes(), 0o644)
}

// findPrograms says what the processes of a run are started with. Without a
// sched-sidecar this program is one itself: the same code, linked with more.
func (o *benchOptions) findPrograms() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	if err := o.findBefore(); err != nil {
		return err
	}
	o.Worker = []string{self, "bench"}
	if o.sidecar == "" {
		o.Sidecar = []string{self, "bench", "sidecar"}
		if beside := filepath.Join(filepath.Dir(self), "sched-sidecar"); isFile(beside) {
			o.Sidecar = []string{beside, "run"}
		}

		return nil
	}
	given, err := filepath.Abs(o.sidecar)
	if err != nil {
		return fmt.Errorf("--sidecar: %w", err)
	}
	if !isFile(given) {
		return &usageError{fmt.Errorf("--sidecar: there is no program %s", given)}
	}
	o.Sidecar = []string{given, "run"}

	return nil
}

// findBefore looks for the programs of the release before, if a directory is given.
func (o *benchOptions) findBefore() error {
	if o.before == "" {
		return nil
	}
	dir, err := filepath.Abs(o.before)
	if err != nil {
		return fmt.Errorf("--before: %w", err)
	}
	sched, sidecar := filepath.Join(dir, "sched"), filepath.Join(dir, "sched-sidecar")
	for _, program := range []string{sched, sidecar} {
		if !isFile(program) {
			return &usageError{fmt.Errorf("--before: there is no program %s", program)}
		}
	}
	o.Routing.Before = bench.Release{Sched: []string{sched}, Sidecar: []string{sidecar, "run"}}

	return nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)

	return err == nil && info.Mode().IsRegular()
}

func isDir(path string) bool {
	info, err := os.Stat(path)

	return err == nil && info.IsDir()
}

// benchWorker is a process of a run, started by this program itself.
func benchWorker(name string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.RunWorker(cmd.Context(), name, args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// benchSidecar is `sched-sidecar run` under another name.
func benchSidecar(environ []string) *cobra.Command {
	cmd := runCommand(environ, runProgram)
	cmd.Use = "sidecar"
	cmd.Hidden = true

	return cmd
}
