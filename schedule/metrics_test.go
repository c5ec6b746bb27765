package schedule_test

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	described := make(chan *prometheus.Desc, 10)
	newLeader(t).registry.Describe(described)
	close(described)
	require.NotEmpty(t, described)
	for desc := range described {
		_, rest, _ := strings.Cut(desc.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		require.Contains(t, string(docs), "`"+name, "docs/metrics.md lacks %s", name)
	}
}
