package routing

import (
	"fmt"
	"time"
)

// Health is a worker's soft state.
type Health string

// The soft states of a worker.
const (
	Good       Health = "good"
	Strained   Health = "strained"   // half the weight; a hint to scale out
	Overloaded Health = "overloaded" // no claims, no assignments
)

// OverloadedAbove is the load_percent above which a worker comes to be overloaded.
const OverloadedAbove = 85.0

const (
	strainedAbove = 70.0 // load_percent
	strainedUntil = 65.0 // it must fall to this to be good again, or weights would flap
	healthBeats   = 3    // in a row
	// slowAbove is a round trip of heartbeats to Postgres that strains a worker: each
	// of its claims and settles takes as long.
	slowAbove = 500 * time.Millisecond
)

// Vitals are what a heartbeat tells about a worker.
type Vitals struct {
	Seq         int64 // of the heartbeat
	LoadPercent float64
	RoundTrip   time.Duration
}

// HealthState is a worker's health with what is needed to decide the next.
type HealthState struct {
	Health Health
	seq    int64
	over   int // beats in a row above OverloadedAbove
	calm   int // beats in a row not above it
	slow   int // beats in a row with a slow round trip
}

// AppLoad is what is known of the load of an app.
type AppLoad struct {
	CPU, Mem float64 // measured, 0 to 1 of what it may use; 0: not known
	Report   float64 // its own word, 0 to 100
	Reported bool
	// Sized: its slots follow its cpu, so that a busy one is no reason to hold claims.
	Sized bool
}

// Percent is what claims and weights go by, 0 to 100: the app's own report, else the
// higher one of its cpu and memory. Of these memory, and the cpu of an app that is
// sized, strain a worker at most: fewer slots answer them, see [AppLoad.Short].
func (a AppLoad) Percent() float64 {
	if a.Reported {
		return a.Report
	}
	cpu := 100 * a.CPU
	if a.Sized {
		cpu = min(cpu, OverloadedAbove)
	}
	return max(cpu, min(100*a.Mem, OverloadedAbove))
}

// Short is the memory that counts for whether an app is given one task at a time, 0 to
// 100. A report says that the app knows better.
func (a AppLoad) Short() float64 {
	if a.Reported {
		return 0
	}
	return 100 * a.Mem
}

// Next decides the health after a heartbeat, and says why if it changed. The same
// heartbeat seen again changes nothing.
//
// Overloaded after three beats above 85 %; not any more after three that are not, or
// one at most 65 %. Strained above 70 %, or after three slow round trips, until 65 %.
func (s HealthState) Next(v Vitals) (next HealthState, reason string) {
	if v.Seq == s.seq {
		return s, ""
	}
	before := s.Health
	s.seq = v.Seq
	s.over, s.calm = s.over+1, s.calm+1
	if v.LoadPercent > OverloadedAbove {
		s.calm = 0
	} else {
		s.over = 0
	}
	if s.slow++; v.RoundTrip <= slowAbove {
		s.slow = 0
	}
	switch {
	case s.over >= healthBeats:
		s.Health, reason = Overloaded, fmt.Sprintf("load %.0f %% on %d heartbeats, above %.0f %%", v.LoadPercent, healthBeats, OverloadedAbove)
	case before == Overloaded && s.calm < healthBeats && v.LoadPercent > strainedUntil:
		reason = ""
	case v.LoadPercent > strainedAbove:
		s.Health, reason = Strained, fmt.Sprintf("load %.0f %%, above %.0f %%", v.LoadPercent, strainedAbove)
	case s.slow >= healthBeats:
		s.Health, reason = Strained, fmt.Sprintf("round trip to Postgres %s on %d heartbeats, above %s", v.RoundTrip.Round(time.Millisecond), healthBeats, slowAbove)
	case v.LoadPercent > strainedUntil && before != Good:
		s.Health, reason = Strained, fmt.Sprintf("load %.0f %%, not yet down to %.0f %%", v.LoadPercent, strainedUntil)
	default:
		s.Health, reason = Good, fmt.Sprintf("load %.0f %%, at most %.0f %%", v.LoadPercent, strainedAbove)
	}
	if s.Health == before {
		reason = ""
	}
	return s, reason
}
