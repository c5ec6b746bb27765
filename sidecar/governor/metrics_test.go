package governor_test

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/sidecar/governor"
)

func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	cfg := config(pgtest.New(t), &dispatcherFunc{work: complete})
	_, err := governor.New(cfg)
	require.NoError(t, err)
	docs, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	described := make(chan *prometheus.Desc, 100)
	cfg.Registerer.(*prometheus.Registry).Describe(described)
	close(described)
	require.NotEmpty(t, described)
	for desc := range described {
		_, rest, _ := strings.Cut(desc.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		require.Contains(t, string(docs), "`"+name, "docs/metrics.md lacks %s", name)
	}
}
