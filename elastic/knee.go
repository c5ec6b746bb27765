package elastic

import (
	"fmt"
	"time"
)

const (
	// levelTasks is how many tasks must have ended at a number of slots before it
	// counts as measured; levelTasksMost is what a small change takes, whose effect
	// is as small; levelPatience is when fewer have to do.
	levelTasks     = 25
	levelTasksMost = 400
	levelPatience  = 10 * time.Second
	// fewTasks is how many must have ended for the time that they took to judge a
	// growth by fewSteps of the slots or more, where fewer than levelTasks did: a mean
	// of so few is a fifth off now and then, where that growth would make it a half.
	fewTasks = 5
	fewSteps = 0.5

	// growthWorth is the part of an increase of slots that must come back as tasks
	// a second, or the increase was for nothing.
	growthWorth = 0.5
	// cutFree is the part of the best rate that must be left after a cut for it to
	// have cost nothing.
	cutFree = 0.96
	// An app that keeps coresBusy or more computes: it ends as many tasks as it gets cpu.
	// There a cut has cost nothing if computeFree of the cpu that was in use is, or of the
	// rate is left, as long as cutLeast of the rate are: what else is missing of it is
	// chance, and the machine's own ups and downs.
	coresBusy   = 0.8
	computeFree = 0.97
	cutLeast    = 0.85
	// cutTo and growBy are how far a trial goes.
	cutTo  = 0.75
	growBy = 1.25
	// A growth that brought less than flat leaves much to cut: by half at a time.
	flat      = 1.3
	cutDeepTo = 0.5
	// growthPatience is how long a growth that waits for its judgement is the last, or
	// growthServices times what a task takes, where that is longer: after the first of
	// them only what began with the growth ends. growthPatienceMax bounds both.
	growthPatience    = 3 * time.Second
	growthPatienceMax = 10 * time.Second
	growthServices    = 2.5
	// slower is by how much a task must take longer than at best for a cut to be
	// worth a trial; asFast is where there is nothing left to gain by one.
	slower = 1.3
	asFast = 1.15

	trialPause    = 30 * time.Second // between trials; doubles each time
	afterCuts     = 4                // times as long, before more are tried after cuts
	trialPauseMax = 5 * time.Minute
	// kneeForgets is after how long without saturation all is forgotten.
	kneeForgets = 5 * time.Minute
)

// knee finds the number of slots beyond which an app ends no more tasks a second
// and only takes longer for each: its cores, its own downstream or a lock are
// busy. It acts only while slots are what work waits for, and each of its moves
// is a trial that is judged by the rate at which tasks end, and undone when it
// cost something: a latency that rose for another reason costs no slots.
//
// That more in flight than rate × least latency only queues, and that it takes
// trials to tell, is from congestion control: Brakmo and Peterson, "TCP Vegas"
// (1994); Cardwell et al., "BBR: Congestion-Based Congestion Control" (2016);
// Netflix's concurrency-limits and failsafe-go's adaptive limiter bring it to
// calls. Judging by the rate instead of a remembered latency is Heiss and Wagner,
// "Adaptive Load Control in Transaction Processing Systems" (VLDB 1991).
type knee struct {
	now    level
	before level   // the measured level of fewer slots, before the last growth
	grown  bool    // the last growth is yet to be judged
	low    float64 // the least time that a task took, in seconds
	lowAt  int     // slots at which it did
	lowEnd float64 // tasks a second that ended there
	limit  int     // growing beyond was for nothing; 0: not known
	deep   bool    // cuts are deep
	probed bool

	trying trial
	from   int  // slots to go back to
	target int  // slots under trial
	best   mark // what the trial is judged by

	next      time.Time // no trial before
	pause     time.Duration
	saturated time.Time // last
}

type trial uint8

const (
	trialNone trial = iota
	trialCut
	trialGrow
)

// level is what was measured at a number of slots, while it was saturated.
type level struct {
	slots   int
	since   time.Time
	seconds float64
	ended   float64
	held    float64 // slot-seconds
	cpu     float64 // core-seconds
}

func (l level) rate() float64    { return l.ended / l.seconds }
func (l level) latency() float64 { return l.held / l.ended }

// with is both levels together.
func (l level) with(o level) level {
	l.seconds, l.ended, l.held, l.cpu = l.seconds+o.seconds, l.ended+o.ended, l.held+o.held, l.cpu+o.cpu
	return l
}

func (l level) mark() mark { return mark{l.rate(), l.cpu / l.seconds} }

// mark is what a trial is judged by.
type mark struct {
	rate float64 // tasks a second
	cpu  float64 // cores in use meanwhile; 0: not known
}

func (m mark) most(o mark) mark { return mark{max(m.rate, o.rate), max(m.cpu, o.cpu)} }

// free reports whether a cut that left so much cost nothing.
func (m mark) free(best mark) bool {
	if best.cpu < coresBusy {
		return m.rate >= cutFree*best.rate
	}
	return m.rate >= cutLeast*best.rate && (m.cpu >= computeFree*best.cpu || m.rate >= computeFree*best.rate)
}

// measured reports whether enough tasks ended to judge a change of slots by a
// share of frac.
func (l level) measured(at time.Time, frac float64) bool {
	enough := min(max(25/(frac*frac), levelTasks), levelTasksMost)
	return l.ended >= enough || (l.ended >= levelTasks && at.Sub(l.since) >= levelPatience)
}

// move is what a knee wants.
type move struct {
	slots  int
	detail string
}

// observe takes a second of measurements and says where to go, if anywhere. hot:
// cpu has nothing left; headroom: there is some to grow into.
func (k *knee) observe(at time.Time, dt float64, s Sample, least int, hot, headroom bool) (move, bool) {
	k.enter(at, dt, s)
	if !saturated(s) {
		k.rest(at)
		return move{}, false
	}
	k.saturated = at
	if offset := at.Sub(k.now.since).Seconds() - dt; offset < s.Service.Seconds()-dt/4 {
		return move{}, false // what ended began at the level before
	}
	k.now.seconds += dt
	k.now.ended += float64(s.Ended)
	k.now.held += float64(s.Ended) * s.Service.Seconds()
	k.now.cpu += s.CPU * s.Cores * dt
	switch k.trying {
	case trialCut:
		return k.judgeCut(at, least)
	case trialGrow:
		return k.judgeGrowth(at)
	case trialNone:
	}
	if m, ok := k.judgeStep(at, least); ok {
		return m, ok
	}
	return k.try(at, s, least, hot, headroom)
}

// saturated reports whether slots are what work waits for.
func saturated(s Sample) bool {
	return s.Pending > 0 && s.Slots > 0 && s.Peak >= s.Slots && s.Running >= 0.9*float64(s.Slots)
}

// enter begins a level when the slots moved.
func (k *knee) enter(at time.Time, dt float64, s Sample) {
	if k.pause == 0 {
		k.pause = trialPause
	}
	if s.Slots == k.now.slots {
		return
	}
	if k.trying != trialNone && s.Slots != k.target {
		k.end(at) // somebody else moved them
	}
	if s.Slots < k.now.slots && k.trying == trialNone {
		k.before = level{}
	} else if k.now.ended >= fewTasks {
		k.before = k.now
	}
	k.grown = s.Slots > k.now.slots && k.now.slots > 0 && k.trying == trialNone && (k.limit == 0 || s.Slots > k.limit) && k.recently(at)
	k.now = level{slots: s.Slots, since: at.Add(-time.Duration(dt * float64(time.Second)))}
}

// rest goes on without saturation: trials end, and at last all is forgotten.
func (k *knee) rest(at time.Time) {
	if k.trying != trialNone && at.Sub(k.saturated) > levelPatience {
		k.end(at)
	}
	if k.known() && at.Sub(k.saturated) > kneeForgets {
		*k = knee{now: level{slots: k.now.slots, since: at}, pause: trialPause}
	}
}

// recently reports whether slots were what work waited for a moment ago.
func (k *knee) recently(at time.Time) bool { return at.Sub(k.saturated) <= growthPatience }

// patience is how long a growth waits for its judgement where a task takes so many
// seconds.
func patience(service float64) time.Duration {
	return time.Duration(min(max(growthServices*service, growthPatience.Seconds()), growthPatienceMax.Seconds()) * float64(time.Second))
}

// ceiling bounds a number of slots to what is known to be of use, or will be in a
// moment; service is what a task takes, in seconds.
func (k *knee) ceiling(at time.Time, slots int, service float64) int {
	switch {
	case k.grown && k.recently(at) && at.Sub(k.now.since) < patience(service):
		return min(slots, k.now.slots)
	case k.trying != trialNone:
		return min(slots, k.target)
	case k.limit > 0:
		return min(slots, k.limit)
	}
	return slots
}

// known reports whether there is anything to forget.
func (k *knee) known() bool { return k.limit > 0 || k.low > 0 || k.probed }

func (k *knee) end(at time.Time) {
	k.trying, k.target, k.best = trialNone, 0, mark{}
	k.next = at.Add(k.pause)
	k.pause = min(2*k.pause, trialPauseMax)
}

// endCut ends cuts. What more slots bring was seen on the way down, so that it takes
// longer until they are tried.
func (k *knee) endCut(at time.Time) {
	pause := k.pause
	k.end(at)
	k.next = at.Add(afterCuts * pause)
}

// judgeStep judges the last growth that was no trial.
func (k *knee) judgeStep(at time.Time, least int) (move, bool) {
	if k.before.slots == 0 || k.before.slots >= k.now.slots || (k.limit > 0 && k.now.slots <= k.limit) {
		return move{}, false
	}
	frac := float64(k.now.slots)/float64(k.before.slots) - 1
	if !k.now.measured(at, frac) || k.before.ended < levelTasks {
		return k.judgeFew(at, frac, least)
	}
	before := k.before
	k.grown = false
	k.note(before)
	k.note(k.now)
	k.probed = true
	k.before = level{}
	if k.now.rate() >= before.rate()*(1+growthWorth*frac) || k.now.latency() < before.latency()*(1+growthWorth*frac/2) {
		return move{}, false
	}
	// For nothing, or for little: look from here where the rate begins to fall.
	k.limit, k.best, k.from = k.now.slots, before.mark().most(k.now.mark()), k.now.slots
	if k.deep = frac >= 0.5 && k.now.rate() < flat*before.rate(); k.deep { // both say the same
		k.best = before.with(k.now).mark()
	}
	to := k.cut()
	if before.rate() >= cutFree*k.now.rate() {
		to = before.slots
	}
	return k.tryCut(max(to, least), fmt.Sprintf("%d slots end %.3g tasks/s, %d ended %.3g", k.now.slots, k.now.rate(), before.slots, before.rate()))
}

// judgeFew judges a growth after which few tasks ended, by the time that they took: it
// rises with the slots where these bring nothing. What can't be told yet waits; what is
// clear is undone, and tried again later.
func (k *knee) judgeFew(at time.Time, frac float64, least int) (move, bool) {
	before := k.before
	if frac < fewSteps || min(k.now.ended, before.ended) < fewTasks {
		return move{}, false
	}
	slower := k.now.latency() / before.latency()
	if slower < 1+growthWorth*frac {
		if slower < 1+growthWorth*frac/2 {
			k.grown = false
		}
		return move{}, false
	}
	k.grown, k.before, k.limit = false, level{}, max(before.slots, least)
	k.end(at)
	return move{k.limit, fmt.Sprintf("%d slots take %s a task, %d took %s", k.now.slots, seconds(k.now.latency()), before.slots, seconds(before.latency()))}, k.limit < k.now.slots
}

// note remembers the least time that a task took.
func (k *knee) note(l level) {
	if latency := l.latency(); k.low == 0 || latency < k.low {
		k.low, k.lowAt, k.lowEnd = latency, l.slots, l.rate()
	}
}

// depth is what part of the slots a cut leaves.
func (k *knee) depth() float64 {
	if k.deep {
		return cutDeepTo
	}
	return cutTo
}

func (k *knee) cut() int { return min(int(k.depth()*float64(k.now.slots)), k.now.slots-1) }

func (k *knee) tryCut(to int, detail string) (move, bool) {
	if to >= k.now.slots {
		return move{}, false
	}
	k.trying, k.target = trialCut, to
	return move{to, detail}, true
}

// judgeCut goes on cutting while that costs nothing.
func (k *knee) judgeCut(at time.Time, least int) (move, bool) {
	// The tasks that ran at once begin and end together for a while, so that a deep
	// cut takes more of them to judge than its effect alone would.
	if !k.now.measured(at, 0.7*(1-k.depth())) {
		if at.Sub(k.now.since) < 2*levelPatience {
			return move{}, false
		}
		// Before the cut as many as it takes ended in half of that.
		from := k.from
		k.limit = from
		k.endCut(at)
		return move{from, fmt.Sprintf("with %d slots next to nothing ends", k.now.slots)}, true
	}
	slots, left := k.now.slots, k.now.mark()
	rate := left.rate
	if !left.free(k.best) {
		best, from := k.best.rate, k.from
		k.limit = from
		if k.deep { // less of it may cost nothing
			k.note(k.now)
			k.deep, k.trying, k.target, k.next = false, trialNone, 0, at
		} else {
			k.low = 0 // it is slow for another reason, or this is the knee
			k.endCut(at)
		}
		return move{from, fmt.Sprintf("%d slots end %.3g tasks/s, %d ended %.3g", slots, rate, from, best)}, true
	}
	// As fast as with fewer slots, which ended fewer tasks: they would only cost.
	fastest := k.low > 0 && k.lowAt < slots && k.lowEnd < cutFree*rate && k.now.latency() <= asFast*k.low
	k.note(k.now)
	k.limit, k.from, k.best = slots, slots, k.best.most(left)
	to := k.cut()
	if to < least || fastest {
		k.endCut(at)
		return move{}, false
	}
	return k.tryCut(to, fmt.Sprintf("%d slots end as many tasks, %.3g/s", slots, rate))
}

// judgeGrowth undoes a growth beyond the limit that was for nothing, and lifts
// the limit otherwise.
func (k *knee) judgeGrowth(at time.Time) (move, bool) {
	frac := float64(k.now.slots)/float64(k.from) - 1
	if !k.now.measured(at, frac) {
		return move{}, false
	}
	slots, rate, best, from := k.now.slots, k.now.rate(), k.best.rate, k.from
	k.before = level{}
	k.end(at)
	if rate >= best*(1+growthWorth*frac) {
		k.limit, k.pause, k.next = 0, trialPause, at
		return move{}, false
	}
	k.limit = from
	return move{from, fmt.Sprintf("%d slots end %.3g tasks/s, %d ended %.3g", slots, rate, from, best)}, true
}

// try begins a trial when it is time for one.
func (k *knee) try(at time.Time, s Sample, least int, hot, headroom bool) (move, bool) {
	if at.Before(k.next) || !k.now.measured(at, 1-cutTo) {
		return move{}, false
	}
	k.note(k.now)
	// Where slots began high, nothing is known of fewer.
	blind := !k.probed && (s.Slots == s.Ceiling || !headroom) && at.Sub(k.now.since) >= levelPatience/2
	if to := k.cut(); to >= least && (hot || blind || k.now.latency() >= slower*k.low) {
		why := fmt.Sprintf("tasks take %s, at best %s", seconds(k.now.latency()), seconds(k.low))
		switch {
		case hot:
			why = "no cpu is left"
		case blind:
			why = "fewer were never tried"
		}
		k.probed, k.best, k.from, k.limit = true, k.now.mark(), k.now.slots, k.now.slots
		return k.tryCut(to, why+": trying fewer slots")
	}
	if to := min(int(growBy*float64(s.Slots)+0.999), s.Ceiling); k.limit > 0 && s.Slots >= k.limit && headroom && to > s.Slots {
		k.trying, k.target, k.best, k.from = trialGrow, to, k.now.mark(), s.Slots
		k.limit = to
		return move{to, "trying more slots"}, true
	}
	return move{}, false
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond)
}
