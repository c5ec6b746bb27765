package simulate

import (
	"time"

	"github.com/sched-sidecar/sched/elastic"
)

// Policy is what decides about slots.
type Policy string

// The policies.
const (
	Elastic  Policy = "elastic"   // package elastic
	Reactive Policy = "reactive"  // by how many slots are taken, as autoscalers do
	FixedMin Policy = "fixed-min" // the least slots
	FixedMax Policy = "fixed-max" // the ceiling
)

// Policies returns all of them.
func Policies() []Policy { return []Policy{Elastic, Reactive, FixedMin, FixedMax} }

// decider decides for one worker, each second.
type decider interface {
	decide(now time.Time, s elastic.Sample) (slots int, reason elastic.Reason)
}

type elasticPolicy struct{ *elastic.Controller }

func (p elasticPolicy) decide(now time.Time, s elastic.Sample) (int, elastic.Reason) {
	d := p.Decide(now, s)
	return d.Slots, d.Reason
}

type fixed int

func (f fixed) decide(time.Time, elastic.Sample) (int, elastic.Reason) {
	return int(f), elastic.ReasonHold
}

// reactive grows by a quarter when four fifths of the slots were taken, and
// shrinks by a tenth when less than half of them were for a while.
type reactive struct {
	settings elastic.Settings
	calm     time.Time
}

func (r *reactive) decide(now time.Time, s elastic.Sample) (int, elastic.Reason) {
	used := s.Running / float64(max(s.Slots, 1))
	if used >= 0.5 {
		r.calm = now
	}
	switch {
	case used > 0.8:
		return min(s.Slots+max(1, s.Slots/4), s.Ceiling), elastic.ReasonDemand
	case now.Sub(r.calm) >= r.settings.Cooldown:
		return max(s.Slots-max(1, s.Slots/10), min(r.settings.Min, s.Ceiling)), elastic.ReasonDemand
	}
	return s.Slots, elastic.ReasonHold
}
