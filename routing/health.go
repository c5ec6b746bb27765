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

const (
	strainedAbove   = 70.0 // load_percent
	strainedUntil   = 65.0 // it must fall to this to be good again, or weights would flap
	overloadedAbove = 85.0
	healthBeats     = 3 // in a row
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
	over   int // beats in a row above overloadedAbove
	calm   int // beats in a row not above it
	slow   int // beats in a row with a slow round trip
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
	if v.LoadPercent > overloadedAbove {
		s.calm = 0
	} else {
		s.over = 0
	}
	if s.slow++; v.RoundTrip <= slowAbove {
		s.slow = 0
	}
	switch {
	case s.over >= healthBeats:
		s.Health, reason = Overloaded, fmt.Sprintf("load %.0f %% on %d heartbeats, above %.0f %%", v.LoadPercent, healthBeats, overloadedAbove)
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
