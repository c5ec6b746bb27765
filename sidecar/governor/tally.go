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
	Ended    int           // attempts with an outcome of the app's, but for those turned down
	Held     time.Duration // all that those held a slot for
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

// outcome notes what the app made of an attempt. Its slot is still taken.
func (t *tally) outcome(at, started, deadline time.Time, outcome *jobs.Outcome) {
	late := outcome.Kind == jobs.OutcomeRetry && !deadline.IsZero() && !at.Before(deadline)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case late || outcome.PauseKind:
		t.now.PushBack++
	case outcome.Kind == jobs.OutcomeHandBack || outcome.AppDown || outcome.UnknownKind:
	default:
		t.now.Ended++
		t.now.Held += at.Sub(started)
	}
}

func (t *tally) end(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass(at)
	t.running--
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
