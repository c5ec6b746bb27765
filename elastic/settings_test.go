package elastic_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/elastic"
)

func TestProfilesAreValid(t *testing.T) {
	t.Parallel()
	for _, profile := range elastic.Profiles() {
		weights, ok := profile.Weights()
		require.True(t, ok)
		require.NoError(t, weights.Validate())
	}
	_, ok := elastic.Profile("fast").Weights()
	require.False(t, ok)
}

func TestJointScore(t *testing.T) {
	t.Parallel()
	weights, _ := elastic.ProfileDefault.Weights()
	tests := []struct {
		name     string
		cpu, mem float64
		pending  int
		want     elastic.Score
	}{
		{"nothing", 0, 0, 0, elastic.Score{}},
		{"all", 1, 1, 1000, elastic.Score{CPU: 0.4, Mem: 0.3, Pending: 0.3, Total: 1}},
		{"more than all waits", 0.5, 0.5, 5000, elastic.Score{CPU: 0.2, Mem: 0.15, Pending: 0.3, Total: 0.65}},
		{"no numbers", math.NaN(), -1, 500, elastic.Score{Pending: 0.15, Total: 0.15}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := weights.Joint(test.cpu, test.mem, test.pending)
			require.InDelta(t, test.want.CPU, got.CPU, 1e-9)
			require.InDelta(t, test.want.Mem, got.Mem, 1e-9)
			require.InDelta(t, test.want.Pending, got.Pending, 1e-9)
			require.InDelta(t, test.want.Total, got.Total, 1e-9)
		})
	}
}

func TestWeights(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		bad  string
	}{
		{"0.4/0.3/0.3", ""},
		{"1/0/0", ""},
		{"0.3334/0.3333/0.3333", ""},
		{"0.401/0.3/0.3", ""},
		{"0.402/0.3/0.3", "together they are 1.002"},
		{"0.3/0.3/0.3", "together they are 0.9"},
		{"-0.1/0.6/0.5", "each must be 0 to 1"},
		{"NaN/0.5/0.5", "each must be 0 to 1"},
		{"0.5/0.5", "three numbers"},
		{"a/b/c", "three numbers"},
		{"", "three numbers"},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			t.Parallel()
			_, err := elastic.ParseWeights(test.text)
			if test.bad == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.bad)
		})
	}
}

func TestParseSettings(t *testing.T) {
	t.Parallel()
	got, err := elastic.ParseSettings(map[string]string{"notify": "true"})
	require.NoError(t, err)
	require.Equal(t, elastic.DefaultSettings(), got)
	require.InDelta(t, 0.7, got.EffectiveAlpha(), 0)

	got, err = elastic.ParseSettings(map[string]string{
		"elastic_profile": `"realtime"`, "elastic_preset": `"steady"`, "elastic_threshold": "0.6", "elastic_min": "4",
		"elastic_cooldown_seconds": "2.5", "elastic_drain_seconds": "60", "elastic_weights": `"profile"`, "elastic_alpha": "0",
	})
	require.NoError(t, err)
	require.Equal(t, elastic.Settings{
		Profile: elastic.ProfileRealtime, Preset: elastic.PresetSteady, Threshold: 0.6, Min: 4,
		Cooldown: 2500 * time.Millisecond, Drain: time.Minute,
	}, got)
	require.InDelta(t, 0.2, got.EffectiveAlpha(), 0)
	require.Equal(t, elastic.Weights{CPU: 0.25, Mem: 0.25, Pending: 0.5}, got.EffectiveWeights())

	got, err = elastic.ParseSettings(map[string]string{"elastic_weights": `"0.1/0.2/0.7"`, "elastic_alpha": "0.35"})
	require.NoError(t, err)
	require.InDelta(t, 0.35, got.EffectiveAlpha(), 0)
	require.Equal(t, elastic.Weights{CPU: 0.1, Mem: 0.2, Pending: 0.7}, got.EffectiveWeights())

	for key, value := range map[string]string{
		"elastic_profile": `"fast"`, "elastic_weights": `"1/1/1"`, "elastic_preset": `"x"`, "elastic_alpha": "1.5", "elastic_threshold": "0",
		"elastic_min": "0", "elastic_cooldown_seconds": "0.5", "elastic_drain_seconds": "4000",
	} {
		got, err = elastic.ParseSettings(map[string]string{key: value})
		require.Error(t, err, key)
		require.Equal(t, elastic.DefaultSettings(), got)
	}
}
