package governor

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/routing"
)

func couple(string) int { return 2 }

// claims notes n claims a second for some seconds, in steps of a tenth.
func claims(p *poller, from time.Time, perSecond int, lasting time.Duration, workers func(string) int) (until time.Time, busy bool) {
	for until = from; until.Sub(from) < lasting; until = until.Add(publishTick) {
		if perSecond > 0 {
			p.count(until, "q", perSecond/10)
		}
		busy = p.observe(until, workers)
	}
	return until, busy
}

func TestBusyQueues(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		perSecond int
		workers   int
		want      bool
	}{
		"quiet":                         {40, 2, false},
		"busy":                          {60, 2, true},
		"quiet for one alone":           {240, 1, false},
		"busy for one alone":            {260, 1, true},
		"of unknown company":            {60, 0, true},
		"busy by the work of many":      {20, 100, true},
		"quiet for each of a few":       {20, 10, false},
		"a trickle is quiet everywhere": {0, 1000, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, busy := claims(newPoller(), start, tt.perSecond, 3*time.Second, func(string) int { return tt.workers })
			require.Equal(t, tt.want, busy)
		})
	}

	t.Run("it ends some time after the work does, and is forgotten", func(t *testing.T) {
		t.Parallel()
		p := newPoller()
		now, busy := claims(p, start, 100, 2*time.Second, couple)
		require.True(t, busy)
		now, busy = claims(p, now, 0, busyLinger, couple)
		require.True(t, busy, "it may go on at once")
		now, busy = claims(p, now, 0, 2*time.Second, couple)
		require.False(t, busy)
		claims(p, now, 0, busyLinger, couple)
		require.Empty(t, p.meters)
	})
	t.Run("it does not flap between its thresholds", func(t *testing.T) {
		t.Parallel()
		p := newPoller()
		now, _ := claims(p, start, 100, 2*time.Second, couple)
		_, busy := claims(p, now, 30, 20*time.Second, couple)
		require.True(t, busy)
		_, busy = claims(newPoller(), start, 30, 20*time.Second, couple)
		require.False(t, busy)
	})
	t.Run("it is calm again once it is known to be alone", func(t *testing.T) {
		t.Parallel()
		p := newPoller()
		now, busy := claims(p, start, 200, 2*time.Second, func(string) int { return 0 })
		require.True(t, busy)
		_, busy = claims(p, now, 200, busyLinger+2*publishTick, func(string) int { return 1 })
		require.False(t, busy)
	})
	t.Run("a gap leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		p := newPoller()
		p.count(start, "q", 1000)
		p.count(start.Add(time.Hour), "q", 1)
		require.Equal(t, 1, p.meters["q"].sum)
	})
}

// A claim under way takes all free slots; it must not look as if there were none, or
// whoever polls would rest after each claim.
func TestClaimUnderWayLeavesSlotsUnused(t *testing.T) {
	t.Parallel()
	g := &Governor{}
	g.slots.setLimit(4)
	require.Equal(t, 4, g.slots.take(4))
	require.Equal(t, 4, g.unused())
	g.running.add(&execution{})
	require.Equal(t, 3, g.unused())
}

// TestPromiseIsKept: once the row may say that this worker need not be woken, it
// polls, until some seconds after the row said otherwise for certain.
func TestPromiseIsKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := newPoller()
	cover := func(at time.Time) bool { _, cover := p.duty(at); return cover }
	require.False(t, cover(now))
	p.tell()
	require.True(t, cover(now.Add(time.Hour)))
	now = now.Add(time.Hour)
	p.untold(now)
	require.True(t, cover(now.Add(coverAfter-time.Millisecond)))
	require.False(t, cover(now.Add(coverAfter)))
	p.untold(now.Add(time.Minute))
	require.False(t, cover(now.Add(time.Minute)), "said again is no promise made again")
}

// TestPolledByOthers: where another worker polls, so that nobody is woken, this one
// polls as well, and no longer than that.
func TestPolledByOthers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := newPoller()
	busy := func() []string { names, _ := p.duty(now); slices.Sort(names); return names }
	p.setPolled(&routing.Policy{Queues: []routing.QueuePolicy{{Name: "a"}, {Name: "b", Polled: true}}})
	require.Equal(t, []string{"b"}, busy())
	require.Len(t, p.news, 1, "at once")
	require.Equal(t, []string{"b"}, p.active(), "it asks how long")
	p.learn(map[string]routing.PollShare{"a": {Polled: true}, "b": {}})
	require.Equal(t, []string{"a"}, busy())
	p.setPolled(&routing.Policy{})
	require.Empty(t, busy())
	p.count(now, "c", 1)
	require.Equal(t, []string{"c"}, p.active(), "it asks while it works on a queue")
	require.Empty(t, busy())
}

func TestLoadRow(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	idle := routing.Load{Slots: 40, Ceiling: 40, Holds: []string{}}
	with := func(change func(l *routing.Load)) routing.Load {
		l := idle
		change(&l)
		return l
	}
	written := func() *loadRow {
		r := &loadRow{}
		r.begin(start)
		r.end(idle, nil)
		return r
	}
	tests := map[string]struct {
		load routing.Load
		want bool
	}{
		"the same":                 {idle, false},
		"a little more runs":       {with(func(l *routing.Load) { l.Running = 3 }), false},
		"a tenth of the ceiling":   {with(func(l *routing.Load) { l.Running = 4 }), true},
		"fewer slots":              {with(func(l *routing.Load) { l.Slots = 36 }), true},
		"polling":                  {with(func(l *routing.Load) { l.Polling = true }), true},
		"full, with hardly a step": {with(func(l *routing.Load) { l.Slots, l.Running = 38, 38 }), true},
		"held":                     {with(func(l *routing.Load) { l.Holds = []string{"app down"} }), true},
		"hot":                      {with(func(l *routing.Load) { l.LoadPercent = 10 }), true},
		"warm":                     {with(func(l *routing.Load) { l.LoadPercent, l.CPU, l.Mem = 9, 0.09, 0.09 }), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, written().due(start.Add(publishPause), tt.load))
			require.False(t, written().due(start.Add(publishPause-1), tt.load), "at most once a second")
		})
	}
	t.Run("a write that failed is repeated", func(t *testing.T) {
		t.Parallel()
		r := written()
		r.begin(start.Add(time.Second))
		r.end(idle, errors.New("no answer"))
		require.True(t, r.due(start.Add(2*time.Second), idle))
	})
	t.Run("a heartbeat counts as a write", func(t *testing.T) {
		t.Parallel()
		r, busy := written(), with(func(l *routing.Load) { l.Running = 20 })
		require.True(t, r.beaten(r.mark(), busy))
		require.False(t, r.due(start.Add(time.Second), busy))
		require.False(t, r.beaten(r.mark(), with(func(l *routing.Load) { l.Running = 40 })), "full: nobody wakes it")
	})
	t.Run("a heartbeat beside a write leaves it in doubt", func(t *testing.T) {
		t.Parallel()
		r := written()
		mark := r.mark()
		r.begin(start.Add(time.Second))
		r.end(with(func(l *routing.Load) { l.Polling = true }), nil)
		require.False(t, r.beaten(mark, idle))
		require.True(t, r.due(start.Add(2*time.Second), with(func(l *routing.Load) { l.Polling = true })))
		r.begin(start.Add(2 * time.Second))
		require.False(t, r.beaten(r.mark(), idle), "one is under way")
	})
	t.Run("a heartbeat does not say that polling has ended", func(t *testing.T) {
		t.Parallel()
		r := written()
		polling := with(func(l *routing.Load) { l.Polling = true })
		r.begin(start.Add(time.Second))
		r.end(polling, nil)
		require.False(t, r.beaten(r.mark(), idle))
		require.True(t, r.due(start.Add(2*time.Second), idle))
		require.False(t, r.due(start.Add(2*time.Second), polling))
	})
}

func TestDifferenceOfQueues(t *testing.T) {
	t.Parallel()
	queues := func(names ...string) (list []routing.QueuePolicy) {
		for _, name := range names {
			list = append(list, routing.QueuePolicy{Name: name})
		}
		return list
	}
	gained, lost := difference(queues("a", "b", "d"), queues("b", "c", "d", "e"))
	require.Equal(t, []string{"c", "e"}, gained)
	require.Equal(t, []string{"a"}, lost)
	gained, lost = difference(queues("a"), nil)
	require.Empty(t, gained)
	require.Equal(t, []string{"a"}, lost)
}

func TestForeignQueuesAreBounded(t *testing.T) {
	t.Parallel()
	var f foreign
	require.True(t, f.add("q"))
	require.False(t, f.add("q"))
	f.clear()
	require.True(t, f.add("q"))
	for i := range 2 * foreignMax {
		f.add(string(rune(i)) + "x")
	}
	require.LessOrEqual(t, len(f.names), foreignMax)
}
