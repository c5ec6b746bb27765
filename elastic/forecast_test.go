package elastic_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/elastic"
)

func begin() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func TestForecastIsTheMovingAverage(t *testing.T) {
	t.Parallel()
	for _, preset := range elastic.Presets() {
		alpha, ok := preset.Alpha()
		require.True(t, ok)
		f := elastic.NewForecast(alpha)
		want := 0.0
		for i, rate := range []float64{50, 50, 400, 380, 0, 10} {
			if i == 0 {
				want = rate
			} else {
				want = alpha*rate + (1-alpha)*want
			}
			f.Observe(begin().Add(time.Duration(i)*time.Second), rate)
			require.InDelta(t, want, f.Value(), 1e-9)
		}
	}
}

func TestForecastWeighsByTime(t *testing.T) {
	t.Parallel()
	twice, once := elastic.NewForecast(0.5), elastic.NewForecast(0.5)
	for _, f := range []*elastic.Forecast{twice, once} {
		f.Observe(begin(), 100)
	}
	twice.Observe(begin().Add(time.Second), 20)
	twice.Observe(begin().Add(2*time.Second), 20)
	once.Observe(begin().Add(2*time.Second), 20)
	require.InDelta(t, twice.Value(), once.Value(), 1e-9)
	require.InDelta(t, 40, once.Value(), 1e-9)

	before := once.Value()
	once.Observe(begin().Add(2*time.Second), 1000) // the same moment again
	require.InDelta(t, before, once.Value(), 0)

	once.Observe(begin().Add(10*time.Minute), 7) // nothing of the window is left
	require.InDelta(t, 7, once.Value(), 0)
	require.InDelta(t, 0, once.ErrorRatio(), 0)
}

func TestErrorRatio(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		before, after float64
		want          float64
	}{
		{"right", 100, 100, 0},
		{"too little", 50, 100, 0.5},
		{"too much", 150, 100, -0.5},
		{"no traffic, none predicted", 0, 0, 0},
		{"no traffic, some predicted", 10, 0, -1},
		{"traffic out of nothing", 0, 10, 1},
		{"no number", 10, math.NaN(), -1},
		{"below zero", 10, -5, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := elastic.NewForecast(0.7)
			f.Observe(begin(), test.before)
			f.Observe(begin().Add(time.Second), test.after)
			require.InDelta(t, test.want, f.ErrorRatio(), 1e-9)
		})
	}
}

// observe feeds a rate each second and returns the refits and when they were.
func observe(f *elastic.Forecast, seconds int, rate func(second int) float64) (at []int, refits []elastic.Refit) {
	for i := range seconds {
		if refit, ok := f.Observe(begin().Add(time.Duration(i)*time.Second), rate(i)); ok {
			at, refits = append(at, i), append(refits, refit)
		}
	}
	return at, refits
}

func TestRefitAfterThreeBadMinutes(t *testing.T) {
	t.Parallel()
	// The rate jumps between two values: the less the last one counts, the better.
	jumpy := func(i int) float64 { return []float64{20, 180}[i%2] }
	f := elastic.NewForecast(0.9)
	at, refits := observe(f, 200, jumpy)
	require.Len(t, refits, 1)
	require.InDelta(t, 180, at[0], 2)
	require.InDelta(t, 0.9, refits[0].From, 1e-9)
	require.Less(t, refits[0].To, 0.2)
	require.Greater(t, refits[0].Error, elastic.RefitError)
	require.InDelta(t, refits[0].To, f.Alpha(), 0)
	require.InDelta(t, 100, f.Value(), 20)

	f.SetAlpha(0.9) // what was asked for all along: the fit stays
	require.InDelta(t, refits[0].To, f.Alpha(), 0)
	f.SetAlpha(0.6)
	require.InDelta(t, 0.6, f.Alpha(), 0)
}

func TestNoRefitWithoutNeed(t *testing.T) {
	t.Parallel()
	for name, rate := range map[string]func(int) float64{
		"even":    func(int) float64 { return 100 },
		"nothing": func(int) float64 { return 0 },
		"ramp":    func(i int) float64 { return float64(i) },
		"bad for two minutes, again and again": func(i int) float64 {
			if i%240 < 120 {
				return []float64{20, 180}[i%2]
			}
			return 100
		},
	} {
		_, refits := observe(elastic.NewForecast(0.7), 900, rate)
		require.Empty(t, refits, name)
	}
}

func TestForecastStaysWithinWhatCame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := elastic.NewForecast(rapid.Float64Range(0.01, 1).Draw(t, "alpha"))
		at, low, high := begin(), math.Inf(1), 0.0
		for range rapid.IntRange(1, 300).Draw(t, "n") {
			at = at.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
			rate := rapid.Float64Range(0, 1e6).Draw(t, "rate")
			low, high = min(low, rate), max(high, rate)
			f.Observe(at, rate)
			require.GreaterOrEqual(t, f.Value(), low-1e-6)
			require.LessOrEqual(t, f.Value(), high+1e-6)
			require.LessOrEqual(t, f.ErrorRatio(), 1.0)
		}
	})
}
