package governor

import (
	"math"
	"slices"
	"time"
)

// A queue's waiting tasks of one priority stand in the order in which they start,
// by time and id. Where some of them are left out (their kind is paused or limited,
// or lacking in the app, or they are a canary's), a claim that begins at the front
// would read those each time, a million of them if need be. So a mark remembers up
// to where there is nothing to claim, and claims begin there.
//
// A task may also come to stand behind the mark: handed back, rescued from a dead
// worker, or committed late. Sweeps find it: one over the last seconds, and one
// over everything, each in windows of bounded size, with pauses in proportion to
// what a window costs.

const (
	// laneSecondLook is when a claim looks again for what a wake-up announced.
	laneSecondLook = 25 * time.Millisecond

	// laneStart is before the first position of all, laneOpen after the last.
	laneStart = -1
	laneOpen  = math.MaxInt64

	laneWindow = 10_000
	laneBudget = 20 * time.Millisecond
	// laneWalk bounds how long one claim goes on from window to window.
	laneWalk = 500 * time.Millisecond
	// laneLag is how far back the sweep over recent tasks goes: transactions
	// that take longer to commit are left to the whole sweep.
	laneLag = 2 * time.Second
	// laneShare: what is looked at only in case costs at most a twentieth of the time.
	laneShare      = 20
	laneRecentRest = 5 * time.Millisecond
	laneWindowRest = 20 * time.Millisecond
	laneWholeRest  = time.Second
	// laneOpenFor is how long a lane that had no more than a window is taken to be so.
	laneOpenFor = time.Second
	// laneForget is how long a lane is remembered that nobody asks for.
	laneForget = 10 * time.Minute

	priorities = 4
)

// position is a place in a lane: the task's time, in microseconds since 1970, and id.
type position struct{ us, id int64 }

func (p position) before(other position) bool {
	return p.us < other.us || p.us == other.us && p.id < other.id
}

// laneKey names a lane: one priority of a queue, and of one kind if not empty.
type laneKey struct {
	queue    string
	priority int32
	kind     string
}

// laneQueue is a queue to claim from: of its tasks those with a canary share from
// low to below high.
type laneQueue struct {
	name      string
	low, high float32
}

// lanePlan says what a claim through lanes is about.
type lanePlan struct {
	queues []laneQueue
	skip   []string // kinds that are left out, sorted
	kinds  []string // kinds with a lane of their own, although they are left out
	// alone: only those kinds are asked for.
	alone bool
	// aged: only tasks below the first priority are asked for, in turn.
	aged bool
	// workers that share the cost of the whole sweeps; at least 1.
	workers int
}

type laneRole uint8

const (
	roleMain laneRole = iota
	roleRecent
	roleWhole
)

// laneAsk is one lane of a claim.
type laneAsk struct {
	key       laneKey
	role      laneRole
	from, to  position
	low, high float32
}

// laneReport is what the claim says about its lanes, see sched.claim_lanes.
type laneReport struct {
	NowUS int64        `json:"now_us"`
	Next  int          `json:"next"`
	Lanes []laneResult `json:"lanes"`
	Flows []flowResult `json:"flows"`
}

type laneResult struct {
	Lane   int   `json:"lane"`
	Held   bool  `json:"held"`
	Taken  int   `json:"taken"`
	Ended  bool  `json:"ended"`
	LastUS int64 `json:"last_us"`
	LastID int64 `json:"last_id"`
	EndUS  int64 `json:"end_us"`
	EndID  int64 `json:"end_id"`
	TookUS int64 `json:"took_us"`
}

type flowResult struct {
	Flow    string  `json:"flow"`
	Why     string  `json:"why"`
	RetryMS float64 `json:"retry_ms"`
}

// sweep is one of the looks behind a lane's mark.
type sweep struct {
	at   position // us laneStart: at its beginning
	next time.Time
}

// lane is what is known of one.
type lane struct {
	mark position // nothing to claim was seen before it
	end  position // of the window that begins at the mark; us laneStart: not known
	open time.Time
	rest time.Time // nothing is asked of a kind's lane before

	recent, whole sweep

	skip      []string
	low, high float32
	used      time.Time
}

// lanes are all that are known. Not safe for concurrent use; clocks are passed in.
type lanes struct {
	byKey  map[laneKey]*lane
	turn   int
	ahead  time.Duration // the database's clock minus the one passed in
	forgot time.Time
}

// plan returns the lanes of a claim, in order: best priority first, each lane of a
// priority in its turn. Of what may have been overlooked one sweep comes before them,
// each in its turn, and the others last: they take what time there is, but however many
// are due, they keep no claim from what it is for.
func (l *lanes) plan(now time.Time, plan lanePlan) []laneAsk {
	if l.byKey == nil {
		l.byKey = map[laneKey]*lane{}
	}
	l.forget(now)
	l.turn++
	var sweeps, asks, mains []laneAsk
	for priority := int32(1); priority <= priorities; priority++ {
		if plan.aged && priority == 1 {
			continue
		}
		for _, queue := range plan.queues {
			kinds := plan.kinds
			if !plan.alone {
				kinds = append([]string{""}, kinds...)
			}
			for _, kind := range kinds {
				key := laneKey{queue: queue.name, priority: priority, kind: kind}
				lane := l.get(key, now, queue, plan.skip)
				if kind != "" && now.Before(lane.rest) {
					continue
				}
				if !plan.aged {
					sweeps = append(sweeps, lane.sweeps(key, now, now.Add(l.ahead))...)
				}
				mains = append(mains, lane.main(key, now))
			}
		}
		if !plan.aged {
			asks, mains = append(asks, rotated(mains, l.turn)...), nil
		}
	}
	asks = append(asks, rotated(mains, l.turn)...)
	if sweeps = rotated(sweeps, l.turn); len(sweeps) > 0 {
		return slices.Concat(sweeps[:1], asks, sweeps[1:])
	}
	return asks
}

func rotated(asks []laneAsk, by int) []laneAsk {
	if len(asks) == 0 {
		return nil
	}
	first := by % len(asks)
	return slices.Concat(asks[first:], asks[:first])
}

// get returns a lane, with its marks gone when they were made without tasks that
// count now.
func (l *lanes) get(key laneKey, now time.Time, queue laneQueue, skip []string) *lane {
	if key.kind != "" {
		skip = nil
	}
	known := l.byKey[key]
	if known == nil || known.low > queue.low || known.high < queue.high || !subset(known.skip, skip) {
		known = &lane{mark: position{us: laneStart}, end: position{us: laneStart}}
		known.recent.at.us, known.whole.at.us = laneStart, laneStart
		l.byKey[key] = known
	}
	known.low, known.high, known.skip, known.used = queue.low, queue.high, skip, now
	return known
}

// subset reports whether all of one sorted list is in another.
func subset(small, large []string) bool {
	for _, s := range small {
		if _, found := slices.BinarySearch(large, s); !found {
			return false
		}
	}
	return true
}

func (l *lane) main(key laneKey, now time.Time) laneAsk {
	if l.end.us == laneOpen && now.Sub(l.open) > laneOpenFor {
		l.end = position{us: laneStart}
	}
	return laneAsk{key: key, role: roleMain, from: l.mark, to: l.end, low: l.low, high: l.high}
}

// sweeps returns those that are due. DatabaseNow is the database's time.
func (l *lane) sweeps(key laneKey, now, databaseNow time.Time) []laneAsk {
	if l.mark.us == laneStart {
		return nil
	}
	unknown := position{us: laneStart}
	var asks []laneAsk
	if lagged := (position{us: databaseNow.Add(-laneLag).UnixMicro()}); lagged.before(l.mark) && !now.Before(l.recent.next) {
		if l.recent.at.us == laneStart {
			l.recent.at = lagged
		}
		asks = append(asks, laneAsk{key: key, role: roleRecent, from: l.recent.at, to: unknown, low: l.low, high: l.high})
	}
	if !now.Before(l.whole.next) {
		asks = append(asks, laneAsk{key: key, role: roleWhole, from: l.whole.at, to: unknown, low: l.low, high: l.high})
	}
	return asks
}

// learn takes what a claim found, in how much time beyond a heartbeat, and reports whether
// there may be more to claim at once.
func (l *lanes) learn(now time.Time, asks []laneAsk, report *laneReport, workers int, took time.Duration) (more bool) {
	l.ahead = time.UnixMicro(report.NowUS).Sub(now)
	seen := make([]*laneResult, len(asks))
	for i := range report.Lanes {
		if n := report.Lanes[i].Lane; n >= 0 && n < len(asks) {
			seen[n] = &report.Lanes[i]
		}
	}
	spent := make(map[string]bool, len(report.Flows))
	for _, flow := range report.Flows {
		spent[flow.Flow] = true
	}
	for i := range asks {
		ask, result := &asks[i], seen[i]
		known := l.byKey[ask.key]
		left := false
		switch {
		case report.Next >= 0 && i >= report.Next:
			// It and those behind it were not looked at; what may have been overlooked can wait.
			return more || slices.ContainsFunc(asks[i:], func(ask laneAsk) bool { return ask.role == roleMain })
		case known == nil || result != nil && result.Held:
		case ask.role == roleMain:
			left = known.learnMain(now, ask.key, report.NowUS, result)
		case ask.role == roleRecent:
			left = known.learnSweep(&known.recent, now, result, laneRecentRest, laneRecentRest, 1)
		default:
			rest := laneWholeRest
			if took > dragLeast { // to find nothing costs, too, where dead rows are in the way
				rest = max(rest, laneShare*took*time.Duration(workers))
			}
			left = known.learnSweep(&known.whole, now, result, laneWindowRest, rest, workers)
		}
		more = more || left && !spent[flowOfQueue(ask.key.queue)] && !(ask.key.kind != "" && spent[flowOfKind(ask.key.kind)])
	}
	return more
}

// learnMain moves the mark. A result of nil says that no task of any kind was
// behind it.
func (l *lane) learnMain(now time.Time, key laneKey, nowUS int64, result *laneResult) (more bool) {
	tail := position{us: nowUS}
	if result == nil {
		l.advance(tail)
		return false
	}
	took := time.Duration(result.TookUS) * time.Microsecond
	if end := (position{result.EndUS, result.EndID}); end.us != l.end.us || end.id != l.end.id {
		l.end, l.open = end, now
	}
	if result.Taken > 0 {
		l.mark = position{result.LastUS, result.LastID}
	}
	switch {
	case !result.Ended:
		return true // as many as were asked for, or as a limit let through
	case l.end.us == laneOpen:
		l.advance(tail)
		if key.kind != "" && result.Taken == 0 {
			l.rest = now.Add(laneShare * took)
		}
		return false
	default:
		l.mark, l.end = l.end, position{us: laneStart}
		return true
	}
}

// advance moves the mark to where the lane ended when it was looked at.
func (l *lane) advance(to position) {
	if l.mark.before(to) {
		l.mark = to
	}
}

// learnSweep moves a sweep on by a window, or back to its beginning.
func (l *lane) learnSweep(s *sweep, now time.Time, result *laneResult, rest, wholeRest time.Duration, workers int) (more bool) {
	if result == nil {
		s.at, s.next = position{us: laneStart}, now.Add(wholeRest)
		return false
	}
	if !result.Ended {
		s.at, s.next = position{result.LastUS, result.LastID}, now
		return true
	}
	pace := laneShare * time.Duration(workers) * time.Duration(result.TookUS) * time.Microsecond
	end := position{result.EndUS, result.EndID}
	if end.us == laneOpen || !end.before(l.mark) {
		s.at, s.next = position{us: laneStart}, now.Add(max(wholeRest, pace))
		return false
	}
	s.at, s.next = end, now.Add(max(rest, pace))
	return false
}

// forget drops lanes that were not asked for in a long time.
func (l *lanes) forget(now time.Time) {
	if now.Sub(l.forgot) < time.Minute {
		return
	}
	l.forgot = now
	for key, lane := range l.byKey {
		if now.Sub(lane.used) > laneForget {
			delete(l.byKey, key)
		}
	}
}

// flowOfQueue and flowOfKind name flows as sched.claim_lanes does.
func flowOfQueue(queue string) string { return "queue:" + queue }
func flowOfKind(kind string) string   { return "kind:" + kind }
