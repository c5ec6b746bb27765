package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/sched-sidecar/sched/elastic"
)

const (
	jointWork  = 2 * time.Second
	jointSlots = 16
	jointQuiet = 3 * time.Second
	jointTasks = 950 // less than count as all that can wait, so that what leaves is seen
	// jointSettings leave the backlog so much time, and arrivals so little weight, that
	// demand asks for nothing. With 950 waiting the score is 0.29 by the profile default
	// and 0.48 by realtime, and cpu and memory add little.
	jointSettings = `update sched.setting set value = case key
		when 'elastic_drain_seconds' then '3600'::jsonb when 'elastic_alpha' then '0.002'
		when 'elastic_threshold' then '0.36' when 'elastic_min' then '16' else value end
		where key like 'elastic\_%'`
	jointProfile = `update sched.setting set value = '"realtime"' where key = 'elastic_profile'`
)

// joint shows that the joint score decides where demand asks for nothing, and that
// which profile is in force changes what comes of it: the app, the sidecar and what
// waits stay the same.
func (r *Runner) joint(ctx context.Context) (figures []Figure, err error) {
	p, err := r.pairUp(ctx, appSpec{work: jointWork}, slotSpec{ceiling: r.config.Elastic.Ceiling, initial: jointSlots}, jointSettings)
	if err != nil {
		return nil, err
	}
	defer func() { err = closing(err, p.stop) }()
	// Where a forecast begins counts for long, and until something has ended nobody knows
	// what a task takes, so that demand is all that waits.
	if err := pause(ctx, jointQuiet); err != nil {
		return nil, err
	}
	if err := errors.Join(p.flood(ctx, jointSlots), p.db.awaitCompleted(ctx)); err != nil {
		return nil, err
	}
	if err := p.flood(ctx, jointTasks); err != nil {
		return nil, err
	}
	began, err := p.db.clock(ctx)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, r.config.Elastic.Watch); err != nil {
		return nil, err
	}
	changed, err := p.db.clock(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := p.db.pool.Exec(ctx, jointProfile); err != nil {
		return nil, fmt.Errorf("changing the profile: %w", err)
	}
	if err := pause(ctx, r.config.Elastic.Watch); err != nil {
		return nil, err
	}
	moves, err := p.moves(ctx)
	if err != nil {
		return nil, err
	}
	r.report.note("profile default, realtime from %.1fs: slots %s", changed.Sub(began).Seconds(), course{p.start, moves}.tell(began))
	return []Figure{newFigure("elastic.joint.decided", jointDecided(course{p.start, moves}, began, changed), "profiles", AtLeast(1), 1)}, nil
}

// jointDecided is 1 when slots stayed under one profile, and grew under the other by
// the score alone, within the two seconds that settings take and the second of a
// decision; else 0.
func jointDecided(c course, began, changed time.Time) float64 {
	const effective = 3 * time.Second
	grew := false
	for _, m := range c.moves {
		switch joint := strings.HasPrefix(m.Reason, string(elastic.ReasonJoint)); {
		case m.At.Before(began):
		case m.At.Before(changed), !joint:
			return 0
		case !grew && m.At.Sub(changed) > effective:
			return 0
		default:
			grew = true
		}
	}
	if !grew {
		return 0
	}
	return 1
}

const (
	pushBackBefore = 20 * time.Second // of load, before the app turns anything down
	// pushBackBack is the part of the slots before that they must come back to.
	pushBackBack = 0.8
)

// pushBack measures how soon slots are back after the app turned tasks down, and
// that this spent no attempt.
func (r *Runner) pushBack(ctx context.Context) (figures []Figure, err error) {
	set := r.config.Elastic
	p, err := r.pairUp(ctx, appSpec{work: set.IOWork}, slotSpec{ceiling: set.Ceiling}, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = closing(err, p.stop) }()
	warm := min(pushBackBefore, set.Duration)
	began, err := p.db.clock(ctx)
	if err != nil {
		return nil, err
	}
	produced := make(chan error, 1)
	go func() {
		_, err := p.db.staged(ctx, workKind, time.Now(), stage{set.High, warm + set.Refuse + set.Recover})
		produced <- err
	}()
	refused, err := p.refuseAfter(ctx, warm, set.Refuse)
	if err = errors.Join(err, <-produced); err != nil {
		return nil, err
	}
	if err := p.db.awaitCompleted(ctx); err != nil {
		return nil, err
	}
	tasks, err := p.worked(ctx, began)
	if err != nil {
		return nil, err
	}
	spent := 0
	for _, t := range tasks {
		spent += t.Attempt - 1
	}
	moves, err := p.moves(ctx)
	if err != nil {
		return nil, err
	}
	c, over := course{p.start, moves}, refused.Add(set.Refuse)
	r.report.note("%d tasks, turned down from %.1fs to %.1fs; slots %s", len(tasks), refused.Sub(began).Seconds(), over.Sub(began).Seconds(), c.tell(began))
	if _, least, _ := c.span(refused, over); least >= c.at(refused) {
		return nil, errors.New("the app turned tasks down and no slot was given up: nothing to come back from")
	}
	return []Figure{
		newFigure("elastic.pushback.recovery_s", recovery(c, refused, over), "s", AtMost(10), 1),
		newFigure("elastic.pushback.attempts_spent", float64(spent), "attempts", AtMost(0), 1),
	}, nil
}

// refuseAfter has the app turn tasks down after a while, and returns since when.
func (p *pair) refuseAfter(ctx context.Context, wait, length time.Duration) (since time.Time, err error) {
	if err := pause(ctx, wait); err != nil {
		return since, err
	}
	if since, err = p.db.clock(ctx); err != nil {
		return since, err
	}
	return since, p.app.get(ctx, pathRefuse+"?for="+length.String(), func(io.Reader) error { return nil })
}

// recovery is how long after the end of a time slots were back, in seconds; infinite
// when they never were.
func recovery(c course, from, until time.Time) float64 {
	enough := pushBackBack * float64(c.at(from))
	if float64(c.at(until)) >= enough {
		return 0
	}
	for _, m := range c.moves {
		if m.At.After(until) && float64(m.Slots) >= enough {
			return m.At.Sub(until).Seconds()
		}
	}
	return math.Inf(1)
}
