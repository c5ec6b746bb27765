//go:build verify

package bench_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/bench"
)

// These scenarios take long, however short their runs.

func TestVerifyTimerFigures(t *testing.T) {
	t.Parallel()
	figures := smoke(t, bench.Timers)
	require.Greater(t, figures["timers.due.p50_ms"].Value, -1.0, "nothing starts early")
	require.GreaterOrEqual(t, figures["timers.due.p99_ms"].Value, figures["timers.due.p50_ms"].Value)
	require.Positive(t, figures["timers.river.p99_ms"].Value)
}

func TestVerifyBacklogFigures(t *testing.T) {
	t.Parallel()
	figures := smoke(t, bench.Backlog)
	for name := range documented(t) {
		if strings.HasPrefix(name, "backlog.") {
			require.Positive(t, figures[name].Value, name)
		}
	}
}

func TestVerifyElasticFigures(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("CPU time of other processes is read from /proc")
	}
	figures := smoke(t, bench.Elastic)
	for name := range documented(t) {
		if strings.HasPrefix(name, "elastic.") {
			require.Contains(t, figures, name)
		}
	}
	for _, name := range []string{"elastic.cpu_bound.vs_best_fixed", "elastic.downstream.vs_best_fixed", "elastic.cpu_bound.slots_per_core", "elastic.io_step.slot_seconds_vs_max"} {
		require.Positive(t, figures[name].Value, name)
	}
	require.LessOrEqual(t, figures["elastic.downstream.slots"].Value, 16.0)
	require.LessOrEqual(t, figures["elastic.io_step.arrival_share"].Value, 1.0)
	for _, exact := range []string{"elastic.pushback.attempts_spent", "elastic.resize.over_limit", "elastic.resize.interrupted"} {
		require.Zero(t, figures[exact].Value, exact)
	}
}

func TestVerifySeeFigures(t *testing.T) {
	t.Parallel()
	figures := smoke(t, bench.See)
	require.Positive(t, figures["see.tracing_1pct.vs_off"].Value)
	require.Positive(t, figures["see.metrics.vs_off"].Value)
}

func TestVerifyRoutingFigures(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("CPU time of other processes is read from /proc")
	}
	figures := smoke(t, bench.Routing)
	for name := range documented(t) {
		if strings.HasPrefix(name, "routing.") && name != "routing.workers1000.enqueue_ratio" { // of the enqueue scenario
			require.Contains(t, figures, name)
		}
	}
	require.Positive(t, figures["routing.paused_head.vs_clear"].Value)
	require.Positive(t, figures["routing.drain.vs_before"].Value)
	require.Positive(t, figures["routing.limits.vs_off"].Value)
	require.Less(t, figures["routing.least_loaded.spread"].Value, 1.0)
	require.Less(t, figures["routing.round_robin.spread"].Value, 2.0)
	require.GreaterOrEqual(t, figures["routing.wake.lost_delay_ms"].Value, 0.0)
}

func TestVerifyPeersFigures(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " isn't installed (Debian: apt-get install nodejs npm)")
		}
	}
	version, err := exec.CommandContext(t.Context(), "node", "-p", "parseInt(process.versions.node)").Output()
	require.NoError(t, err)
	if major, err := strconv.Atoi(strings.TrimSpace(string(version))); err != nil || major < 20 {
		t.Skipf("node is version %s, pg-boss needs 20", version)
	}
	figures := smoke(t, bench.Peers)
	for _, side := range []string{"river", "sched", "graphile_worker", "pg_boss"} {
		require.Positive(t, figures["peers."+side+".tasks_per_s"].Value, side)
	}
	for _, side := range []string{"sched", "graphile_worker", "pg_boss"} {
		require.Positive(t, figures["peers."+side+".vs_river"].Value, side)
	}
}
