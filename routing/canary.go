package routing

import (
	"fmt"
	"time"
)

// canaryLabel and canaryTrack mark a worker as a canary: track=canary.
const (
	canaryLabel = "track"
	canaryTrack = "canary"
)

// How many attempts must have ended before anything is said of a track. Fewer
// than canaryAttempts tell nothing, unless canaryFailures of them failed.
const (
	canaryAttempts = 20
	canaryFailures = 3
)

// rounding keeps a measure that is just at its bound from being above it.
const rounding = 1e-6

// The states of a canary.
const (
	CanaryOff        = "off"
	CanaryRising     = "rising"
	CanaryHeld       = "held"
	CanaryFull       = "full"
	CanaryRolledBack = "rolled_back"
)

// CanaryRules are how a queue's canary share may rise.
type CanaryRules struct {
	Steps             []float64     // percent, rising
	Hold              time.Duration // the measures must have been good for so long
	MaxP95            time.Duration // most by which the 95th percentiles of run time may differ
	MaxErrorPoints    float64       // most by which the error rate may be higher, in points
	MaxCPUPoints      float64       // most by which cpu may be higher, in points
	AbortErrorPercent float64       // error rate above which it goes back to 0
}

// CanaryState is where a queue's canary stands.
type CanaryState struct {
	Percent float64
	State   string
	Since   time.Duration // for how long the measures have been good at this percent
	Workers int           // canary workers assigned
}

// Track is what was measured of one side since the step began.
type Track struct {
	Attempts int // that ended
	Errors   int // of them failed
	P95      time.Duration
	CPU      float64 // mean of its workers, 0 to 1
}

func (t Track) errorPercent() float64 {
	if t.Attempts == 0 {
		return 0
	}
	return 100 * float64(t.Errors) / float64(t.Attempts)
}

// CanaryStep is what NextCanary decided.
type CanaryStep struct {
	Percent float64
	State   string
	// Again: the measures were not good, so the hold begins anew.
	Again  bool
	Reason string
}

// NextCanary decides on the next step of a canary. Only one that rises moves. Its
// first step is taken as soon as it has a worker; each further one after the measures
// have been good for the whole hold, and so does it become full at 100 %, where nobody
// is left to compare with. Above the error rate of the rules it goes back to
// 0 and stays there until an operator lets it rise again.
func NextCanary(r CanaryRules, s CanaryState, canary, others Track) CanaryStep {
	stay := func(again bool, format string, args ...any) CanaryStep {
		return CanaryStep{Percent: s.Percent, State: s.State, Again: again, Reason: fmt.Sprintf(format, args...)}
	}
	if s.State != CanaryRising {
		return CanaryStep{Percent: s.Percent, State: s.State}
	}
	enough := canary.Attempts >= canaryAttempts || canary.Errors >= canaryFailures
	if s.Percent > 0 && enough && canary.errorPercent() > r.AbortErrorPercent+rounding {
		return CanaryStep{State: CanaryRolledBack, Reason: fmt.Sprintf("%d of %d attempts failed on the canary: %.2f %%, above %g %%",
			canary.Errors, canary.Attempts, canary.errorPercent(), r.AbortErrorPercent)}
	}
	if s.Workers == 0 {
		return stay(true, "no canary worker is assigned: all tasks go to the others")
	}
	next := nextPercent(r.Steps, s.Percent)
	if s.Percent > 0 {
		if bad := compareTracks(r, canary, others); bad != "" {
			return stay(true, "%s", bad)
		}
		if canary.Attempts < canaryAttempts {
			return stay(false, "too few attempts ended on the canary to go on: %d of %d", canary.Attempts, canaryAttempts)
		}
		if others.Attempts < canaryAttempts && s.Percent < 100 {
			return stay(false, "too few attempts ended on the others to compare: %d of %d", others.Attempts, canaryAttempts)
		}
		if s.Since < r.Hold {
			return stay(false, "the measures are good; held for %s", r.Hold)
		}
	}
	step := CanaryStep{Percent: next, State: CanaryRising, Reason: fmt.Sprintf("the measures were good for %s", r.Hold)}
	if s.Percent == 0 {
		step.Reason = "the first step"
	}
	if s.Percent >= 100 {
		step.State = CanaryFull
	}
	return step
}

// compareTracks says what is not good enough about the canary. Empty: all is, or
// too little is known of one side.
func compareTracks(r CanaryRules, canary, others Track) string {
	if canary.Attempts < canaryAttempts || others.Attempts < canaryAttempts {
		return ""
	}
	if apart := (canary.P95 - others.P95).Abs(); apart > r.MaxP95 {
		return fmt.Sprintf("the 95th percentiles of run time differ by %s, above %s: %s on the canary, %s on the others",
			apart.Round(time.Millisecond/10), r.MaxP95, canary.P95.Round(time.Millisecond/10), others.P95.Round(time.Millisecond/10))
	}
	if points := canary.errorPercent() - others.errorPercent(); points > r.MaxErrorPoints+rounding {
		return fmt.Sprintf("the canary's error rate is %.2f points higher, above %g: %.2f %% and %.2f %%",
			points, r.MaxErrorPoints, canary.errorPercent(), others.errorPercent())
	}
	if points := 100 * (canary.CPU - others.CPU); points > r.MaxCPUPoints+rounding {
		return fmt.Sprintf("the canary's cpu is %.1f points higher, above %g: %.1f %% and %.1f %%",
			points, r.MaxCPUPoints, 100*canary.CPU, 100*others.CPU)
	}
	return ""
}

// nextPercent is the first step above percent, or 100 after the last.
func nextPercent(steps []float64, percent float64) float64 {
	next := 100.0
	for _, step := range steps {
		if step > percent && step < next {
			next = step
		}
	}
	return next
}
