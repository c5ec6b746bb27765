package mainjob_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// metric sums a metric's samples whose labels contain all the given ones
// (`name="value"`). A metric without samples is 0.
func (s *sidecar) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	status, body := s.get(t, "/metrics")
	require.Equal(t, http.StatusOK, status)
	total := 0.0
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		series := line[:max(0, strings.LastIndexByte(line, ' '))]
		if (series != name && !strings.HasPrefix(series, name+"{")) || !containsAll(series, labels) {
			continue
		}
		sample, err := strconv.ParseFloat(line[len(series)+1:], 64)
		require.NoErrorf(t, err, "metric %s", line)
		total += sample
	}
	return total
}

// awaitLeading waits until the sidecar leads its fleet.
func (s *sidecar) awaitLeading(t *testing.T) {
	t.Helper()
	eventually(t, leaderless, func() bool { return s.metric(t, metricLeading) == 1 }, func() string { return "it doesn't lead" })
}

func containsAll(s string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

// The sidecar's metrics that the tests look at.
const (
	metricRefused      = "sched_settles_refused_total"
	metricReplayed     = "sched_settles_replayed_total"
	metricRunning      = "sched_tasks_running"
	metricFences       = "sched_fences_total"
	metricLeading      = "sched_leading"
	metricSkippedKinds = "sched_kinds_skipped"
)
