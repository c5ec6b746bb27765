package routing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/routing"
)

func TestPollInterval(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		strategy routing.Strategy
		polls    float64
		free     int
		share    routing.PollShare
		want     time.Duration
	}{
		"alone":                               {routing.LeastLoaded, 500, 10, routing.PollShare{FreeSlots: 10, Workers: 1}, 2 * time.Millisecond},
		"alone, others' free slots unknown":   {routing.LeastLoaded, 500, 10, routing.PollShare{}, 2 * time.Millisecond},
		"a seventh of the free slots":         {routing.LeastLoaded, 500, 10, routing.PollShare{FreeSlots: 70, Workers: 3}, 14 * time.Millisecond},
		"four sevenths":                       {routing.LeastLoaded, 500, 40, routing.PollShare{FreeSlots: 70, Workers: 3}, 3500 * time.Microsecond},
		"all were full a moment ago":          {routing.LeastLoaded, 500, 2, routing.PollShare{FreeSlots: 0, Workers: 100}, 100 * time.Millisecond},
		"alone, with fewer slots than before": {routing.LeastLoaded, 500, 2, routing.PollShare{FreeSlots: 64, Workers: 1}, 2 * time.Millisecond},
		"all have fewer slots than before":    {routing.LeastLoaded, 500, 2, routing.PollShare{FreeSlots: 640, Workers: 10}, 80 * time.Millisecond},
		"in turn":                             {routing.RoundRobin, 500, 40, routing.PollShare{FreeSlots: 70, Workers: 3}, 6 * time.Millisecond},
		"never more often than each 1 ms":     {routing.LeastLoaded, 10000, 10, routing.PollShare{FreeSlots: 10, Workers: 1}, time.Millisecond},
		"never less often than when idle":     {routing.RoundRobin, 10, 1, routing.PollShare{Workers: 200}, time.Second},
		"nothing free: nothing to look for":   {routing.LeastLoaded, 500, 0, routing.PollShare{FreeSlots: 7, Workers: 2}, time.Second},
		"no polls are asked for, or garbage":  {routing.LeastLoaded, 0, 5, routing.PollShare{FreeSlots: 7, Workers: 2}, time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := routing.PollInterval(tt.strategy, tt.polls, tt.free, tt.share, time.Second)
			require.InDelta(t, tt.want.Seconds(), got.Seconds(), 1e-4)
		})
	}
}

// TestPollsOfAFleet: however many workers share a queue, together they look at it
// as often as was asked for, or up to a quarter more often.
func TestPollsOfAFleet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		free := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 200).Draw(t, "free")
		strategy := rapid.SampledFrom([]routing.Strategy{routing.LeastLoaded, routing.RoundRobin}).Draw(t, "strategy")
		share := routing.PollShare{Workers: len(free)}
		for _, n := range free {
			share.FreeSlots += n
		}
		var perSecond float64
		for _, n := range free {
			perSecond += 1 / routing.PollInterval(strategy, 500, n, share, time.Hour).Seconds()
		}
		require.GreaterOrEqual(t, perSecond, 499.)
		require.LessOrEqual(t, perSecond, 626.)
	})
}
