package governor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/routing"
)

func TestCanaryRange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		queue     routing.QueuePolicy
		canary    bool
		low, high float32
	}{
		{"no canary anywhere", routing.QueuePolicy{Workers: 3, CanaryWorkers: -1}, false, 0, 100},
		{"a labelled worker where no canary is set up", routing.QueuePolicy{Workers: 3, CanaryWorkers: -1}, true, 0, 100},
		{"the share", routing.QueuePolicy{Workers: 3, CanaryWorkers: 1, CanaryPercent: 5}, true, 0, 5},
		{"the rest", routing.QueuePolicy{Workers: 3, CanaryWorkers: 1, CanaryPercent: 5}, false, 5, 100},
		{"all of it", routing.QueuePolicy{Workers: 3, CanaryWorkers: 1, CanaryPercent: 100}, false, 100, 100},
		{"no canary alive", routing.QueuePolicy{Workers: 3, CanaryWorkers: 0}, false, 0, 100},
		{"a share of nothing", routing.QueuePolicy{Workers: 3, CanaryWorkers: 1}, true, 0, 0},
		{"a share of nothing, but nobody else", routing.QueuePolicy{Workers: 1, CanaryWorkers: 1}, true, 0, 100},
	} {
		low, high := canaryRange(&tt.queue, tt.canary)
		require.Equal(t, [2]float32{tt.low, tt.high}, [2]float32{low, high}, tt.name)
	}
}

func TestHintsAreForgottenWhenRead(t *testing.T) {
	t.Parallel()
	in := newIntake(&routing.Policy{Queues: []routing.QueuePolicy{{Name: "a", CanaryWorkers: -1}, {Name: "b", CanaryWorkers: -1}}}, false)
	var h hints
	h.add("b")
	h.add("foreign")
	require.Equal(t, []laneQueue{{name: "b", high: 100}}, h.drain(in))
	require.Empty(t, h.drain(in))
}

// Workers poll a queue that they share more rarely, but together as often as ever.
func TestPollsOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		led   bool
		among []int // workers of each queue
		want  float64
	}{
		{"a worker alone", true, []int{1}, 1},
		{"few", true, []int{16}, 1},
		{"twice as many", true, []int{32}, 0.5},
		{"very many", true, []int{1000}, 0.1},
		{"one of its queues has few", true, []int{1000, 20, 64}, 0.8},
		{"nobody assigned yet", true, []int{0}, 1},
		{"nobody leads: who serves what may have changed", false, []int{1000}, 1},
		{"no queue", true, nil, 0.1},
	} {
		policy := &routing.Policy{Led: tt.led}
		for _, n := range tt.among {
			policy.Queues = append(policy.Queues, routing.QueuePolicy{Workers: n})
		}
		if tt.want < 1 {
			tt.want *= pollEarly // polls come that much sooner
		}
		require.InDelta(t, tt.want, pollsOf(policy), 1e-9, tt.name)
	}
}

// Looks that come late are made up for, so that the rate holds; long ones aren't.
func TestPollAfter(t *testing.T) {
	t.Parallel()
	due := time.Now()
	at := func(late time.Duration) time.Duration {
		return pollAfter(due, due.Add(late), 4*time.Millisecond).Sub(due)
	}
	require.Equal(t, 4*time.Millisecond, at(0))
	require.Equal(t, 4*time.Millisecond, at(time.Millisecond), "the timer was late")
	require.Equal(t, 5*time.Millisecond, at(5*time.Millisecond), "at once")
	require.Equal(t, 104*time.Millisecond, at(100*time.Millisecond), "it had no reason to look, or no slot")
}

// The slower claims are, the more rarely workers look.
func TestPace(t *testing.T) {
	t.Parallel()
	var p pace
	require.Greater(t, p.perSecond(), 10_000.0, "nothing is known yet")
	for range 200 {
		p.note(4 * time.Millisecond)
	}
	require.InDelta(t, 125, p.perSecond(), 5)
	for range 200 {
		p.note(time.Second)
	}
	require.InDelta(t, 50, p.perSecond(), 1)
}

// A worker of very many queues gives all of those that have tasks their turn.
func TestQueuesFoundTakeTurns(t *testing.T) {
	t.Parallel()
	in := &intake{queues: make([]laneQueue, queuesLooked+1)}
	g := &Governor{}
	const found, most = 1000, 256
	for i := range found {
		g.candidates.found = append(g.candidates.found, laneQueue{name: fmt.Sprint(i), high: 100})
	}
	now := time.Now()
	g.candidates.looked = now
	seen := map[string]int{}
	for range (found + most - 1) / most {
		queues, others, err := g.pickQueues(t.Context(), in, most, now)
		require.NoError(t, err)
		require.True(t, others)
		require.Len(t, queues, most)
		for _, q := range queues {
			seen[q.name]++
		}
	}
	require.Len(t, seen, found)
}
