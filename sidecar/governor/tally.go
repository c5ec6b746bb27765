package governor

import (
	"sync"
	"time"

	"github.com/sched-sidecar/sched/jobs"
)

// Tally is what went on since the tally before.
type Tally struct {
	Since    time.Duration
	Claimed  int
	Ended    int           // attempts with an outcome of the app's, but for those turned down, whose slots are free again
	Held     time.Duration // all that those held a slot for: from the claim's statement on until the outcome was written
	PushBack int           // attempts that the app turned down, or took too long for
	Running  float64       // attempts at once, on average
	Peak     int           // attempts at once, at most
}

// tally counts attempts as they begin and end. Safe for concurrent use.
type tally struct {
	mu      sync.Mutex
	now     Tally
	running int
	busy    time.Duration // running times time, since the tally before
	at      time.Time     // up to when busy is right
	begun   time.Time
}

// pass brings busy up to a time. Under mu.
func (t *tally) pass(at time.Time) {
	if t.at.IsZero() {
		t.at, t.begun = at, at
	}
	if passed := at.Sub(t.at); passed > 0 {
		t.busy += time.Duration(t.running) * passed
		t.at = at
	}
}

func (t *tally) begin(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass(at)
	t.running++
	t.now.Claimed++
	t.now.Peak = max(t.now.Peak, t.running)
}

// outcome notes what the app made of an attempt, and reports whether that tells how
// long a task takes. Its slot is still taken.
func (t *tally) outcome(at, deadline time.Time, outcome *jobs.Outcome) (tells bool) {
	switch {
	case outcome.Kind == jobs.OutcomeRetry && !deadline.IsZero() && !at.Before(deadline), outcome.PauseKind, outcome.TurnedDown:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.now.PushBack++
		return false
	default:
		return outcome.Kind != jobs.OutcomeHandBack && !outcome.AppDown && !outcome.UnknownKind
	}
}

// overheadMax is what of a claim, and of writing an outcome, counts as holding a slot:
// while Postgres is away slots are held for long, and more of them would change nothing.
const overheadMax = 100 * time.Millisecond

// end notes that a slot is free again, and of an attempt that tells how long tasks
// take, how long it was taken.
func (t *tally) end(at time.Time, x *attemptTimes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass(at)
	t.running--
	if x.tells {
		t.now.Ended++
		t.now.Held += min(x.started.Sub(x.asked), overheadMax) + x.ended.Sub(x.started) + min(at.Sub(x.ended), overheadMax)
	}
}

// attemptTimes is when an attempt's claim was sent, when that was answered, and when
// its outcome was known.
type attemptTimes struct {
	asked, started, ended time.Time
	tells                 bool // the outcome tells how long tasks take
}

// take returns what was counted, and begins anew.
func (t *tally) take(at time.Time) Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass(at)
	taken := t.now
	if taken.Since = at.Sub(t.begun); taken.Since > 0 {
		taken.Running = float64(t.busy) / float64(taken.Since)
	}
	t.now, t.busy, t.begun = Tally{Peak: t.running}, 0, at
	return taken
}

// Tally returns what went on since it was asked before. It is for one caller.
func (g *Governor) Tally() Tally { return g.tally.take(time.Now()) }
