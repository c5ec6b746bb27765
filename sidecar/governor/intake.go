package governor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sql/dbq"
)

const (
	// queuesProbed is how many queues one claim looks at where nothing is limited,
	// queuesLaned where something is. A worker that serves more finds out which of
	// them have something before it claims.
	queuesProbed = 256
	queuesLaned  = 64
	// lanesMax bounds the lanes of one claim: fewer queues at a time when many kinds
	// have lanes of their own.
	lanesMax = 512
	// queuesLooked is up to how many served queues are looked at each; with more,
	// the queues that have tasks are walked through instead, queuesWalked at a time.
	queuesLooked = 2000
	queuesWalked = 1024
	// lookEvery is how old the answer may get while claims go on.
	lookEvery = 200 * time.Millisecond
	hintsMax  = 1024
)

// canaryLabel is the label, and its value, of canary workers.
const (
	canaryLabel = "track"
	canaryValue = "canary"
)

// intake is what may be claimed by the policy in force, prepared once per policy.
type intake struct {
	policy  *routing.Policy
	queues  []laneQueue // with tasks for this worker; paused ones are left to the claim, which looks
	limited []string    // kinds with a flow limit, sorted
	// plain: no queue is limited or shared with a canary.
	plain bool
	// polls is which share of its polls this worker makes: see pollsShared.
	polls float64
}

// An idle queue is polled by all of its workers together pollsShared times in each
// poll interval, as soon as they are so many; but by each in one interval of
// pollsRarest on average. That nobody polls for a whole interval is then as unlikely
// as 1 in 10 million; with a third of the workers dead, as 1 in 40,000. Which polls are
// left out is left to chance, so that workers needn't agree.
const (
	pollsShared = 16
	// pollEarly is after what part of the poll interval polls come, so that a task which
	// they find starts within it, with what claim and dispatch take.
	pollEarly   = 0.95
	pollsRarest = 10
)

// pollsOf is the share of polls that a worker of these queues makes.
func pollsOf(policy *routing.Policy) float64 {
	if !policy.Led {
		return 1
	}
	share := 1.0 / pollsRarest
	for i := range policy.Queues {
		share = max(share, pollsShared/float64(max(policy.Queues[i].Workers, 1)))
	}
	if share < 1 {
		return share * pollEarly // as many in an interval
	}
	return 1
}

func newIntake(policy *routing.Policy, canary bool) *intake {
	in := &intake{policy: policy, plain: true, polls: pollsOf(policy)}
	for i := range policy.Queues {
		q := &policy.Queues[i]
		low, high := canaryRange(q, canary)
		if low >= high {
			continue
		}
		in.queues = append(in.queues, laneQueue{name: q.Name, low: low, high: high})
		if q.Limited || low > 0 || high < 100 {
			in.plain = false
		}
	}
	for _, k := range policy.Kinds {
		if k.Limited {
			in.limited = append(in.limited, k.Kind)
		}
	}
	slices.Sort(in.limited)
	return in
}

// canaryRange is the share of the queue's tasks that a worker claims, from low to
// below high of 100.
func canaryRange(q *routing.QueuePolicy, canary bool) (low, high float32) {
	share := float32(q.CanaryPercent)
	switch {
	case !canary:
		return share, 100
	case share > 0:
		return 0, share
	case q.CanaryWorkers >= 0 && q.Workers > q.CanaryWorkers:
		return 0, 0 // the others have it all
	default:
		return 0, 100
	}
}

// leftOut returns the kinds that are not claimed along with the others: those that
// the app lacks, that are paused, and that have a limit. The times at which pauses
// end go to wake.
func (g *Governor) leftOut(in *intake, now time.Time) []string {
	skipped, paused := g.skips.list(), g.pausedKinds(in.policy, now)
	if len(skipped) == 0 && len(paused) == 0 {
		return in.limited
	}
	all := slices.Concat(in.limited, skipped, slices.Collect(maps.Keys(paused)))
	slices.Sort(all)
	for _, end := range paused {
		g.alarm.set(end)
	}
	return slices.Compact(all)
}

// pausedKinds returns the kinds that the app has paused, here or anywhere in the
// fleet, and until when.
func (g *Governor) pausedKinds(policy *routing.Policy, now time.Time) map[string]time.Time {
	paused := g.flows.pauses(now)
	for _, k := range policy.Kinds {
		if !now.Before(k.PausedUntil) {
			continue
		}
		if paused == nil {
			paused = map[string]time.Time{}
		}
		if paused[k.Kind].Before(k.PausedUntil) {
			paused[k.Kind] = k.PausedUntil
		}
	}
	return paused
}

// limitTexts says in words what bounds the claims besides slots and holds.
func (g *Governor) limitTexts(now time.Time) []string {
	texts := g.flows.texts(now)
	if g.slots.isSingle() {
		texts = append(texts, "memory of the app is short: one task at a time")
	}
	if wait := g.tokens.wait(now, 1); wait > 0 {
		texts = append(texts, fmt.Sprintf("tokens: next in %s", shown(wait)))
	}
	paused := g.pausedKinds(g.policy.Load(), now)
	for _, kind := range slices.Sorted(maps.Keys(paused)) {
		texts = append(texts, fmt.Sprintf("kind %s: paused by the app for another %s", kind, shown(paused[kind].Sub(now))))
	}
	return texts
}

// candidates finds, for a worker that serves many queues, those that have tasks.
// Guarded by claimMu, hints apart.
type candidates struct {
	found  []laneQueue // by the last look, the most urgent first
	looked time.Time
	took   time.Duration
	after  string // where the walk through the queues stands
	turn   int
}

// pickQueues returns the queues for one claim, at most most of them, and whether
// others have tasks as well.
func (g *Governor) pickQueues(ctx context.Context, in *intake, most int, now time.Time) (queues []laneQueue, others bool, err error) {
	if len(in.queues) <= most {
		return in.queues, false, nil
	}
	c := &g.candidates
	hinted := g.hints.drain(in)
	if len(c.found) == 0 && len(hinted) == 0 || now.Sub(c.looked) > max(lookEvery, laneShare*c.took) {
		if err := g.survey(ctx, in, now); err != nil {
			return nil, false, err
		}
	}
	queues = hinted[:min(len(hinted), most)]
	for i, q := range c.found {
		if len(queues) == most {
			if len(in.queues) > queuesLooked { // found in no order of urgency: the others have their turn
				c.found = slices.Concat(c.found[i:], c.found[:i])
			}
			return queues, true, nil
		}
		if !slices.Contains(hinted, q) {
			queues = append(queues, q)
		}
	}
	return queues, false, nil
}

// drained forgets queues that a claim found to have no more.
func (c *candidates) drained(queues []laneQueue) {
	c.found = slices.DeleteFunc(c.found, func(q laneQueue) bool { return slices.Contains(queues, q) })
}

// survey finds out which of the queues have tasks.
func (g *Governor) survey(ctx context.Context, in *intake, now time.Time) error {
	c := &g.candidates
	c.looked, c.found = now, nil
	started := time.Now()
	defer func() { c.took = time.Since(started) }()
	if len(in.queues) > queuesLooked {
		return g.walk(ctx, in)
	}
	// From another one each time, since the answer is bounded.
	c.turn = (c.turn + queuesProbed) % len(in.queues)
	names := make([]string, 0, len(in.queues))
	for _, q := range slices.Concat(in.queues[c.turn:], in.queues[:c.turn]) {
		names = append(names, q.name)
	}
	rows, err := g.q.QueueWaiting(ctx, dbq.QueueWaitingParams{Queues: names, Max: 2 * queuesProbed})
	if err != nil {
		return err
	}
	slices.SortStableFunc(rows, func(a, b dbq.QueueWaitingRow) int { return int(a.Priority) - int(b.Priority) })
	for _, row := range rows {
		if q, served := in.queue(row.Queue); served {
			c.found = append(c.found, q)
		}
	}
	return nil
}

// walk goes on through the queues that have tasks, served or not, until some that
// are served are found or all have been seen, and not too far at a time.
func (g *Governor) walk(ctx context.Context, in *intake) error {
	c := &g.candidates
	names, err := g.q.QueueWaitingAfter(ctx, dbq.QueueWaitingAfterParams{After: c.after, Max: queuesWalked})
	if err != nil {
		return err
	}
	for _, name := range names {
		if q, served := in.queue(name); served {
			c.found = append(c.found, q)
		}
	}
	c.after = ""
	if len(names) == queuesWalked {
		c.after = names[len(names)-1]
		g.alarm.set(time.Now().Add(laneShare * time.Since(c.looked)))
	}
	return nil
}

// queue finds a served queue by its name.
func (in *intake) queue(name string) (laneQueue, bool) {
	i, found := slices.BinarySearchFunc(in.queues, name, func(q laneQueue, name string) int {
		switch {
		case q.name < name:
			return -1
		case q.name > name:
			return 1
		default:
			return 0
		}
	})
	if !found {
		return laneQueue{}, false
	}
	return in.queues[i], true
}
