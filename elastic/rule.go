package elastic

import (
	"fmt"
	"math"
	"time"
)

const (
	// pushBackShare is the share of turned-down attempts that is let pass.
	pushBackShare = 0.01
	// pushBackCalm is how long nothing must be turned down before slots grow again;
	// pushBackEnds is when the episode is over in any case.
	pushBackCalm = 2 * time.Second
	pushBackEnds = time.Minute
	// pushBackFloor is what part of the slots before it push-back leaves, and
	// pushBackResume to what part they come back as fast as any growth.
	pushBackFloor  = 8
	pushBackResume = 0.85
)

func headroom(s Sample) bool { return s.CPU < Headroom && s.Mem < Headroom }

// choose is the rule. What endangers the app comes first, then what it doesn't
// bear, then what it needs.
func (c *Controller) choose(now time.Time, dt float64, s Sample, d Decision, least int) (int, Reason, string) {
	if to, detail, ok := c.pushedBack(now, s, least); ok {
		return to, ReasonPushBack, detail
	}
	if s.Mem >= Full {
		return s.Slots - max(1, s.Slots/10), ReasonShed, fmt.Sprintf("memory is at %.0f %%", 100*s.Mem)
	}
	if c.push.before == 0 && !s.Observed { // slots that there aren't bring nothing, and cost nothing
		m, ok := c.knee.observe(now, dt, s, least, s.CPU >= Full, headroom(s))
		switch {
		case ok && m.slots < s.Slots:
			return m.slots, ReasonShed, m.detail
		case ok:
			c.remember(now, m.slots)
			return m.slots, ReasonDemand, m.detail
		}
	}
	joint := d.Score.Total > c.settings.Threshold && s.Peak >= s.Slots
	if joint || d.Want > s.Slots {
		return c.grow(now, s, d, joint)
	}
	return c.shrink(now, s, d.Want, least)
}

// pushedBack takes slots away by the share of attempts that the app turned down.
func (c *Controller) pushedBack(now time.Time, s Sample, least int) (to int, detail string, ok bool) {
	if s.PushBack > 0 {
		if share := float64(s.PushBack) / float64(s.PushBack+s.Ended); share > pushBackShare {
			if c.push.before == 0 {
				c.push.before = s.Slots
			}
			c.push.last = now
			to = min(s.Slots-1, int(float64(s.Slots)*(1-share/2)))
			to = min(s.Slots, max(to, least, c.push.before/pushBackFloor))
			return to, fmt.Sprintf("the app turned down %d of %d", s.PushBack, s.PushBack+s.Ended), true
		}
	}
	switch {
	case c.push.before == 0:
	case now.Sub(c.push.last) < pushBackCalm:
		return s.Slots, "the app turned attempts down a moment ago", true
	case s.Slots >= c.push.before || now.Sub(c.push.last) >= pushBackEnds:
		c.push = pushBack{}
	}
	return 0, "", false
}

// cap bounds growth to what the app is known to bear.
func (c *Controller) cap(now time.Time, s Sample, to int) int {
	if c.push.before > 0 {
		fast := int(math.Ceil(pushBackResume * float64(c.push.before)))
		to = min(to, max(fast, s.Slots+max(1, s.Slots/20)))
	}
	return c.knee.ceiling(now, to, c.service)
}

// grow adds what demand asks for, or a quarter where the score asks and demand
// asks for less.
func (c *Controller) grow(now time.Time, s Sample, d Decision, joint bool) (int, Reason, string) {
	target, reason := d.Want, ReasonDemand
	detail := fmt.Sprintf("%.3g/s x %s, %d waiting: %d needed", d.Forecast, d.Service, s.Pending, d.Want)
	if step := s.Slots + max(1, s.Slots/4); joint && step > d.Want {
		target, reason = step, ReasonJoint
		detail = fmt.Sprintf("score %.2f = cpu %.2f + mem %.2f + pending %.2f, above %.2f",
			d.Score.Total, d.Score.CPU, d.Score.Mem, d.Score.Pending, c.settings.Threshold)
	}
	if !headroom(s) {
		return s.Slots, ReasonHold, fmt.Sprintf("%s; but cpu is at %.0f %% and memory at %.0f %%", detail, 100*s.CPU, 100*s.Mem)
	}
	to := c.cap(now, s, target)
	switch {
	case s.Slots == s.Ceiling:
		return s.Slots, ReasonHold, detail + "; at the ceiling"
	case to <= s.Slots:
		return s.Slots, ReasonHold, detail + "; more would bring nothing"
	case reason == ReasonJoint:
		c.remember(now, min(to, s.Ceiling))
	}
	return to, reason, detail
}

// shrink gives up an eighth of the slots at a time when fewer were enough for the
// whole cooldown, but for a backlog that is gone. A tenth more than enough is left alone.
func (c *Controller) shrink(now time.Time, s Sample, want, least int) (int, Reason, string) {
	target := max(c.most(), want, least)
	switch {
	case s.Slots < least:
		return least, ReasonDemand, "at least that many"
	case s.Slots-target <= s.Slots/10 && (target > least || s.Slots == least):
		if latest := max(want, least); target-latest > s.Slots/10 {
			return s.Slots, ReasonCooldown, fmt.Sprintf("%d would do now", latest)
		}
		return s.Slots, ReasonHold, ""
	case now.Sub(c.steady) < c.settings.Cooldown:
		return s.Slots, ReasonCooldown, fmt.Sprintf("%d would do now", target)
	}
	return max(target, s.Slots-max(1, s.Slots/8)), ReasonDemand, fmt.Sprintf("%d have been enough for %s", target, c.settings.Cooldown)
}
