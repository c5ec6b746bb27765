package bench

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBoundsHoldAtTheirLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		bound Bound
		value float64
		want  bool
	}{
		{AtMost(0), 0, true},
		{AtMost(0), 1, false},
		{AtMost(2.5), -3, true},
		{AtLeast(1.4), 1.4, true},
		{AtLeast(1.4), 1.399, false},
		{AtLeast(1.4), 1.39999, true}, // shown as 1.4
		{Bound{}, -1, true},
		{Bound{}, math.NaN(), false},
		{AtMost(1), math.NaN(), false},
		{AtLeast(1), math.NaN(), false},
	}
	for _, tt := range tests {
		require.Equalf(t, tt.want, newFigure("f", tt.value, "u", tt.bound, 1).OK, "%v %s", tt.value, tt.bound)
	}
}

func TestFigureIsOneJSONObject(t *testing.T) {
	t.Parallel()
	tests := []struct {
		figure Figure
		want   string
	}{
		{
			newFigure("drain.grpc.vs_river", 1.42, "ratio", AtLeast(1.4), 5),
			`{"figure":"drain.grpc.vs_river","value":1.42,"unit":"ratio","bound":">= 1.4","ok":true,"rounds":5}`,
		},
		{
			newFigure("governor.resize.max_over_limit", 3, "tasks", AtMost(0), 3),
			`{"figure":"governor.resize.max_over_limit","value":3,"unit":"tasks","bound":"<= 0","ok":false,"rounds":3}`,
		},
		{
			newFigure("idle.rss_mb", 19.4699, "MB", Bound{}, 1),
			`{"figure":"idle.rss_mb","value":19.47,"unit":"MB","bound":"reported","ok":true,"rounds":1}`,
		},
	}
	for _, tt := range tests {
		got, err := json.Marshal(tt.figure)
		require.NoError(t, err)
		require.JSONEq(t, tt.want, string(got))
	}
}

func TestShownKeepsWhatAMeasurementCanTell(t *testing.T) {
	t.Parallel()
	tests := []struct{ value, want float64 }{
		{18234.56, 18235},
		{999.96, 1000},
		{123.456, 123.5},
		{0.0123456, 0.01235},
		{-1.23456, -1.235},
		{0, 0},
	}
	for _, tt := range tests {
		require.InDelta(t, tt.want, shown(tt.value), 1e-12)
	}
	require.True(t, math.IsNaN(shown(math.NaN())))
}
