package routing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/routing"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	const g, s, o = routing.Good, routing.Strained, routing.Overloaded
	for name, test := range map[string]struct {
		loads []float64
		want  []routing.Health
	}{
		"below":                  {[]float64{0, 70, 69}, []routing.Health{g, g, g}},
		"strained at once":       {[]float64{71, 66, 65}, []routing.Health{s, s, g}},
		"strained, not from 66":  {[]float64{66, 70}, []routing.Health{g, g}},
		"overloaded on three":    {[]float64{86, 90, 86, 86}, []routing.Health{s, s, o, o}},
		"not at 85":              {[]float64{85, 85, 85, 85}, []routing.Health{s, s, s, s}},
		"three in a row":         {[]float64{90, 90, 80, 90, 90, 90}, []routing.Health{s, s, s, s, s, o}},
		"three beats to come by": {[]float64{90, 90, 90, 80, 80, 80}, []routing.Health{s, s, o, o, o, s}},
		"or one that is calm":    {[]float64{90, 90, 90, 65}, []routing.Health{s, s, o, g}},
		"calm beats in a row":    {[]float64{90, 90, 90, 80, 80, 90, 80, 80, 80}, []routing.Health{s, s, o, o, o, o, o, o, s}},
	} {
		state := routing.HealthState{Health: g}
		for i, load := range test.loads {
			before := state.Health
			var reason string
			state, reason = state.Next(routing.Vitals{Seq: int64(i + 1), LoadPercent: load})
			require.Equal(t, test.want[i], state.Health, "%s, beat %d", name, i+1)
			require.Equal(t, before != state.Health, reason != "", "%s: a change has its reason, and nothing else", name)
			again, reason := state.Next(routing.Vitals{Seq: int64(i + 1), LoadPercent: 100})
			require.Equal(t, state, again, "the same beat again is no beat")
			require.Empty(t, reason)
		}
	}
}

func TestLoadOfAnApp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		app            routing.AppLoad
		percent, short float64
	}{
		"nothing known":                  {routing.AppLoad{}, 0, 0},
		"cpu":                            {routing.AppLoad{CPU: 0.97, Mem: 0.3}, 97, 30},
		"memory strains at most":         {routing.AppLoad{CPU: 0.5, Mem: 0.97}, 85, 97},
		"cpu that slots follow":          {routing.AppLoad{CPU: 1, Mem: 0.3, Sized: true}, 85, 30},
		"and that leaves headroom":       {routing.AppLoad{CPU: 0.6, Mem: 0.3, Sized: true}, 60, 30},
		"a report counts as it is":       {routing.AppLoad{CPU: 0.1, Mem: 0.1, Report: 96, Reported: true, Sized: true}, 96, 0},
		"and more than what is measured": {routing.AppLoad{CPU: 1, Mem: 1, Reported: true}, 0, 0},
	} {
		require.InDelta(t, test.percent, test.app.Percent(), 1e-9, name)
		require.InDelta(t, test.short, test.app.Short(), 1e-9, name)
	}
}

func TestHealthByRoundTrip(t *testing.T) {
	t.Parallel()
	state := routing.HealthState{Health: routing.Good}
	for i, test := range []struct {
		rtt  time.Duration
		want routing.Health
	}{
		{600 * time.Millisecond, routing.Good},
		{600 * time.Millisecond, routing.Good},
		{600 * time.Millisecond, routing.Strained},
		{500 * time.Millisecond, routing.Good},
		{600 * time.Millisecond, routing.Good},
	} {
		state, _ = state.Next(routing.Vitals{Seq: int64(i + 1), RoundTrip: test.rtt})
		require.Equal(t, test.want, state.Health, "beat %d", i+1)
	}
}
