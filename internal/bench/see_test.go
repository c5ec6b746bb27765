package bench_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/bench"
)

func TestSeeFigures(t *testing.T) {
	t.Parallel()
	figures := smoke(t, bench.See)
	require.Positive(t, figures["see.tracing_1pct.vs_off"].Value)
	require.Positive(t, figures["see.metrics.vs_off"].Value)
}
