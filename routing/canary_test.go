package routing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/routing"
)

func TestNextCanary(t *testing.T) {
	t.Parallel()
	rules := routing.CanaryRules{
		Steps: []float64{5, 15, 30, 50, 75, 100}, Hold: 3 * time.Minute, MaxP95: 15 * time.Millisecond, MaxErrorPoints: 0.1, MaxCPUPoints: 10, AbortErrorPercent: 0.5,
	}
	at := func(percent float64, since time.Duration) routing.CanaryState {
		return routing.CanaryState{Percent: percent, State: routing.CanaryRising, Since: since, Workers: 1}
	}
	track := func(attempts, errors int, p95 time.Duration, cpu float64) routing.Track {
		return routing.Track{Attempts: attempts, Errors: errors, P95: p95, CPU: cpu}
	}
	good := track(1000, 0, 100*time.Millisecond, 0.5)
	none := routing.Track{}
	long := 3 * time.Minute
	for name, test := range map[string]struct {
		state          routing.CanaryState
		canary, others routing.Track
		percent        float64
		to             string
		again          bool
		reason         string
	}{
		"the first step, at once":  {at(0, 0), none, none, 5, "rising", false, "the first step"},
		"held":                     {at(5, long-time.Second), good, good, 5, "rising", false, "the measures are good; held for 3m0s"},
		"the next":                 {at(5, long), good, good, 15, "rising", false, "the measures were good for 3m0s"},
		"from between":             {at(20, long), good, good, 30, "rising", false, "the measures were good for 3m0s"},
		"the last":                 {at(75, long), good, good, 100, "rising", false, "the measures were good for 3m0s"},
		"watched at all of it":     {at(100, long-time.Second), good, none, 100, "rising", false, "the measures are good; held for 3m0s"},
		"fails at all of it":       {at(100, 0), track(1000, 6, 100*time.Millisecond, 0.5), none, 0, "rolled_back", false, "6 of 1000 attempts failed on the canary: 0.60 %, above 0.5 %"},
		"slower, within bounds":    {at(5, long), track(1000, 0, 115*time.Millisecond, 0.5), good, 15, "rising", false, "the measures were good for 3m0s"},
		"slower":                   {at(5, long), track(1000, 0, 116*time.Millisecond, 0.5), good, 5, "rising", true, "the 95th percentiles of run time differ by 16ms, above 15ms: 116ms on the canary, 100ms on the others"},
		"faster by as much":        {at(5, long), track(1000, 0, 84*time.Millisecond, 0.5), good, 5, "rising", true, "the 95th percentiles of run time differ by 16ms, above 15ms: 84ms on the canary, 100ms on the others"},
		"more errors":              {at(5, long), track(1000, 2, 100*time.Millisecond, 0.5), good, 5, "rising", true, "the canary's error rate is 0.20 points higher, above 0.1: 0.20 % and 0.00 %"},
		"as many errors as others": {at(5, long), track(1000, 4, 100*time.Millisecond, 0.5), track(1000, 3, 100*time.Millisecond, 0.5), 15, "rising", false, "the measures were good for 3m0s"},
		"more cpu":                 {at(5, long), track(1000, 0, 100*time.Millisecond, 0.61), good, 5, "rising", true, "the canary's cpu is 11.0 points higher, above 10: 61.0 % and 50.0 %"},
		"less cpu":                 {at(5, long), track(1000, 0, 100*time.Millisecond, 0.1), good, 15, "rising", false, "the measures were good for 3m0s"},
		"errors above the limit":   {at(50, 0), track(1000, 6, 100*time.Millisecond, 0.5), good, 0, "rolled_back", false, "6 of 1000 attempts failed on the canary: 0.60 %, above 0.5 %"},
		"at the limit":             {at(50, long), track(1000, 5, 100*time.Millisecond, 0.5), track(1000, 5, 100*time.Millisecond, 0.5), 75, "rising", false, "the measures were good for 3m0s"},
		"few, but they fail":       {at(5, 0), track(3, 3, 0, 0), none, 0, "rolled_back", false, "3 of 3 attempts failed on the canary: 100.00 %, above 0.5 %"},
		"one failed of few":        {at(5, long), track(5, 1, 0, 0), good, 5, "rising", false, "too few attempts ended on the canary to go on: 5 of 20"},
		"too few on the others":    {at(5, long), good, track(19, 0, 0, 0), 5, "rising", false, "too few attempts ended on the others to compare: 19 of 20"},
		"no worker":                {routing.CanaryState{Percent: 5, State: "rising", Since: long}, good, good, 5, "rising", true, "no canary worker is assigned: all tasks go to the others"},
		"no worker, at the start":  {routing.CanaryState{State: "rising"}, none, none, 0, "rising", true, "no canary worker is assigned: all tasks go to the others"},
		"no worker, but it failed": {routing.CanaryState{Percent: 5, State: "rising"}, track(20, 20, 0, 0), good, 0, "rolled_back", false, "20 of 20 attempts failed on the canary: 100.00 %, above 0.5 %"},
		"held by an operator":      {routing.CanaryState{Percent: 5, State: "held", Since: long, Workers: 1}, track(100, 100, 0, 0), good, 5, "held", false, ""},
		"rolled back stays so":     {routing.CanaryState{State: "rolled_back", Since: long, Workers: 1}, good, good, 0, "rolled_back", false, ""},
		"off":                      {routing.CanaryState{State: "off", Workers: 1}, none, none, 0, "off", false, ""},
		"all of it":                {at(100, long), good, none, 100, "full", false, "the measures were good for 3m0s"},
	} {
		require.Equal(t, routing.CanaryStep{Percent: test.percent, State: test.to, Again: test.again, Reason: test.reason},
			routing.NextCanary(rules, test.state, test.canary, test.others), name)
	}
}

func TestCanaryRisesThroughItsSteps(t *testing.T) {
	t.Parallel()
	rules := routing.CanaryRules{Steps: []float64{50, 10}, Hold: time.Second, MaxP95: time.Second, MaxErrorPoints: 1, MaxCPUPoints: 10, AbortErrorPercent: 5}
	good := routing.Track{Attempts: 100}
	state := routing.CanaryState{State: routing.CanaryRising, Workers: 1, Since: time.Second}
	var through []float64
	for range 5 {
		step := routing.NextCanary(rules, state, good, good)
		if step.Percent != state.Percent {
			through = append(through, step.Percent)
		}
		state.Percent, state.State = step.Percent, step.State
	}
	require.Equal(t, []float64{10, 50, 100}, through, "whatever their order, and to the end")
	require.Equal(t, routing.CanaryFull, state.State)
}
