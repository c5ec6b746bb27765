package routing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/routing"
)

const (
	evictAfter = 20 * time.Second
	maxGap     = 3 * time.Second
)

// watched feeds a watcher one observation a second and returns its last answer.
func watched(l *routing.Liveness, from time.Time, seconds int, beats func(second int) []routing.Beat) (dead []routing.Beat, until time.Time) {
	for s := range seconds {
		from = from.Add(time.Second)
		dead = l.Observe(from, beats(s))
	}
	return dead, from
}

func still(int) []routing.Beat { return []routing.Beat{{WorkerID: "a", Seq: 7}} }

func TestLiveness(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := []routing.Beat{{WorkerID: "a", Seq: 7}}

	t.Run("a heartbeat that stands still is dead after the limit, and not before", func(t *testing.T) {
		t.Parallel()
		l := routing.NewLiveness(evictAfter, maxGap)
		dead, now := watched(l, start, 20, still) // the first sighting starts the clock
		require.Empty(t, dead)
		require.Equal(t, a, l.Observe(now.Add(time.Second), a))
	})
	t.Run("one that moves is alive", func(t *testing.T) {
		t.Parallel()
		l := routing.NewLiveness(evictAfter, maxGap)
		dead, _ := watched(l, start, 100, func(s int) []routing.Beat { return []routing.Beat{{WorkerID: "a", Seq: int64(s / 5)}} })
		require.Empty(t, dead)
	})
	t.Run("a gap in the watching starts over for all", func(t *testing.T) {
		t.Parallel()
		l := routing.NewLiveness(evictAfter, maxGap)
		_, now := watched(l, start, 20, still)
		require.Empty(t, l.Observe(now.Add(time.Minute), a), "nobody is evicted for an outage of the watcher")
		dead, now := watched(l, now.Add(time.Minute), 19, still)
		require.Empty(t, dead)
		require.Equal(t, a, l.Observe(now.Add(time.Second), a))
	})
	t.Run("a failed observation starts over", func(t *testing.T) {
		t.Parallel()
		l := routing.NewLiveness(evictAfter, maxGap)
		_, now := watched(l, start, 20, still)
		l.Reset()
		require.Empty(t, l.Observe(now.Add(time.Second), a))
	})
	t.Run("a worker that was away is seen anew", func(t *testing.T) {
		t.Parallel()
		l := routing.NewLiveness(evictAfter, maxGap)
		_, now := watched(l, start, 15, still)
		_, now = watched(l, now, 1, func(int) []routing.Beat { return nil })
		dead, _ := watched(l, now, 15, still)
		require.Empty(t, dead)
	})
}

// TestLivenessNeverEvictsTooSoon: whatever is observed, a worker that is
// declared dead was watched without a gap, and without a beat, for evictAfter.
func TestLivenessNeverEvictsTooSoon(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := routing.NewLiveness(evictAfter, maxGap)
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		var seq int64
		var quietSince time.Time // uninterrupted watching of the current seq
		for range rapid.IntRange(1, 200).Draw(t, "observations") {
			step := time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond
			now = now.Add(step)
			beat := rapid.IntRange(0, 9).Draw(t, "beat") == 0
			if beat {
				seq++
			}
			if beat || step > maxGap || quietSince.IsZero() {
				quietSince = now
			}
			dead := l.Observe(now, []routing.Beat{{WorkerID: "a", Seq: seq}})
			require.Equal(t, now.Sub(quietSince) >= evictAfter, len(dead) == 1)
		}
	})
}

func TestWorkerIDs(t *testing.T) {
	t.Parallel()
	one, other := routing.NewWorkerID(), routing.NewWorkerID()
	require.Regexp(t, `^w-[0-9a-z]{12}$`, one)
	require.NotEqual(t, one, other)
}
