package elastic_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/elastic"
)

func TestArrivals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		claimed, seconds float64
		before, now      elastic.Backlogs
		want             float64
	}{
		"claims alone":                   {30, 2, nil, elastic.Backlogs{"a": {1, 500}}, 15},
		"none waited":                    {10, 1, elastic.Backlogs{}, elastic.Backlogs{"a": {0.5, 40}}, 30},
		"its share of what a queue grew": {10, 1, elastic.Backlogs{"a": {0.25, 100}}, elastic.Backlogs{"a": {0.25, 180}}, 30},
		"of what it shrank":              {50, 1, elastic.Backlogs{"a": {0.25, 100}}, elastic.Backlogs{"a": {0.25, 20}}, 30},
		"a share that grew is none":      {10, 1, elastic.Backlogs{"a": {0.1, 1000}}, elastic.Backlogs{"a": {0.9, 1000}}, 10},
		"nor is one that shrank":         {10, 1, elastic.Backlogs{"a": {0.9, 1000}}, elastic.Backlogs{"a": {0.1, 1000}}, 10},
		"each queue by its own share":    {0, 1, elastic.Backlogs{"a": {0.1, 0}, "b": {0.9, 50}}, elastic.Backlogs{"a": {0.1, 100}, "b": {0.9, 45}}, 5.5},
		"one that was emptied":           {50, 1, elastic.Backlogs{"a": {0.5, 60}}, elastic.Backlogs{}, 20},
		"never fewer than none":          {0, 1, elastic.Backlogs{"a": {1, 60}}, elastic.Backlogs{}, 0},
	} {
		require.InDelta(t, test.want, elastic.Arrivals(test.claimed, test.seconds, test.before, test.now), 1e-9, name)
	}
	b := elastic.Backlogs{"a": {0.25, 100}, "b": {1, 7}}
	require.InDelta(t, 32, b.Pending(), 1e-9)
	require.InDelta(t, 107, b.Waiting(), 1e-9)
}
