package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/elastic"
	"github.com/sched-sidecar/sched/internal/bench"
	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/simulate"
)

// simulateOptions are the flags of sched simulate.
type simulateOptions struct {
	simulate.Config

	trace, pattern, app, model string
	interval                   int
	length                     time.Duration
	peak                       float64
	set                        []string
	svg                        string
	figures                    bool
	traces                     string
}

const tracesVariable = "SCHED_TRACES"

func simulateCommand(environ []string) *cobra.Command {
	o := simulateOptions{
		Config: simulate.Config{
			App: simulate.App{Service: 50 * time.Millisecond, Width: 2, MemPerTask: 0.005}, Workers: 1, Ceiling: 64, Seed: 1,
		},
		pattern: string(simulate.Steps), app: string(simulate.IO), model: string(simulate.EWMA), interval: 1, length: 30 * time.Minute,
		traces: lookup(environ)(tracesVariable),
	}
	cmd := &cobra.Command{
		Use: "simulate", Short: "Play load against the elastic controller on a virtual clock", Args: noArgs,
		Long: `Plays a load against a model of an app, with the decisions that sidecars take, and
against fixed slots and an autoscaler by use. No database is needed.

The load is a trace (CSV: timestamp,value) or a pattern. A trace's intervals are
compressed to --interval seconds each and its peak is scaled to --peak.`,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.trace, "trace", "", "file with the load (default: --pattern)")
	flags.IntVar(&o.interval, "interval", o.interval, "seconds that an interval of the trace becomes")
	flags.StringVar(&o.pattern, "pattern", o.pattern, "steps, ramps, bursts or daily")
	flags.DurationVar(&o.length, "length", o.length, "length of the pattern")
	flags.Float64Var(&o.peak, "peak", 400, "tasks a second at the peak, of the whole fleet")
	flags.Uint64Var(&o.Seed, "seed", o.Seed, "the same seed gives the same result")
	flags.StringVar(&o.app, "app", o.app, "what limits the app: io, cpu or downstream")
	flags.DurationVar(&o.App.Service, "service", o.App.Service, "that a task takes alone")
	flags.Float64Var(&o.App.Width, "width", o.App.Width, "cores of a cpu app, tasks at once of a downstream app")
	flags.Float64Var(&o.App.MemPerTask, "mem-per-task", o.App.MemPerTask, "part of its memory that a running task takes")
	flags.IntVar(&o.Workers, "workers", o.Workers, "workers of the fleet")
	flags.IntVar(&o.Ceiling, "ceiling", o.Ceiling, "ceiling of each")
	flags.StringVar(&o.model, "model", o.model, "forecast of the elastic policy: ewma, naive or holt")
	flags.StringArrayVar(&o.set, "set", nil, "setting as key=value, such as elastic_preset=fast; may be repeated")
	flags.StringVar(&o.svg, "svg", "", "draw it into this file")
	flags.BoolVar(&o.figures, "figures", false, "print how well the models forecast the traces, one JSON object a line")
	flags.StringVar(&o.traces, "traces", o.traces, "directory with the traces of --figures (default: $"+tracesVariable+")")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.complete(); err != nil {
			return &usageError{err}
		}
		if o.figures {
			return o.printFigures(cmd)
		}

		return o.play(cmd)
	}

	return cmd
}

// complete makes a configuration of the flags.
func (o *simulateOptions) complete() error {
	o.App.Kind, o.Model = simulate.Kind(o.app), simulate.Model(o.model)
	rows, err := settingRows(o.set)
	if err != nil {
		return err
	}
	if o.Settings, err = elastic.ParseSettings(rows); err != nil {
		return fmt.Errorf("--set: %w", err)
	}
	if o.interval < 1 || !(o.peak > 0) || o.length < time.Second {
		return errors.New("--interval and --length must be a second or more, --peak above 0")
	}
	if o.figures {
		return nil
	}
	if o.trace != "" {
		o.Load, err = readTrace(o.trace)
		o.Load = o.Load.Stretched(o.interval).Scaled(o.peak)
	} else {
		o.Load, err = simulate.Generate(simulate.Pattern(o.pattern), o.length, o.peak, o.Seed)
	}
	if err != nil {
		return err
	}

	return o.Validate()
}

// simulatedSettings are the settings that --set knows.
func simulatedSettings() []string {
	return []string{
		elastic.KeyProfile, elastic.KeyWeights, elastic.KeyPreset, elastic.KeyAlpha, elastic.KeyThreshold, elastic.KeyMin, elastic.KeyCooldown, elastic.KeyDrain,
	}
}

// settingRows are the entries of --set as rows of sched.setting have them, in JSON.
func settingRows(entries []string) (map[string]string, error) {
	rows := map[string]string{}
	for _, entry := range entries {
		key, value, ok := strings.Cut(entry, "=")
		if !ok {
			return nil, fmt.Errorf("--set %s: must be a setting=value", entry)
		}
		if known := simulatedSettings(); !slices.Contains(known, key) {
			advice := "it has: " + strings.Join(known, ", ")
			if near := config.Nearest(key, known); near != "" {
				advice = "did you mean " + near + "?"
			}
			return nil, fmt.Errorf("--set %s: there is no such setting; %s", entry, advice)
		}
		if !json.Valid([]byte(value)) {
			quoted, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			value = string(quoted)
		}
		rows[key] = value
	}

	return rows, nil
}

func readTrace(path string) (simulate.Load, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	load, err := simulate.ReadTrace(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	return load, nil
}

// play runs all policies and shows how they did.
func (o *simulateOptions) play(cmd *cobra.Command) error {
	results := make([]simulate.Result, 0, len(simulate.Policies()))
	for _, policy := range simulate.Policies() {
		r, err := simulate.Run(cmd.Context(), o.Config, policy)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	name := o.pattern
	if o.trace != "" {
		name = filepath.Base(o.trace)
	}
	title := fmt.Sprintf("%s, peak %.4g tasks/s, %s app, %s a task, %d x %d slots, %s", name, o.peak, o.App.Kind, o.App.Service, o.Workers, o.Ceiling,
		time.Duration(len(o.Load))*time.Second)
	writeSimulation(cmd.OutOrStdout(), title, results)
	if o.svg == "" {
		return nil
	}
	var b strings.Builder
	if err := simulate.WriteSVG(&b, title, results); err != nil {
		return err
	}

	return os.WriteFile(o.svg, []byte(b.String()), 0o644)
}

func writeSimulation(w io.Writer, title string, results []simulate.Result) {
	fmt.Fprintln(w, title)
	fmt.Fprintf(w, "%-10s %14s %10s %10s %10s %12s %8s %9s\n", "policy", "slot-seconds", "mean", "wait p50", "wait p99", "most backlog", "ended", "resizes")
	for _, r := range results {
		seconds := 0.0
		for _, p := range r.Points {
			seconds += p.Slots
		}
		fmt.Fprintf(w, "%-10s %14.0f %10.1f %10s %10s %12.0f %7.2f%% %9.0f\n", r.Policy, r.SlotSeconds, seconds/float64(len(r.Points)),
			r.WaitP50.Round(time.Millisecond), r.WaitP99.Round(time.Millisecond), r.BacklogMost, 100*r.Ended/max(r.Arrived, 1), r.Changes)
	}
}

// printFigures measures the models on all traces of a directory: how wrong they
// are, and what that means for slots and waits.
func (o *simulateOptions) printFigures(cmd *cobra.Command) error {
	files, err := filepath.Glob(filepath.Join(o.traces, "*.csv"))
	if err != nil {
		return err
	}
	if o.traces == "" || len(files) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "no traces: --traces or $%s says where they are\n", tracesVariable)

		return nil
	}
	alpha := o.Settings.EffectiveAlpha()
	fmt.Fprintf(cmd.ErrOrStderr(), "an interval of a trace is a second; alpha %.4g; slots and waits at a peak of %.4g tasks/s of %s each, %s app\n", alpha, o.peak, o.App.Service, o.App.Kind)
	out := json.NewEncoder(cmd.OutOrStdout())
	for _, file := range files {
		load, err := readTrace(file)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".csv")
		for _, model := range simulate.Models() {
			mase, err := simulate.MASE(model, alpha, load)
			if err != nil {
				return err
			}
			c := o.Config
			c.Model, c.Load = model, load.Scaled(o.peak)
			r, err := simulate.Run(cmd.Context(), c, simulate.Elastic)
			if err != nil {
				return err
			}
			prefix := "forecast." + name + "." + string(model) + "."
			for _, figure := range []bench.Figure{
				{Name: prefix + "mase", Value: mase, Unit: "ratio"},
				{Name: prefix + "slot_seconds", Value: r.SlotSeconds, Unit: "slot-s"},
				{Name: prefix + "wait_p99_ms", Value: float64(r.WaitP99.Milliseconds()), Unit: "ms"},
			} {
				figure.OK, figure.Rounds = true, 1
				if err := out.Encode(figure); err != nil {
					return err
				}
			}
		}
	}

	return nil
}
