package schedule

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the machine may have none, and all machines must agree

	"github.com/robfig/cron/v3"
)

// MaxExpression is the length of the longest expression.
const MaxExpression = 200

// minInterval is the shortest @every: the leader looks once a second.
const minInterval = time.Second

// Cron is when a schedule is due. Its zero value is never due.
type Cron struct {
	every time.Duration // of @every, else 0
	// walls yields the times on a clock without zones, as if in UTC.
	walls cron.Schedule
	zone  *time.Location
	// running: the hour is any (*), so it goes by how much time passes and not by what the clock shows.
	running bool
}

// Parse reads an expression: five fields (minute, hour, day of month, month, day of week), @hourly, @daily or @midnight,
// @weekly, @monthly, @yearly or @annually, or @every and a duration. The time zone is a name of the IANA database, such as
// Europe/Berlin. The error is an [ErrInvalid] and says what is wrong.
func Parse(expression, timezone string) (Cron, error) {
	zone, err := parseZone(timezone)
	if err != nil {
		return Cron{}, err
	}
	invalid := func(why string) (Cron, error) {
		return Cron{}, fmt.Errorf("%w: cron %q: %s; use five fields (minute hour day-of-month month day-of-week), such as %q, or @hourly, @daily, "+
			"@weekly, @monthly, @yearly, @every 10m", ErrInvalid, expression, why, "30 4 * * 1-5")
	}
	text := strings.TrimSpace(expression)
	switch {
	case text == "":
		return invalid("is empty")
	case len(expression) > MaxExpression:
		return invalid(fmt.Sprintf("is longer than %d bytes", MaxExpression))
	case strings.Contains(text, "TZ="):
		return invalid("the time zone has a place of its own")
	}
	walls, err := cron.ParseStandard(text)
	if err != nil {
		return invalid(err.Error())
	}
	c := Cron{walls: walls, zone: zone}
	switch s := walls.(type) {
	case cron.ConstantDelaySchedule:
		// The library rounds, where we would rather be told.
		given, err := time.ParseDuration(strings.TrimPrefix(text, "@every "))
		if err != nil || given < minInterval || given%minInterval != 0 {
			return invalid("the interval must be whole seconds, one or more")
		}
		c.every = given
	case *cron.SpecSchedule:
		if s.Minute == 0 || s.Hour == 0 || s.Dom == 0 || s.Month == 0 || s.Dow == 0 {
			return invalid("has a field with nothing in it")
		}
		s.Location = time.UTC
		fields := strings.Fields(text)
		c.running = fields[0] == "@hourly" || (len(fields) > 1 && strings.HasPrefix(fields[1], "*"))
	}
	if c.Next(time.Unix(0, 0)).IsZero() {
		return invalid("no such day ever comes")
	}
	return c, nil
}

func parseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" { // Go's names for what differs from machine to machine
		return nil, fmt.Errorf("%w: time zone %q is not one that is known; use a name such as UTC or Europe/Berlin", ErrInvalid, name)
	}
	return zone, nil
}

// Next returns the first time that is due after t; zero when none is within five years.
//
// When clocks change it does what crontab(5) of Debian does. A time that is given by its hour comes once a day: one that is
// skipped comes when the clock has moved on, one that the clock shows twice comes at the first. What runs every hour or
// every so many minutes (an hour of * or */n) goes on evenly.
func (c Cron) Next(t time.Time) time.Time {
	switch {
	case c.walls == nil:
		return time.Time{}
	case c.every > 0:
		return t.Add(c.every).Truncate(time.Second)
	case c.running:
		return c.nextRunning(t)
	}
	for at := wall(t.In(c.zone)); ; {
		at = c.walls.Next(at)
		if at.IsZero() {
			return time.Time{}
		}
		if next := instant(at, c.zone); next.After(t) {
			return next
		}
		// The clock was set back, and shows this time again.
	}
}

// nextRunning looks for the wall time in each stretch of time between two changes of the clock.
func (c Cron) nextRunning(t time.Time) time.Time {
	const changes = 50 // in five years, and then some
	for range changes {
		here := t.In(c.zone)
		_, offset := here.Zone()
		_, end := here.ZoneBounds()
		at := c.walls.Next(wall(here))
		next := at.Add(-time.Duration(offset) * time.Second)
		switch {
		case at.IsZero():
			return time.Time{}
		case end.IsZero() || next.Before(end):
			return next.In(c.zone)
		}
		// Where the new stretch begins may be due itself; wall times have no fractions.
		first := wall(end.In(c.zone))
		if c.walls.Next(first.Add(-time.Second)).Equal(first) {
			return end.In(c.zone)
		}
		t = end
	}
	return time.Time{}
}

// wall is what a clock shows at t, as a time in UTC.
func wall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instant is when a clock of the zone first shows a wall time, or has moved past it when it never does.
func instant(at time.Time, zone *time.Location) time.Time {
	t := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), zone)
	start, end := t.ZoneBounds()
	switch shown := wall(t); {
	case shown.After(at): // skipped, and t is past the change
		return start
	case shown.Before(at): // skipped, and t is before it
		return end
	case start.IsZero():
		return t
	}
	_, now := t.Zone()
	_, before := start.Add(-time.Second).In(zone).Zone()
	if earlier := t.Add(time.Duration(now-before) * time.Second); earlier.Before(start) {
		return earlier
	}
	return t
}
