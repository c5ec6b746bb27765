package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/app"
	"github.com/sched-sidecar/sched/internal/bench"
	"github.com/sched-sidecar/sched/internal/config"
	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/migrations"
)

// TestMain is also the processes of a run: its own binary with one of these
// arguments.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		pgtest.Main(m)
		return
	}
	if err := process(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func process(name string, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	_ = stop // not called: a signal may still be on its way when the end of standard input was quicker
	switch name {
	case "migrate":
		return migrations.Up(ctx, args[len(args)-1], migrations.Options{NoRoles: true})
	case "sidecar":
	default:
		return bench.RunWorker(ctx, name, args, os.Stdin, os.Stdout)
	}
	loaded, err := config.Load(config.Sources{Environ: os.Environ()})
	if err != nil {
		return err
	}
	return app.RunSidecar(ctx, loaded.Sidecar, app.Options{Logger: slog.New(slog.NewJSONHandler(os.Stderr, nil)), Getenv: os.Getenv})
}

// smoke runs scenarios at their smallest and returns the figures by name.
func smoke(t *testing.T, scenarios ...bench.Scenario) map[string]bench.Figure {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	set := bench.DefaultConfig()
	set.DSN = pgtest.DSN(pgtest.Empty(t))
	set.Worker, set.Sidecar = []string{self}, []string{self, "sidecar"}
	set.Rounds = 1
	set.Drain.Tasks, set.Drain.Slots = 300, 20
	set.Latency.Rate, set.Latency.Duration = 200, 250*time.Millisecond
	set.Governor = bench.GovernorConfig{Steps: []int{2, 8, 3}, Work: 5 * time.Millisecond, Dwell: 50 * time.Millisecond, Tasks: 3000}
	set.Idle = bench.IdleConfig{Duration: time.Second}
	set.Enqueue = bench.EnqueueConfig{Connections: []int{1, 2}, Duration: 50 * time.Millisecond}
	set.Routing = bench.RoutingConfig{
		Parts: bench.RoutingParts(), Slots: []int{2, 4}, Work: 200 * time.Millisecond, Duration: 2 * time.Second, Settle: time.Second,
		Idle: 2, Enqueues: 5, Busy: time.Second, Fleet: 3, FleetDuration: time.Second, Backlog: 500, Paused: 500,
		Before: bench.Release{Sched: []string{self}, Sidecar: []string{self, "sidecar"}},
	}
	set.Timers = bench.TimersConfig{Rate: 100, Duration: time.Second, Future: 200, Lead: 2 * time.Second}
	set.Backlog = bench.BacklogConfig{Parts: bench.BacklogParts(), Rows: 1000, Rate: 50, Baseline: time.Second, Pinned: time.Second}
	set.Audit = bench.AuditConfig{Rows: 1000}
	set.Elastic = bench.ElasticConfig{
		Parts: bench.ElasticParts(), Duration: 4 * time.Second, Ceiling: 16, Cores: 1,
		IOWork: 20 * time.Millisecond, Low: 20, High: 100, CPUWork: 5 * time.Millisecond, Width: 4, DownWork: 20 * time.Millisecond,
		Refuse: 2 * time.Second, Recover: 2 * time.Second, Excluded: 500 * time.Millisecond, Watch: 2 * time.Second,
		IOSweep: []int{16}, CPUSweep: []int{2}, DownSweep: []int{4}, Resizes: 20, Beats: 50,
	}
	var out, notes strings.Builder
	report := bench.NewReport(&out, &notes, true)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	require.NoError(t, bench.Run(ctx, set, report, scenarios...), "%s", &notes)
	if err := report.Close(); err != nil { // rates and shares of so short a run say nothing
		require.ErrorIs(t, err, bench.ErrFellShort)
	}
	figures, bounds := map[string]bench.Figure{}, map[string]string{}
	for line := range strings.Lines(out.String()) {
		var figure struct {
			bench.Figure

			Bound string `json:"bound"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &figure), line)
		require.NotContains(t, figures, figure.Name)
		figures[figure.Name], bounds[figure.Name] = figure.Figure, figure.Bound
	}
	requireDocumented(t, figures, bounds)
	require.Contains(t, notes.String(), "shared_buffers", "the limits in force are shown")
	return figures
}

func TestDrainFigures(t *testing.T) {
	t.Parallel()
	figures := smoke(t, bench.Drain)
	for _, name := range []string{"http", "grpc", "exec"} {
		name = "drain." + name
		require.Positive(t, figures[name+".vs_river"].Value, name)
		require.Positive(t, figures[name+".tasks_per_s"].Value, name)
	}
	require.Positive(t, figures["drain.river.tasks_per_s"].Value)
}

func TestLatencyFigures(t *testing.T) {
	t.Parallel()
	figures := smoke(t, bench.Latency)
	for _, side := range []string{"paced", "grpc", "river"} {
		p50, p99 := figures["latency."+side+".p50_ms"], figures["latency."+side+".p99_ms"]
		require.Equal(t, "ms", p50.Unit)
		require.GreaterOrEqual(t, p99.Value, p50.Value)
		require.Positive(t, p99.Value)
	}
}

func TestAuditFigures(t *testing.T) {
	t.Parallel()
	figures := smoke(t, bench.Audit)
	require.Positive(t, figures["see.audit.max_ms"].Value)
}

func TestGovernorFigures(t *testing.T) {
	t.Parallel()
	figures := smoke(t, bench.Governor)
	require.Contains(t, figures, "governor.resize.max_over_limit")
	require.Zero(t, figures["governor.resize.max_over_limit"].Value)
	require.Positive(t, figures["governor.resize.latency_ms"].Value)
	require.Positive(t, figures["governor.resize.shrink_ms"].Value)
}

func TestEnqueueFigures(t *testing.T) {
	t.Parallel()
	figures := smoke(t, bench.Enqueue)
	for _, name := range []string{
		"enqueue.sql.vs_insert", "enqueue.sql_busy.vs_insert", "enqueue.notify_always.vs_insert", "enqueue.pressure.vs_blind",
		"routing.workers1000.enqueue_ratio", "enqueue.single.vs_river", "enqueue.bulk.vs_river",
	} {
		require.Positive(t, figures[name].Value, name)
		require.Equal(t, "ratio", figures[name].Unit, name)
	}
}

func TestIdleFigures(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("memory and CPU time of other processes are read from /proc")
	}
	figures := smoke(t, bench.Idle)
	require.Positive(t, figures["idle.rss_mb"].Value)
	require.Less(t, figures["idle.rss_mb"].Value, 500.0)
	require.GreaterOrEqual(t, figures["idle.queries_per_s"].Value, 0.0)
	require.Contains(t, figures, "idle.cpu_share")
}
