package elastic_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/elastic"
)

func anySettings() *rapid.Generator[elastic.Settings] {
	return rapid.Custom(func(t *rapid.T) elastic.Settings {
		s := elastic.Settings{
			Profile:   rapid.SampledFrom(elastic.Profiles()).Draw(t, "profile"),
			Preset:    rapid.SampledFrom(elastic.Presets()).Draw(t, "preset"),
			Threshold: rapid.Float64Range(0.05, 1).Draw(t, "threshold"),
			Min:       rapid.IntRange(1, 50).Draw(t, "min"),
			Cooldown:  time.Duration(rapid.IntRange(1, 60).Draw(t, "cooldown")) * time.Second,
			Drain:     time.Duration(rapid.IntRange(1, 60).Draw(t, "drain")) * time.Second,
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// anySample is a sample of any kind, with slots that are for the test to say.
func anySample() *rapid.Generator[elastic.Sample] {
	return rapid.Custom(func(t *rapid.T) elastic.Sample {
		return elastic.Sample{
			Ceiling:  rapid.IntRange(1, 5000).Draw(t, "ceiling"),
			Arrivals: rapid.Float64Range(0, 1e5).Draw(t, "arrivals"),
			Ended:    rapid.IntRange(0, 100000).Draw(t, "ended"),
			Service:  time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "service")),
			Pending:  rapid.IntRange(0, 2000).Draw(t, "pending"),
			Waiting:  rapid.IntRange(0, 5000).Draw(t, "waiting"),
			Running:  rapid.Float64Range(0, 5000).Draw(t, "running"),
			Peak:     rapid.IntRange(0, 5000).Draw(t, "peak"),
			CPU:      rapid.Float64Range(0, 1.2).Draw(t, "cpu"),
			Mem:      rapid.Float64Range(0, 1.2).Draw(t, "mem"),
			PushBack: rapid.SampledFrom([]int{0, 0, 0, 1, 1000}).Draw(t, "push-back"),
			AppDown:  rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "down"),
		}
	})
}

func TestAnyRunKeepsTheBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		settings := anySettings().Draw(t, "settings")
		c, at := elastic.NewController(settings), begin()
		slots := rapid.IntRange(0, 5000).Draw(t, "slots")
		ceiling := rapid.IntRange(1, 5000).Draw(t, "ceiling")
		least := min(settings.Min, ceiling)
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			at = at.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond)
			age := time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 10}).Draw(t, "age")) * time.Second
			s := anySample().Draw(t, "sample")
			s.Slots, s.Ceiling, s.At = slots, ceiling, at.Add(-age)
			d := c.Decide(at, s)
			before := min(slots, ceiling)
			require.LessOrEqual(t, d.Slots, ceiling)
			if acted := d.Reason != elastic.ReasonStale && d.Reason != elastic.ReasonFrozen; acted {
				require.GreaterOrEqual(t, d.Slots, min(least, max(2*before, 1)))
			}
			require.LessOrEqual(t, d.Slots, max(2*before, 1), "at most twice")
			require.True(t, slices.Contains(elastic.Reasons(), d.Reason))
			switch {
			case age > elastic.StaleAfter:
				require.Equal(t, elastic.ReasonStale, d.Reason)
				require.Equal(t, before, d.Slots)
			case s.AppDown:
				require.Equal(t, elastic.ReasonFrozen, d.Reason)
				require.Equal(t, before, d.Slots)
			case s.CPU >= elastic.Headroom || s.Mem >= elastic.Headroom:
				if before >= least && d.Reason != elastic.ReasonDemand { // what a trial gave up may come back
					require.LessOrEqual(t, d.Slots, before, "no growth without headroom")
				}
			}
			if d.Slots > before && before >= least {
				require.Contains(t, []elastic.Reason{elastic.ReasonDemand, elastic.ReasonJoint}, d.Reason)
			}
			slots = d.Slots
		}
	})
}

// Two controllers with the same past: the one with more to do has never fewer slots.
func TestMoreWorkNeverMeansFewerSlots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		settings := anySettings().Draw(t, "settings")
		a, b := elastic.NewController(settings), elastic.NewController(settings)
		at, slots, ceiling := begin(), rapid.IntRange(1, 500).Draw(t, "slots"), rapid.IntRange(1, 500).Draw(t, "ceiling")
		for range rapid.IntRange(0, 20).Draw(t, "past") {
			at = at.Add(time.Second)
			s := anySample().Draw(t, "sample")
			s.Slots, s.Ceiling, s.At = slots, ceiling, at
			slots = a.Decide(at, s).Slots
			require.Equal(t, slots, b.Decide(at, s).Slots, "the same samples, the same decisions")
		}
		at = at.Add(time.Second)
		less := anySample().Draw(t, "now")
		less.Slots, less.Ceiling, less.At = slots, ceiling, at
		more := less
		more.Arrivals += rapid.Float64Range(0, 1e5).Draw(t, "more arrivals")
		more.Waiting += rapid.IntRange(0, 1000).Draw(t, "more waiting")
		if less.Pending > 0 {
			more.Pending += rapid.IntRange(0, 1000).Draw(t, "more pending")
		}
		require.GreaterOrEqual(t, b.Decide(at, more).Slots, a.Decide(at, less).Slots)
	})
}

func TestScoreIsBoundedAndMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := anySettings().Draw(t, "settings").EffectiveWeights()
		cpu, mem := rapid.Float64().Draw(t, "cpu"), rapid.Float64().Draw(t, "mem")
		pending := rapid.IntRange(0, 1<<30).Draw(t, "pending")
		score := weights.Joint(cpu, mem, pending)
		require.GreaterOrEqual(t, score.Total, 0.0)
		require.LessOrEqual(t, score.Total, 1+1e-9)
		require.InDelta(t, score.Total, score.CPU+score.Mem+score.Pending, 1e-12)
		require.GreaterOrEqual(t, weights.Joint(cpu+0.1, mem, pending).Total, score.Total)
		require.GreaterOrEqual(t, weights.Joint(cpu, mem, pending+1).Total, score.Total)
	})
}
