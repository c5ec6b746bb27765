package elastic_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/elastic"
)

// app is a model of an app: task by task, with times drawn at random.
type app struct {
	service time.Duration // of a task alone
	width   int           // tasks that progress at once; 0: any number
	cores   int           // cores of an app that only computes, of which it uses width; 0: none of it
	long    int           // tasks that run all the time, beside the others
	unrest  float64       // by which part the machine is faster or slower from second to second
	random  *rand.Rand

	now      time.Duration
	waiting  []time.Duration // due since
	running  []task
	slots    int
	waits    []time.Duration
	finished int
	cpuUsed  float64
	speed    float64 // of the machine, this second
}

type task struct {
	left  float64 // work, in seconds
	began time.Duration
}

const tick = time.Millisecond

// second runs a second in steps of a millisecond and returns what was measured.
func (a *app) second(rate float64) elastic.Sample {
	s := elastic.Sample{Slots: a.slots, Ceiling: 64}
	held, took, arrived := 0.0, time.Duration(0), 0
	if a.speed = 1; a.unrest > 0 {
		a.speed += a.unrest * (2*a.random.Float64() - 1)
	}
	for range int(time.Second / tick) {
		for left := rate * tick.Seconds(); left > 0; left-- {
			if a.random.Float64() < left {
				a.waiting = append(a.waiting, a.now)
				arrived++
			}
		}
		for len(a.waiting) > 0 && len(a.running)+a.long < a.slots {
			a.waits = append(a.waits, a.now-a.waiting[0])
			a.waiting = a.waiting[1:]
			a.running = append(a.running, task{a.service.Seconds() * (0.5 + a.random.Float64()), a.now})
		}
		held += float64(len(a.running)+a.long) * tick.Seconds()
		s.Peak = max(s.Peak, len(a.running)+a.long)
		a.now += tick
		ended, inAll := a.progress()
		s.Ended, took = s.Ended+ended, took+inAll
	}
	if s.Ended > 0 {
		s.Service = took / time.Duration(s.Ended)
	}
	s.Arrivals, s.Pending, s.Waiting, s.Running = float64(arrived), len(a.waiting), len(a.waiting), held
	if a.cores > 0 {
		s.CPU, s.Cores = a.cpuUsed/float64(a.cores), float64(a.cores)
	}
	a.cpuUsed = 0
	return s
}

// progress works on all that runs for a tick and returns how many ended, and how long
// those took in all.
func (a *app) progress() (ended int, took time.Duration) {
	speed := a.speed
	if a.width > 0 && len(a.running) > a.width {
		speed *= float64(a.width) / float64(len(a.running))
	}
	if a.cores > 0 {
		a.cpuUsed += min(float64(len(a.running)), float64(a.width)) * tick.Seconds()
	}
	kept := a.running[:0]
	for _, t := range a.running {
		if t.left -= speed * tick.Seconds(); t.left > 0 {
			kept = append(kept, t)
		} else {
			took += a.now - t.began
		}
	}
	ended = len(a.running) - len(kept)
	a.running = kept
	a.finished += ended
	return ended, took
}

// play runs an app under a controller. each is told after every second.
func play(a *app, seconds int, rate func(second int) float64, each func(second int, s elastic.Sample, d elastic.Decision)) {
	c := elastic.NewController(elastic.DefaultSettings())
	for i := range seconds {
		s := a.second(rate(i))
		now := begin().Add(a.now)
		s.At = now
		d := c.Decide(now, s)
		a.slots = d.Slots
		if each != nil {
			each(i, s, d)
		}
	}
}

func TestStepOfWorkThatWaits(t *testing.T) {
	t.Parallel()
	a := &app{service: 50 * time.Millisecond, slots: 2, random: rand.New(rand.NewPCG(1, 2))}
	rate := func(i int) float64 {
		if i >= 30 && i < 60 {
			return 400
		}
		return 50
	}
	total, low, high := 0, 64, 0
	play(a, 90, rate, func(i int, s elastic.Sample, d elastic.Decision) {
		total += s.Slots
		if i == 35 {
			require.Zero(t, s.Pending, "five seconds after the step all is served")
		}
		if i >= 40 && i < 60 {
			low, high = min(low, d.Slots), max(high, d.Slots)
		}
	})
	require.Less(t, total, 90*64/2)
	require.LessOrEqual(t, float64(high-low), 0.4*float64(high+low)/2, "plus or minus a fifth")
}

// settled runs an app of which more is asked than it can do, and returns the mean
// slots of the second half and the tasks a second.
func settled(t *testing.T, a *app, seconds int) (slots, rate float64) {
	t.Helper()
	begun := 0
	play(a, seconds, func(int) float64 { return 1000 }, func(i int, s elastic.Sample, d elastic.Decision) {
		if d.Slots != s.Slots {
			t.Logf("%2d ended %3d in %s slots %2d -> %2d %s %s", i, s.Ended, s.Service, s.Slots, d.Slots, d.Reason, d.Detail)
		}
		if i == seconds/2 {
			begun = a.finished
		} else if i > seconds/2 {
			slots += float64(d.Slots)
		}
	})
	n := float64(seconds - seconds/2 - 1)
	return slots / n, float64(a.finished-begun) / n
}

func TestAppThatOnlyQueuesBeyondTwenty(t *testing.T) {
	t.Parallel()
	for _, from := range []int{2, 20, 64} {
		a := &app{service: 50 * time.Millisecond, width: 20, slots: from, random: rand.New(rand.NewPCG(3, 4))}
		slots, rate := settled(t, a, 180)
		require.GreaterOrEqual(t, slots, 15.0)
		require.LessOrEqual(t, slots, 40.0)
		require.GreaterOrEqual(t, rate, 0.95*400)
	}
}

func TestAppThatComputes(t *testing.T) {
	t.Parallel()
	for _, from := range []int{2, 64} {
		a := &app{service: 20 * time.Millisecond, width: 2, cores: 2, slots: from, random: rand.New(rand.NewPCG(5, 6))}
		slots, rate := settled(t, a, 120)
		require.LessOrEqual(t, slots, 6.0)
		require.GreaterOrEqual(t, rate, 0.95*100)
	}
}

// An app on one of two cores is never hot: that more slots bring nothing shows in the
// rate alone, at which few tasks end.
func TestAppOnOneCoreOfTwo(t *testing.T) {
	t.Parallel()
	mean, seeds := 0.0, 20
	for seed := range uint64(seeds) {
		a := &app{service: 20 * time.Millisecond, width: 1, slots: 8, random: rand.New(rand.NewPCG(seed, 6))}
		slots, rate := settled(t, a, 90)
		require.LessOrEqual(t, slots, 6.0)
		require.GreaterOrEqual(t, rate, 0.95*50)
		require.GreaterOrEqual(t, float64(a.finished), 0.95*50*90)
		mean += slots / float64(seeds)
	}
	require.LessOrEqual(t, mean, 3.0)
}

// On a machine that is now faster, now slower, a cut that left the app its cpu cost
// nothing, whatever the rate says of the few seconds after it.
func TestAppThatComputesOnAnUnevenMachine(t *testing.T) {
	t.Parallel()
	mean, seeds := 0.0, 20
	for seed := range uint64(seeds) {
		a := &app{service: 20 * time.Millisecond, width: 1, cores: 2, unrest: 0.15, slots: 8, random: rand.New(rand.NewPCG(seed, 6))}
		slots, rate := settled(t, a, 90)
		require.GreaterOrEqual(t, rate, 0.9*50)
		mean += slots / float64(seeds)
	}
	t.Logf("%.1f slots", mean)
	require.LessOrEqual(t, mean, 3.0)
}

// Tasks that go on for minutes hold slots beside short ones, of which the app bears a
// few at a time: cuts that leave these no slot cost something.
func TestShortTasksBesideLongOnes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		a := &app{service: 50 * time.Millisecond, width: 5, long: 46, slots: 64, random: rand.New(rand.NewPCG(seed, 6))}
		_, rate := settled(t, a, 180)
		require.GreaterOrEqual(t, rate, 0.9*100, "seed %d", seed)
	}
}

// Where nothing is moved no trial begins: its effect could not be seen.
func TestObservedSlotsAreNotTried(t *testing.T) {
	t.Parallel()
	a := &app{service: 50 * time.Millisecond, slots: 64, random: rand.New(rand.NewPCG(1, 6))}
	c := elastic.NewController(elastic.DefaultSettings())
	shadow := 64
	for range 120 {
		s := a.second(3000)
		s.At, s.Slots, s.Observed = begin().Add(a.now), shadow, true
		d := c.Decide(s.At, s)
		require.NotEqual(t, elastic.ReasonShed, d.Reason, d.Detail)
		shadow = d.Slots
	}
	require.Equal(t, 64, shadow)
}

// Growth is judged before the next also where few tasks end: an app that works on few
// at a time doesn't get all slots because nothing has been seen of them yet.
func TestSlowAppsDontGetAllSlots(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		service time.Duration
		width   int
	}{{2 * time.Second, 5}, {time.Second, 4}, {500 * time.Millisecond, 4}, {200 * time.Millisecond, 3}} {
		finished, seeds := 0, 5
		for seed := range uint64(seeds) {
			a := &app{service: test.service, width: test.width, slots: 2, random: rand.New(rand.NewPCG(seed, 6))}
			grown := 0
			play(a, 120, func(int) float64 { return 40 }, func(i int, s elastic.Sample, d elastic.Decision) {
				if i < 30 {
					require.LessOrEqual(t, d.Slots, 8*test.width, "second %d of %s: %s", i, test.service, d.Detail)
				}
				if d.Slots <= s.Slots {
					return
				}
				if grown > 0 && s.Ended < 5 {
					require.GreaterOrEqual(t, i-grown, 3, "second %d of %s: %d to %d", i, test.service, s.Slots, d.Slots)
				}
				grown = i
			})
			finished += a.finished
		}
		require.GreaterOrEqual(t, float64(finished), 0.85*float64(seeds)*120*float64(test.width)/test.service.Seconds())
	}
}

// An app that can take all slots gets them, however long its tasks take.
func TestAppWithoutLimitGetsTheCeiling(t *testing.T) {
	t.Parallel()
	for _, service := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 2 * time.Second} {
		a := &app{service: service, slots: 2, random: rand.New(rand.NewPCG(7, 8))}
		last := elastic.Decision{}
		play(a, 60, func(int) float64 { return 20000 * (5 * time.Millisecond).Seconds() / service.Seconds() * 5 }, func(i int, s elastic.Sample, d elastic.Decision) {
			if d.Slots != s.Slots {
				t.Logf("%2d ended %3d in %s slots %2d -> %2d %s %s", i, s.Ended, s.Service, s.Slots, d.Slots, d.Reason, d.Detail)
			}
			last = d
		})
		require.Equal(t, 64, last.Slots)
	}
}
