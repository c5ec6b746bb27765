package elastic_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/elastic"
)

// steps feeds a controller samples of a second each, from the one given, and
// returns the last decision. Slots follow the decisions.
func steps(c *elastic.Controller, at *time.Time, s *elastic.Sample, n int) elastic.Decision {
	var d elastic.Decision
	for range n {
		*at = at.Add(time.Second)
		s.At = *at
		d = c.Decide(*at, *s)
		s.Slots = d.Slots
	}
	return d
}

// busy is a worker with 20 slots that 400 tasks of 50 ms a second keep busy.
func busy() elastic.Sample {
	return elastic.Sample{Slots: 20, Ceiling: 64, Arrivals: 400, Ended: 400, Service: 50 * time.Millisecond, Running: 20, Peak: 20, CPU: 0.3, Mem: 0.3}
}

func TestFirstDecision(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*elastic.Sample)
		slots  int
		reason elastic.Reason
	}{
		{"demand and a reserve", func(*elastic.Sample) {}, 29, elastic.ReasonDemand}, // 20 + 2√20
		{"backlog", func(s *elastic.Sample) { s.Pending, s.Waiting = 500, 500 }, 35, elastic.ReasonDemand},
		{"backlog that waits for something else", func(s *elastic.Sample) { s.Pending, s.Peak, s.Slots = 500, 20, 29 }, 29, elastic.ReasonHold},
		{"at most twice", func(s *elastic.Sample) { s.Slots, s.Running, s.Peak = 4, 4, 4 }, 8, elastic.ReasonDemand},
		{"from nothing", func(s *elastic.Sample) { s.Slots, s.Running, s.Peak = 0, 0, 0 }, 1, elastic.ReasonDemand},
		{"at most the ceiling", func(s *elastic.Sample) { s.Ceiling = 24 }, 24, elastic.ReasonDemand},
		{"at the ceiling", func(s *elastic.Sample) { s.Ceiling = 20 }, 20, elastic.ReasonHold},
		{"above the ceiling", func(s *elastic.Sample) { s.Ceiling = 10 }, 10, elastic.ReasonHold},
		{"no cpu left", func(s *elastic.Sample) { s.CPU = 0.85 }, 20, elastic.ReasonHold},
		{"no memory left", func(s *elastic.Sample) { s.Mem = 0.85 }, 20, elastic.ReasonHold},
		{"memory runs out", func(s *elastic.Sample) { s.Mem = 0.96 }, 18, elastic.ReasonShed},
		{"push-back", func(s *elastic.Sample) { s.Ended, s.PushBack = 200, 200 }, 15, elastic.ReasonPushBack},
		{"nothing but push-back", func(s *elastic.Sample) { s.Ended, s.PushBack = 0, 400 }, 10, elastic.ReasonPushBack},
		{"hardly any push-back", func(s *elastic.Sample) { s.PushBack = 4 }, 29, elastic.ReasonDemand},
		{"app down", func(s *elastic.Sample) { s.AppDown, s.Mem = true, 1 }, 20, elastic.ReasonFrozen},
		{"fewer would do", func(s *elastic.Sample) { s.Slots = 60 }, 60, elastic.ReasonCooldown},
		{"nothing has ended", func(s *elastic.Sample) { s.Ended, s.Service, s.Pending = 0, 0, 100 }, 40, elastic.ReasonDemand},
		{"below the least", func(s *elastic.Sample) { *s = elastic.Sample{Slots: 1, Ceiling: 64} }, 2, elastic.ReasonDemand},
		{"nothing to do", func(s *elastic.Sample) { *s = elastic.Sample{Slots: 2, Ceiling: 64} }, 2, elastic.ReasonHold},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, at, s := elastic.NewController(elastic.DefaultSettings()), begin(), busy()
			test.change(&s)
			d := steps(c, &at, &s, 1)
			require.Equal(t, test.slots, d.Slots, d.Detail)
			require.Equal(t, test.reason, d.Reason, d.Detail)
		})
	}
}

func TestStaleSamplesAreNotActedOn(t *testing.T) {
	t.Parallel()
	c, s := elastic.NewController(elastic.DefaultSettings()), busy()
	s.At = begin()
	d := c.Decide(begin().Add(elastic.StaleAfter+time.Millisecond), s)
	require.Equal(t, 20, d.Slots)
	require.Equal(t, elastic.ReasonStale, d.Reason)
	require.Zero(t, d.Forecast, "nor learned from")

	at := begin().Add(time.Minute)
	require.Equal(t, elastic.ReasonDemand, steps(c, &at, &s, 1).Reason)
	s.Slots = 20
	again := c.Decide(at, s)
	require.Equal(t, elastic.ReasonStale, again.Reason, "it was there before")
	require.Equal(t, 20, again.Slots)
}

func TestJointScoreDecides(t *testing.T) {
	t.Parallel()
	// Enough slots for what arrives, much time for the backlog: demand asks for nothing.
	sample := elastic.Sample{
		Slots: 4, Ceiling: 64, Arrivals: 20, Ended: 20, Service: 50 * time.Millisecond, Running: 4, Peak: 4,
		Pending: 1000, Waiting: 1000, CPU: 0.6, Mem: 0.5,
	}
	for profile, grows := range map[elastic.Profile]bool{
		elastic.ProfileRealtime: true, elastic.ProfileDefault: false, elastic.ProfileCompute: false, elastic.ProfileMemory: false,
	} {
		settings := elastic.DefaultSettings()
		settings.Profile, settings.Drain = profile, time.Hour
		c, at, s := elastic.NewController(settings), begin(), sample
		d := steps(c, &at, &s, 1)
		require.LessOrEqual(t, d.Want, 4)
		require.False(t, d.ScaleOut)
		if grows {
			require.Equal(t, elastic.ReasonJoint, d.Reason)
			require.Equal(t, 5, d.Slots)
			settings.Profile = elastic.ProfileDefault
			c.Set(settings)
			require.NotEqual(t, elastic.ReasonJoint, steps(c, &at, &s, 1).Reason, "hot")
			continue
		}
		require.Equal(t, 4, d.Slots, profile)
		require.NotEqual(t, elastic.ReasonJoint, d.Reason)
	}
}

func TestScaleOut(t *testing.T) {
	t.Parallel()
	c, at, s := elastic.NewController(elastic.DefaultSettings()), begin(), busy()
	s.CPU, s.Mem, s.Pending, s.Waiting = 0.9, 0.7, 1000, 1000
	d := steps(c, &at, &s, 1)
	require.Equal(t, 20, d.Slots)
	require.Equal(t, elastic.ReasonHold, d.Reason)
	require.True(t, d.ScaleOut)
	require.InDelta(t, 0.36+0.21+0.3, d.Score.Total, 1e-9)
}

func TestShrinkIsGentleAndLate(t *testing.T) {
	t.Parallel()
	c, at, s := elastic.NewController(elastic.DefaultSettings()), begin(), busy()
	require.Equal(t, 29, steps(c, &at, &s, 3).Slots)
	s.Arrivals, s.Ended, s.Running, s.Peak = 50, 50, 2.5, 5
	for range 9 {
		require.Equal(t, 29, steps(c, &at, &s, 1).Slots)
	}
	last := 29
	for range 30 {
		d := steps(c, &at, &s, 1)
		require.LessOrEqual(t, last-d.Slots, max(1, last/8))
		require.LessOrEqual(t, d.Slots, last)
		last = d.Slots
	}
	require.Equal(t, 6, last) // 2.5 + 2√2.5

	s.Arrivals, s.Ended, s.Running, s.Peak = 0, 0, 0, 0
	require.Equal(t, 2, steps(c, &at, &s, 90).Slots, "idle: the least")
}

func TestPushBackEndsWell(t *testing.T) {
	t.Parallel()
	c, at, s := elastic.NewController(elastic.DefaultSettings()), begin(), busy()
	before := steps(c, &at, &s, 5).Slots
	require.Equal(t, 29, before)

	// The app turns everything down, each second a burst of it, for ten seconds.
	s.Ended, s.Service, s.Running = 0, 0, 0
	for range 5 {
		s.PushBack, s.Peak = s.Slots, s.Slots
		require.Equal(t, elastic.ReasonPushBack, steps(c, &at, &s, 1).Reason)
		s.PushBack, s.Peak, s.Pending = 0, 0, s.Pending+800
		require.Equal(t, elastic.ReasonPushBack, steps(c, &at, &s, 1).Reason, "no growth between two of them")
	}
	require.LessOrEqual(t, s.Slots, before/4)
	require.GreaterOrEqual(t, s.Slots, before/8)

	// It takes tasks again.
	for range 10 {
		s.Ended, s.Service, s.Running, s.Peak = 20*s.Slots, 50*time.Millisecond, float64(s.Slots), s.Slots
		s.Pending = max(0, s.Pending+400-s.Ended)
		steps(c, &at, &s, 1)
	}
	require.GreaterOrEqual(t, s.Slots, before*8/10)
}

func TestFreezeKeepsWhatWas(t *testing.T) {
	t.Parallel()
	c, at, s := elastic.NewController(elastic.DefaultSettings()), begin(), busy()
	steps(c, &at, &s, 20)
	s.AppDown, s.Arrivals, s.Ended, s.Running, s.Peak = true, 0, 0, 0, 0
	d := steps(c, &at, &s, 60)
	require.Equal(t, 29, d.Slots)
	require.InDelta(t, 400, d.Forecast, 1e-9, "that nothing is claimed now says nothing about what arrives")
	s.AppDown = false
	require.Equal(t, elastic.ReasonCooldown, steps(c, &at, &s, 9).Reason, "a whole cooldown after it")
}

// Slow tasks, and nothing known for a minute, because the app was down or nobody led:
// that none of them ended then says nothing about how long they take.
func TestAfterAFreezeTasksTakeWhatTheyTook(t *testing.T) {
	t.Parallel()
	for name, freeze := range map[string]func(*elastic.Controller, *time.Time, *elastic.Sample){
		"app down": func(c *elastic.Controller, at *time.Time, s *elastic.Sample) {
			s.AppDown, s.Running, s.Peak, s.Ended, s.Arrivals = true, 0, 0, 0, 0
			require.Equal(t, elastic.ReasonFrozen, steps(c, at, s, 60).Reason)
			s.AppDown = false
		},
		"stale": func(c *elastic.Controller, at *time.Time, s *elastic.Sample) {
			s.At = at.Add(-10 * time.Second)
			for range 60 {
				*at = at.Add(time.Second)
				require.Equal(t, elastic.ReasonStale, c.Decide(*at, *s).Reason)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, at := elastic.NewController(elastic.DefaultSettings()), begin()
			s := elastic.Sample{Slots: 29, Ceiling: 1000, Arrivals: 10, Ended: 10, Service: 2 * time.Second, Running: 20, Peak: 22}
			require.Equal(t, 29, steps(c, &at, &s, 20).Slots)
			ended := s
			freeze(c, &at, &s)
			slots := s.Slots

			// All begin at once, and none has ended yet.
			s = ended
			s.Slots, s.Ended, s.Service = slots, 0, 0
			for range 2 {
				d := steps(c, &at, &s, 1)
				require.InDelta(t, 2, d.Service.Seconds(), 0.1)
				require.LessOrEqual(t, d.Want, 30)
			}
			s.Ended, s.Service = 10, 2*time.Second
			for range 10 {
				d := steps(c, &at, &s, 1)
				require.InDelta(t, 2, d.Service.Seconds(), 0.1)
				require.LessOrEqual(t, d.Slots, 30)
			}
		})
	}
}

// What is left of traffic that ended is nothing soon, or a fleet never scales to zero.
func TestDemandBecomesNothing(t *testing.T) {
	t.Parallel()
	for _, preset := range elastic.Presets() {
		settings := elastic.DefaultSettings()
		settings.Preset = preset
		c, at, s := elastic.NewController(settings), begin(), busy()
		steps(c, &at, &s, 10)
		s.Arrivals, s.Ended, s.Running, s.Peak, s.Service = 0, 0, 0, 0, 0
		d := steps(c, &at, &s, 70)
		require.InDelta(t, 0, d.Demand, 0, preset)
		require.InDelta(t, 0, d.Forecast, 0, preset)
		require.Zero(t, d.Want, preset)
	}
}

func TestRefitIsReported(t *testing.T) {
	t.Parallel()
	c, at, s := elastic.NewController(elastic.DefaultSettings()), begin(), busy()
	refits := 0
	for i := range 240 {
		s.Arrivals = []float64{20, 200}[i%2]
		if steps(c, &at, &s, 1).Refit != nil {
			refits++
		}
	}
	require.Equal(t, 1, refits)
}
