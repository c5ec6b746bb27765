package metricsdoc

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDocs(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "metrics.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	metrics, err := All(t.Context())
	require.NoError(t, err)
	want, err := rewrite(string(page), metrics)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		page = []byte(want)
	}
	require.Equal(t, want, string(page), "docs/metrics.md is behind the code: run make generate")
}

func TestConventions(t *testing.T) {
	t.Parallel()
	metrics, err := All(t.Context())
	require.NoError(t, err)
	require.Greater(t, len(metrics), 60)
	for _, m := range metrics {
		require.True(t, strings.HasPrefix(m.Name, "sched_"), m.Name)
		require.NotEmpty(t, m.Help, m.Name)
		require.Equal(t, m.Type == "counter", strings.HasSuffix(m.Name, "_total"), "%s: counters, and only they, end in _total", m.Name)
		for _, unit := range []string{"_ms", "_milliseconds", "_minutes", "_percentage", "_kilobytes"} {
			require.NotContains(t, m.Name, unit, "%s: base units", m.Name)
		}
		require.NotContains(t, m.Labels, "le", m.Name)
	}
}

func TestNamedMetrics(t *testing.T) {
	t.Parallel()
	metrics, err := All(t.Context())
	require.NoError(t, err)
	labels := map[string][]string{}
	for _, m := range metrics {
		labels[m.Name] = m.Labels
	}
	require.Equal(t, []string{"pool_name", "state"}, labels["sched_worker_pool_workers_active"])
	require.Equal(t, []string{"kind", "outcome"}, labels["sched_worker_pool_task_duration_seconds"])
	require.Contains(t, labels, "sched_qps_prediction_error_ratio")
	require.Empty(t, labels["sched_qps_prediction_error_ratio"])
}

func TestWhatCannotBeDescribedIsNamed(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	r.MustRegister(prometheus.NewSummary(prometheus.SummaryOpts{Name: "odd", Help: "A summary."}))
	_, err := r.metrics()
	require.ErrorContains(t, err, "odd")
	_, err = rewrite("no marks", nil)
	require.ErrorIs(t, err, errMarks)
}
