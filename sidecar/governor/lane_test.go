package governor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func onePlan(skip ...string) lanePlan {
	return lanePlan{queues: []laneQueue{{name: "q", high: 100}}, skip: skip, workers: 1}
}

// mainOf returns the ask for the tasks of the first priority, and where it stands.
func mainOf(t *testing.T, asks []laneAsk, kind string) (laneAsk, int) {
	t.Helper()
	for i, ask := range asks {
		if ask.role == roleMain && ask.key.priority == 1 && ask.key.kind == kind {
			return ask, i
		}
	}
	require.Fail(t, "no such lane")
	return laneAsk{}, 0
}

func TestLaneMarks(t *testing.T) {
	t.Parallel()
	now := start()
	us := now.UnixMicro()
	var l lanes

	asks := l.plan(now, onePlan("k"))
	require.Len(t, asks, 4, "one for each priority, without sweeps while nothing was passed over")
	ask, i := mainOf(t, asks, "")
	require.Equal(t, position{us: laneStart}, ask.from)
	// A window full of what is left out: on to the next one.
	more := l.learn(now, asks, &laneReport{NowUS: us, Next: -1, Lanes: []laneResult{
		{Lane: i, Ended: true, LastUS: -1, EndUS: us - 5000, EndID: 7},
	}}, 1, 0)
	require.True(t, more)
	asks = l.plan(now, onePlan("k"))
	ask, i = mainOf(t, asks, "")
	require.Equal(t, position{us - 5000, 7}, ask.from)
	require.Equal(t, position{us: laneStart}, ask.to, "where that window ends is not known")
	// It yields as much as was asked for.
	more = l.learn(now, asks, &laneReport{NowUS: us, Next: -1, Lanes: []laneResult{
		{Lane: i, Taken: 3, LastUS: us - 4000, LastID: 9, EndUS: us - 10, EndID: 30},
	}}, 1, 0)
	require.True(t, more)
	asks = l.plan(now, onePlan("k"))
	ask, _ = mainOf(t, asks, "")
	require.Equal(t, position{us - 4000, 9}, ask.from, "claims go on where they stopped")
	require.Equal(t, position{us - 10, 30}, ask.to)
	// Nothing is behind it at all.
	more = l.learn(now, asks, &laneReport{NowUS: us, Next: -1}, 1, 0)
	require.False(t, more)
	ask, _ = mainOf(t, l.plan(now, onePlan("k")), "")
	require.Equal(t, position{us: us}, ask.from)

	// More left out changes nothing, less does.
	ask, _ = mainOf(t, l.plan(now, onePlan("k", "l")), "")
	require.Equal(t, position{us: us}, ask.from)
	ask, _ = mainOf(t, l.plan(now, onePlan("l")), "")
	require.Equal(t, position{us: laneStart}, ask.from)
}

func TestLaneSweepsTakeATwentiethOfTheTime(t *testing.T) {
	t.Parallel()
	now := start()
	var l lanes
	asks := l.plan(now, onePlan("k"))
	_, i := mainOf(t, asks, "")
	l.learn(now, asks, &laneReport{NowUS: now.UnixMicro(), Next: -1, Lanes: []laneResult{
		{Lane: i, Ended: true, LastUS: -1, EndUS: laneOpen},
	}}, 1, 0)
	// For ten minutes, windows of 10 ms each that lie before the mark.
	var spent time.Duration
	for end := now.Add(10 * time.Minute); now.Before(end); now = now.Add(time.Millisecond) {
		asks := l.plan(now, onePlan("k"))
		report := laneReport{NowUS: now.UnixMicro(), Next: -1}
		for i, ask := range asks {
			if ask.key.priority != 1 {
				continue
			}
			result := laneResult{Lane: i, Ended: true, LastUS: -1, EndUS: laneOpen}
			if ask.role == roleWhole {
				result.EndUS, result.EndID, result.TookUS = ask.from.us+1000, 1, 10_000
				spent += 10 * time.Millisecond
			}
			report.Lanes = append(report.Lanes, result)
		}
		l.learn(now, asks, &report, 1, 0)
	}
	require.LessOrEqual(t, spent, 10*time.Minute/laneShare+10*time.Millisecond)
	require.GreaterOrEqual(t, spent, 10*time.Minute/(2*laneShare), "they do go on")
}

// However many sweeps are due, a claim looks for tasks first, and isn't repeated for
// the sweeps' sake.
func TestSweepsOfManyLanesKeepNoClaimFromTasks(t *testing.T) {
	t.Parallel()
	now := start()
	var l lanes
	plan := lanePlan{skip: []string{"paused"}}
	for i := range 30 {
		plan.queues = append(plan.queues, laneQueue{name: fmt.Sprintf("q%02d", i), high: 100})
	}
	asks := l.plan(now, plan)
	report := laneReport{NowUS: now.UnixMicro(), Next: -1}
	for i := range asks {
		report.Lanes = append(report.Lanes, laneResult{Lane: i, Ended: true, LastUS: -1, EndUS: laneOpen})
	}
	l.learn(now, asks, &report, 1, 0) // all have marks from now on

	now = now.Add(time.Minute)
	first := map[laneKey]bool{}
	for {
		asks = l.plan(now, plan)
		if asks[0].role == roleMain {
			break // all sweeps were made
		}
		mains := 0
		for i, ask := range asks {
			if ask.role == roleMain {
				mains++
				require.LessOrEqual(t, i, 30*priorities, "one sweep at most comes before it")
			}
		}
		require.Equal(t, 30*priorities, mains)
		first[asks[0].key] = true
		more := l.learn(now, asks, &laneReport{NowUS: now.UnixMicro(), Next: mains + 1}, 1, 0)
		require.False(t, more, "what is left are sweeps")
	}
	require.Len(t, first, 30*priorities, "each had its turn")
}

func TestKindLanesRestAfterAVainLook(t *testing.T) {
	t.Parallel()
	now := start()
	var l lanes
	plan := onePlan("k")
	plan.kinds = []string{"k"}
	asks := l.plan(now, plan)
	_, i := mainOf(t, asks, "k")
	l.learn(now, asks, &laneReport{NowUS: now.UnixMicro(), Next: -1, Lanes: []laneResult{
		{Lane: i, Ended: true, LastUS: -1, EndUS: laneOpen, TookUS: 5000},
	}}, 1, 0)
	has := func(at time.Time) bool {
		for _, ask := range l.plan(at, plan) {
			if ask.key == (laneKey{"q", 1, "k"}) {
				return true
			}
		}
		return false
	}
	require.False(t, has(now.Add(99*time.Millisecond)))
	require.True(t, has(now.Add(100*time.Millisecond)))
}

func TestHeldLanesAreLeftAlone(t *testing.T) {
	t.Parallel()
	now := start()
	var l lanes
	asks := l.plan(now, onePlan("k"))
	_, i := mainOf(t, asks, "")
	more := l.learn(now, asks, &laneReport{NowUS: now.UnixMicro(), Next: -1, Lanes: []laneResult{{Lane: i, Held: true}}}, 1, 0)
	require.False(t, more)
	ask, _ := mainOf(t, l.plan(now, onePlan("k")), "")
	require.Equal(t, position{us: laneStart}, ask.from, "a paused queue keeps its place")
	require.True(t, l.learn(now, asks, &laneReport{NowUS: now.UnixMicro(), Next: 0}, 1, 0), "what was not looked at may hold more")
}

func TestAgedLanesTakeTurns(t *testing.T) {
	t.Parallel()
	var l lanes
	plan := onePlan("k")
	plan.aged = true
	first := map[int32]bool{}
	for range 3 {
		asks := l.plan(start(), plan)
		require.Len(t, asks, 3)
		first[asks[0].key.priority] = true
	}
	require.Equal(t, map[int32]bool{2: true, 3: true, 4: true}, first)
}

func TestAgeingShare(t *testing.T) {
	t.Parallel()
	var a ageing
	now := start()
	a.note(400, false)
	require.Zero(t, a.share(now, 10), "nothing waits")
	a.note(100, true)
	require.Equal(t, 10, a.share(now, 10))
	a.note(100, true)
	require.Zero(t, a.share(now.Add(time.Second-1), 10))
	require.Equal(t, 25, a.share(now.Add(time.Second), 1000), "a quarter at most")
	a.note(3, true)
	require.Zero(t, a.share(now.Add(2*time.Second), 1))
	a.note(1, true)
	require.Equal(t, 1, a.share(now.Add(2*time.Second), 1), "with a single slot, every fourth task")
}

func TestTokens(t *testing.T) {
	t.Parallel()
	off := newTokens(0, 0)
	require.Zero(t, off.wait(start(), 1))
	require.Positive(t, off.available(start()))

	now := time.Now()
	bucket := newTokens(100, 10)
	require.Equal(t, 10, bucket.available(now))
	bucket.take(now, 10)
	require.Zero(t, bucket.available(now))
	require.Equal(t, 10*time.Millisecond, bucket.wait(now, 5))
	require.Equal(t, 5, bucket.available(now.Add(50*time.Millisecond)))
	require.Equal(t, 10, bucket.available(now.Add(time.Hour)), "the burst is the most")
	fast := newTokens(10_000, 10_000)
	fast.take(now, 10_000)
	require.Equal(t, 10*time.Millisecond, fast.wait(now, 500), "not a claim for each token")
}

func TestFlows(t *testing.T) {
	t.Parallel()
	var f flows
	now := start()
	require.True(t, f.nextTry(now).IsZero())
	retry := f.block(now, []flowResult{{Flow: "queue:q", Why: whyMaxRunning, RetryMS: 100}, {Flow: "kind:k", Why: whyRate, RetryMS: 20}, {Flow: "kind:b", Why: whyBusy, RetryMS: 2}})
	require.Less(t, retry.Sub(now), 5*time.Millisecond)
	require.True(t, f.isBlocked("kind:k", now.Add(20*time.Millisecond-1)))
	require.False(t, f.isBlocked("kind:k", now.Add(25*time.Millisecond)), "spread by a fifth at most")
	require.Len(t, f.texts(now), 2)
	require.False(t, f.unblock("other"))
	require.True(t, f.unblock("q"))
	require.False(t, f.unblock("q"))

	f.block(now, []flowResult{{Flow: "kind:rare", Why: whyRate, RetryMS: 3_600_000}})
	require.False(t, f.isBlocked("kind:rare", now.Add(blockMax*6/5)), "asked again, unheard of a change")
	f.reconsider()
	require.False(t, f.isBlocked("kind:rare", now), "a change was heard of")

	require.True(t, f.pause("k", now.Add(time.Minute), now))
	require.False(t, f.pause("k", now.Add(time.Minute+pauseNews), now), "no news")
	require.True(t, f.pause("k", now.Add(2*time.Minute), now))
	require.Contains(t, f.pauses(now), "k")
	later := now.Add(pauseBridge)
	require.Empty(t, f.pauses(later), "from then on the policy knows, or an operator ended it")
	require.True(t, f.pause("k", later.Add(time.Second), later), "a shorter pause is news once the longer one may have been ended")
}
