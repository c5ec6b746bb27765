package histogram_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/histogram"
)

func TestOfHasClassicAndNativeBuckets(t *testing.T) {
	t.Parallel()
	h := prometheus.NewHistogram(histogram.Of("example_seconds", "An example.", []float64{1, 2}))
	h.Observe(1.5)
	var written dto.Metric
	require.NoError(t, h.Write(&written))
	require.Len(t, written.GetHistogram().GetBucket(), 2)
	require.NotEmpty(t, written.GetHistogram().GetPositiveSpan())
	require.Contains(t, h.Desc().String(), `"sched_example_seconds"`)
}
