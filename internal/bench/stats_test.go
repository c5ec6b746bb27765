package bench

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 2, median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 3, 2}), 0)
	require.InDelta(t, 7, median([]float64{7}), 0)
	require.True(t, math.IsNaN(median(nil)))
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	require.InDelta(t, 50, percentile(hundred, 0.5), 0)
	require.InDelta(t, 99, percentile(hundred, 0.99), 0)
	require.InDelta(t, 100, percentile(hundred, 1), 0)
	require.InDelta(t, 1, percentile(hundred, 0.001), 0)
	require.InDelta(t, 5, percentile([]float64{5}, 0.99), 0)
	require.True(t, math.IsNaN(percentile(nil, 0.5)))
}

func TestPercentileCoversItsShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 50).Draw(t, "values")
		p := rapid.Float64Range(0.01, 1).Draw(t, "p")
		before := slices.Clone(values)
		got := percentile(values, p)
		require.Equal(t, before, values, "the values stay as they were")
		require.Contains(t, values, got)
		covered := 0
		for _, v := range values {
			if v <= got {
				covered++
			}
		}
		require.GreaterOrEqual(t, float64(covered), p*float64(len(values)))
	})
}

func TestRatiosCompareRoundByRound(t *testing.T) {
	t.Parallel()
	at := func(rate float64) drained { return drained{seconds: 1, tasks: rate} }
	ours, theirs := []drained{at(5), at(1), at(50)}, []drained{at(10), at(2), at(80)}
	require.InDelta(t, 0.5, median(ratios(ours, theirs)), 1e-9)
}

func TestMedianOfRounds(t *testing.T) {
	t.Parallel()
	rounds := []drained{{seconds: 2, tasks: 10}, {seconds: 1, tasks: 10}, {seconds: 5, tasks: 10}}
	require.InDelta(t, 5, medianOf(rounds, drained.rate), 0)
}
