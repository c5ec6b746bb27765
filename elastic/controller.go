package elastic

import (
	"math"
	"time"
)

const (
	// StaleAfter is the age from which a sample is not acted on.
	StaleAfter = 3 * time.Second
	// Headroom is the cpu and memory, of all that the app may use, from which on no
	// slots are added.
	Headroom = 0.85
	// Full is the cpu or memory from which on slots are taken away.
	Full = 0.95

	// staffing is how many slots are kept above the demand, in square roots of it.
	// Work that arrives at random waits more the fewer of n slots are free, and √n
	// free ones keep the wait the same at any size: Halfin and Whitt, "Heavy-traffic
	// limits for queues with many exponential servers" (1981).
	staffing = 2
	// serviceMemory is over how many seconds the time that tasks take is averaged.
	serviceMemory = 5
	// nothing is the tasks a second, or the slots, below which what is left of traffic
	// that ended counts as none.
	nothing = 1e-3
)

// Reason says what decided.
type Reason string

// The reasons.
const (
	ReasonDemand   Reason = "demand"    // what arrives and waits needs more, or has long needed fewer
	ReasonJoint    Reason = "joint"     // the score is above the threshold
	ReasonShed     Reason = "shed"      // fewer do as well, or memory runs out
	ReasonPushBack Reason = "push-back" // the app turns attempts down
	ReasonCooldown Reason = "cooldown"  // fewer would do, but not for long enough yet
	ReasonFrozen   Reason = "frozen"    // the app is down
	ReasonHold     Reason = "hold"      // enough, or no room for more
	ReasonStale    Reason = "stale"     // the sample is too old
)

// Reasons returns all of them.
func Reasons() []Reason {
	return []Reason{ReasonDemand, ReasonJoint, ReasonShed, ReasonPushBack, ReasonCooldown, ReasonFrozen, ReasonHold, ReasonStale}
}

// Sample is what a worker measured since its sample before.
type Sample struct {
	At       time.Time // when the oldest part of it was measured
	Slots    int       // in force
	Ceiling  int
	Arrivals float64       // tasks a second that came due: this worker's share
	Ended    int           // attempts that ended, those that were turned down not counted
	Service  time.Duration // mean time that those held a slot
	Pending  int           // tasks that are due and wait: this worker's share
	Waiting  int           // the same of all workers together, for the score
	Running  float64       // slots taken, on average
	Peak     int           // slots taken, at most
	CPU, Mem float64       // of what the app may use, 0 to 1
	Cores    float64       // that CPU is a part of; 0: not known, or the app's own word
	PushBack int           // attempts that the app turned down: 429, 503, timeouts
	AppDown  bool
	Observed bool // nothing is moved: Slots are what there would be, all else is what there is
}

// Decision is how many slots there should be from now on, and why.
type Decision struct {
	Slots  int
	Reason Reason
	Detail string // the reason in words and numbers; empty when there is nothing to add

	Forecast   float64       // tasks a second that will arrive
	ErrorRatio float64       // (actual − predicted) ÷ actual of the last second
	Service    time.Duration // that a task takes; 0: not known yet
	Demand     float64       // slots that arrivals and backlog take, without reserve
	Want       int           // slots that demand asks for, with its reserve; may be above the ceiling
	Score      Score
	ScaleOut   bool   // the fleet needs more workers: this one may not grow and should
	Refit      *Refit // the forecast's smoothing was fitted anew
}

// Forecaster predicts arrivals; see [Forecast].
type Forecaster interface {
	Observe(at time.Time, rate float64) (Refit, bool)
	Value() float64
	ErrorRatio() float64
	SetAlpha(alpha float64)
}

// Controller decides for one worker. It is not safe for concurrent use.
type Controller struct {
	settings Settings
	weights  Weights
	forecast Forecaster
	knee     knee

	last    time.Time // the last decision
	service float64   // seconds that a task takes
	weight  float64   // how many tasks that is averaged over
	ended   time.Time // when one ended last; zero: not known
	wants   []want    // of the cooldown
	steady  time.Time // since when there are wants without a gap
	push    pushBack
}

// want is what demand asked for at a time.
type want struct {
	at    time.Time
	slots int // without what a backlog asked for
}

// pushBack is an episode of attempts that the app turns down.
type pushBack struct {
	before int // slots when it began; 0: there is none
	last   time.Time
}

// NewController returns a controller with the settings, which must be valid.
func NewController(settings Settings) *Controller {
	return NewControllerWith(settings, NewForecast(settings.EffectiveAlpha()))
}

// NewControllerWith returns one with another forecast.
func NewControllerWith(settings Settings, forecast Forecaster) *Controller {
	c := &Controller{forecast: forecast}
	c.Set(settings)
	return c
}

// Set puts other settings in force, which must be valid. What was learned stays.
func (c *Controller) Set(settings Settings) {
	c.settings, c.weights = settings, settings.EffectiveWeights()
	c.forecast.SetAlpha(settings.EffectiveAlpha())
}

// Decide returns the decision for now.
func (c *Controller) Decide(now time.Time, s Sample) Decision {
	s.Slots = min(s.Slots, s.Ceiling)
	d := Decision{Slots: s.Slots, Forecast: c.forecast.Value(), Service: seconds(c.service)}
	switch {
	case now.Sub(s.At) > StaleAfter:
		return c.freeze(now, d, ReasonStale, "the sample is "+now.Sub(s.At).Round(time.Millisecond).String()+" old")
	case s.AppDown:
		return c.freeze(now, d, ReasonFrozen, "the app is down")
	}
	dt := 1.0
	if !c.last.IsZero() {
		if dt = now.Sub(c.last).Seconds(); dt <= 0 {
			return c.freeze(now, d, ReasonStale, "the sample was there before")
		}
	}
	c.last = now
	c.measure(now, dt, s)
	c.look(now, s, &d)
	least := max(1, min(c.settings.Min, s.Ceiling))
	to, reason, detail := c.choose(now, dt, s, d, least)
	d.Slots, d.Reason, d.Detail = bound(to, s, least), reason, detail
	if d.Slots == s.Slots && (reason == ReasonDemand || reason == ReasonJoint || reason == ReasonShed) {
		d.Reason = ReasonHold
	}
	return d
}

// freeze leaves everything as it is. The time that passes meanwhile is nobody's: no
// second is as long, and that nothing ended in it tells nothing about tasks.
func (c *Controller) freeze(now time.Time, d Decision, reason Reason, detail string) Decision {
	if now.After(c.last) && !c.last.IsZero() {
		c.last = now
	}
	c.ended = time.Time{}
	c.steady, c.wants = time.Time{}, c.wants[:0]
	d.Reason, d.Detail = reason, detail
	return d
}

// bound keeps slots within the least and the ceiling, and at most doubles them.
func bound(to int, s Sample, least int) int {
	return min(max(to, least), s.Ceiling, max(2*s.Slots, 1))
}

// measure takes in what a sample says about arrivals and about what tasks take.
func (c *Controller) measure(now time.Time, dt float64, s Sample) {
	if c.weight *= math.Exp(-dt / serviceMemory); s.Ended > 0 {
		n := float64(s.Ended)
		c.service = (c.service*c.weight + s.Service.Seconds()*n) / (c.weight + n)
		c.weight += n
	}
	if s.Ended > 0 || s.Running == 0 || c.ended.IsZero() {
		c.ended = now
	} else if silent := now.Sub(c.ended).Seconds(); silent > c.service {
		c.service = silent // what runs has taken that long at least
	}
}

// look fills in what the sample means.
func (c *Controller) look(now time.Time, s Sample, d *Decision) {
	if refit, ok := c.forecast.Observe(now, s.Arrivals); ok {
		d.Refit = &refit
	}
	d.Forecast, d.ErrorRatio, d.Service = c.forecast.Value(), c.forecast.ErrorRatio(), seconds(c.service)
	backlog := 0.0
	if s.Peak >= s.Slots { // else it waits for something else than slots
		backlog = float64(s.Pending)
	}
	if c.service > 0 {
		d.Demand = (d.Forecast + backlog/c.settings.Drain.Seconds()) * c.service
	} else { // nothing has ended yet
		d.Demand = s.Running + backlog
	}
	if d.Forecast < nothing {
		d.Forecast = 0
	}
	if d.Demand = min(d.Demand, math.MaxInt32/4); d.Demand < nothing {
		d.Demand = 0
	}
	d.Want = staffed(d.Demand)
	d.Score = c.weights.Joint(s.CPU, s.Mem, s.Waiting)
	d.ScaleOut = d.Score.Total > c.settings.Threshold && !headroom(s)
	keep := d.Want
	if c.service > 0 { // what a backlog asks for is of use as long as that is there, and no longer
		keep = min(keep, staffed(d.Forecast*c.service))
	}
	c.remember(now, keep)
}

// staffed is how many slots there should be for a demand, with a reserve.
func staffed(demand float64) int { return int(math.Ceil(demand + staffing*math.Sqrt(demand))) }

// remember keeps what was wanted during the cooldown, and has slots not given up at
// once that something else than demand asked for.
func (c *Controller) remember(now time.Time, slots int) {
	if c.steady.IsZero() {
		c.steady = now
	}
	old := 0
	for old < len(c.wants) && now.Sub(c.wants[old].at) > c.settings.Cooldown {
		old++
	}
	c.wants = append(c.wants[:copy(c.wants, c.wants[old:])], want{now, slots})
}

// most is the most that was wanted during the cooldown.
func (c *Controller) most() int {
	most := 0
	for _, w := range c.wants {
		most = max(most, w.slots)
	}
	return most
}
