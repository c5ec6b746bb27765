package routing_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/routing"
)

func withFree(free ...int) []*routing.Member {
	members := make([]*routing.Member, len(free))
	for i, n := range free {
		members[i] = member(fmt.Sprintf("w-%02d", i), nil)
		members[i].Slots, members[i].Ceiling = n, 100
	}
	return members
}

func TestWakeList(t *testing.T) {
	t.Parallel()
	polling := withFree(10, 10)
	polling[1].Polling = true
	heldPolling := withFree(10, 10)
	heldPolling[1].Polling, heldPolling[1].Held = true, true
	draining := withFree(10, 10)
	draining[0].State = routing.StateDraining
	overloaded := withFree(10, 10)
	overloaded[1].Health = routing.Overloaded
	for name, test := range map[string]struct {
		strategy routing.Strategy
		members  []*routing.Member
		want     []string
	}{
		"nobody assigned":        {routing.LeastLoaded, nil, nil},
		"all full":               {routing.LeastLoaded, withFree(0, 0), []string{}},
		"all full, in turn":      {routing.RoundRobin, withFree(0, 0), []string{}},
		"one polls":              {routing.LeastLoaded, polling, []string{}},
		"one polls, in turn":     {routing.RoundRobin, polling, []string{}},
		"held, so not polling":   {routing.LeastLoaded, heldPolling, []string{"w-00"}},
		"a draining one":         {routing.LeastLoaded, draining, []string{"w-01"}},
		"an overloaded one":      {routing.RoundRobin, overloaded, []string{"w-00"}},
		"equal":                  {routing.LeastLoaded, withFree(10, 10, 10), []string{"w-00", "w-01", "w-02"}},
		"exact":                  {routing.LeastLoaded, withFree(10, 20, 40), []string{"w-00", "w-01", "w-01", "w-02", "w-02", "w-02", "w-02"}},
		"in turn, each once":     {routing.RoundRobin, withFree(10, 20, 0, 40), []string{"w-00", "w-01", "w-03"}},
		"a small one among many": {routing.LeastLoaded, withFree(97, 1, 2), append(slices.Repeat([]string{"w-00"}, 16), nil...)},
	} {
		require.Equal(t, test.want, routing.WakeList(test.strategy, test.members, 7), name)
	}
}

func TestWakeListTakesTurnsBeyondItsLength(t *testing.T) {
	t.Parallel()
	members := withFree(slices.Repeat([]int{5}, 20)...)
	times := map[string]int{}
	for turn := range 20 {
		list := routing.WakeList(routing.RoundRobin, members, turn)
		require.Len(t, list, 16)
		for _, id := range list {
			times[id]++
		}
	}
	for id, n := range times {
		require.Equal(t, 16, n, id)
	}
	require.Len(t, times, 20)
}

// Largest remainder: each worker has its exact share of the entries, rounded up or
// down; never more entries than 16, and only of those that would claim.
func TestWakeListIsProportional(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members := drawMembers(t)
		for _, m := range members {
			m.Polling = false
		}
		list := routing.WakeList(routing.LeastLoaded, members, 0)
		require.LessOrEqual(t, len(list), 16)
		total := 0
		free := map[string]int{}
		for _, m := range members {
			if m.State == routing.StateActive && !m.Held && m.Health != routing.Overloaded {
				free[m.ID] = max(m.Slots-m.Running, 0)
				total += free[m.ID]
			}
		}
		if total == 0 {
			require.Empty(t, list)
			return
		}
		require.NotEmpty(t, list)
		seats := map[string]int{}
		for _, id := range list {
			seats[id]++
		}
		for _, m := range members {
			quota := float64(free[m.ID]) * float64(len(list)) / float64(total)
			require.Less(t, float64(seats[m.ID]), quota+1)
			require.Greater(t, float64(seats[m.ID]), quota-1)
			require.False(t, free[m.ID] == 0 && seats[m.ID] > 0)
		}
	})
}
