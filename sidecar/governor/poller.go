package governor

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sched-sidecar/sched/routing"
)

const (
	// A queue is busy while this worker claims more than busyOwn tasks of it in a
	// second, or all of its workers probably more than busyAll, and until it was
	// less than half of that for busyLinger. A worker that is alone shares nothing, and
	// a wake-up comes sooner than the next look: it is busy above busyAlone, and until
	// it was below calmAlone, lest one that was busy once goes on looking when it needn't.
	busyOwn    = 50
	busyAlone  = 250
	calmAlone  = 210
	busyAll    = 500
	busyLeast  = 5 // whatever the number of workers
	busyLinger = 2 * time.Second

	// coverAfter is how long this worker goes on polling after its row said that
	// nobody need wake it (it polls, or is full) and says so no more: whoever
	// enqueues may have read that some seconds ago. coverPerSecond is how often it
	// then polls, at most.
	coverAfter     = 3 * time.Second
	coverPerSecond = 200

	// heldInterval is how often a poller without a free slot, or with a hold on,
	// looks whether it may poll again; that costs no SQL.
	heldInterval = 10 * time.Millisecond

	sharesInterval = time.Second
	sharesTimeout  = 2 * time.Second
	// sharesMax bounds how many busy queues count in how often to poll.
	sharesMax = 100
)

// poller decides whether this worker looks for tasks by itself, and how often.
// Safe for concurrent use.
type poller struct {
	mu     sync.Mutex
	epoch  time.Time // before all steps of the meters, which a clock that is set back doesn't move
	meters map[string]*meter
	busy   []string // names of busy queues, in no order
	// polled are the queues for which nobody is woken because another worker polls:
	// this one has to as well, or would get nothing of them.
	polled map[string]struct{}
	// told: the row may say that this worker need not be woken. It was written
	// otherwise at toldUntil.
	told      bool
	toldUntil time.Time
	news      chan struct{} // capacity 1: it should poll
	stirred   chan struct{} // capacity 1: the row may have to say something else
}

func newPoller() *poller {
	return &poller{
		epoch: time.Now().Add(-meterEpoch), meters: map[string]*meter{}, polled: map[string]struct{}{},
		news: make(chan struct{}, 1), stirred: make(chan struct{}, 1),
	}
}

// meter counts what happened to a queue in the last second.
type meter struct {
	counts [meterSteps]int
	sum    int
	step   int64 // of the newest count
	busy   bool
	calm   time.Time // since when it has been calm; zero: it isn't
}

const (
	meterSteps = 10
	meterEpoch = 100 * 365 * 24 * time.Hour
	meterStep  = time.Second / meterSteps
)

// advance forgets what is more than a second old.
func (m *meter) advance(step int64) {
	for range min(max(0, step-m.step), meterSteps) {
		m.step++
		m.sum -= m.counts[m.step%meterSteps]
		m.counts[m.step%meterSteps] = 0
	}
	if step > m.step {
		// It stood still for longer than its memory: all of it is zero now.
		m.step = step
	}
}

// step is the meters' step at a time. Under mu.
func (p *poller) step(now time.Time) int64 { return int64(now.Sub(p.epoch) / meterStep) }

// count notes n tasks that were claimed from a queue.
func (p *poller) count(now time.Time, queue string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, step := p.meters[queue], p.step(now)
	if m == nil {
		m = &meter{step: step}
		p.meters[queue] = m
	}
	m.advance(step)
	m.counts[m.step%meterSteps] += n
	m.sum += n
	signal(p.stirred)
}

// quiet reports whether nothing was claimed of late.
func (p *poller) quiet() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.meters) == 0
}

// observe brings the meters up to date, and reports whether a queue is busy.
// Workers tells how many share a queue.
func (p *poller) observe(now time.Time, workers func(queue string) int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = p.busy[:0]
	for name, m := range p.meters {
		m.advance(p.step(now))
		above, below := busyBounds(workers(name))
		switch {
		case m.sum > above:
			m.busy, m.calm = true, time.Time{}
		case m.sum >= below:
			m.calm = time.Time{}
		case m.calm.IsZero():
			m.calm = now
		case now.Sub(m.calm) >= busyLinger:
			m.busy = false
			if m.sum == 0 {
				delete(p.meters, name)
				continue
			}
		}
		if m.busy {
			p.busy = append(p.busy, name)
		}
	}
	if len(p.busy) > 0 {
		p.awake()
	}
	return len(p.busy) > 0
}

// busyBounds are above how many tasks a second a queue becomes busy that so many
// workers share, and below how many it is calm; 0: that isn't known.
func busyBounds(workers int) (above, below int) {
	if workers == 1 {
		return busyAlone, calmAlone
	}
	above = max(min(busyOwn, busyAll/max(workers, 1)), busyLeast)
	return above, (above + 1) / 2
}

// tell notes what is about to be written into the row: that this worker need not
// be woken. It has to keep that promise from now on.
func (p *poller) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = true
	p.awake()
}

// untold notes that the row says that this worker must be woken.
func (p *poller) untold(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told {
		p.told, p.toldUntil = false, now
	}
}

func (p *poller) awake() { signal(p.news) }

// signal says something to who listens, or will. It never blocks.
func signal(news chan<- struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// setPolled notes what a new policy says of who polls.
func (p *poller) setPolled(policy *routing.Policy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.polled)
	for i := range policy.Queues {
		if policy.Queues[i].Polled {
			p.polled[policy.Queues[i].Name] = struct{}{}
		}
	}
	if len(p.polled) > 0 {
		p.awake()
	}
}

// learn notes what is known of some queues since then.
func (p *poller) learn(shares map[string]routing.PollShare) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, share := range shares {
		if share.Polled {
			p.polled[name] = struct{}{}
		} else {
			delete(p.polled, name)
		}
	}
}

// duty returns the queues that are busy, here or elsewhere, and whether the worker
// has to poll although there is none.
func (p *poller) duty(now time.Time) (busy []string, cover bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := maps.Clone(p.polled)
	for _, name := range p.busy {
		names[name] = struct{}{}
	}
	return someOf(names), p.told || now.Sub(p.toldUntil) < coverAfter
}

// active returns the queues whose shares matter: busy, or claimed from of late.
func (p *poller) active() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := maps.Clone(p.polled)
	for name := range p.meters {
		names[name] = struct{}{}
	}
	return someOf(names)
}

// someOf returns the names, or some of them where there are many.
func someOf(names map[string]struct{}) (some []string) {
	for name := range names {
		if len(some) == sharesMax {
			break
		}
		some = append(some, name)
	}
	return some
}

// poll looks for tasks, while there is a reason to, until ctx ends.
func (g *Governor) poll(ctx context.Context) error {
	var shares map[string]routing.PollShare
	var sharesAt, next time.Time
	timer := time.NewTimer(sharesInterval)
	defer timer.Stop()
	for {
		if active := g.poller.active(); len(active) > 0 && time.Since(sharesAt) > sharesInterval && !g.holds.any() {
			shares, sharesAt = g.shares(ctx, active), time.Now()
			g.poller.learn(shares)
		}
		busy, cover := g.poller.duty(time.Now())
		if len(busy) == 0 && !cover {
			timer.Reset(sharesInterval)
			select {
			case <-ctx.Done():
				return nil
			case <-g.poller.news:
			case <-timer.C:
			}
			continue
		}
		free := g.unused()
		if g.holds.any() || free <= 0 {
			if !sleep(ctx, heldInterval) {
				return nil
			}
			continue
		}
		next = pollAfter(next, time.Now(), spread(g.pollInterval(busy, shares, free)))
		if !sleep(ctx, time.Until(next)) {
			return nil
		}
		g.look()
	}
}

// pollAfter is when to look next, an interval after the last look was due, however
// late that was: what timers take too long would weigh most on who looks most often.
// What was missed for longer than an interval is not made up for.
func pollAfter(due, now time.Time, interval time.Duration) time.Time {
	if next := due.Add(interval); next.After(now) {
		return next
	}
	if now.Sub(due) < 2*interval {
		return now
	}
	return now.Add(interval)
}

// pace knows how long a claim takes. All workers of a queue together look no more
// often than one claim after the other would half of the time: Postgres has better
// things to do, and whoever looks most often must be able to hold its rate, or would
// get less than its share. Safe for concurrent use.
type pace struct{ took atomic.Int64 } // nanoseconds, a moving average

const (
	paceShare  = 0.5
	paceWeight = 16  // of the past, in claims
	paceLeast  = 50. // looks a second, however long claims take
)

func (p *pace) note(took time.Duration) {
	average := p.took.Load()
	p.took.Store(average + (took.Nanoseconds()-average)/paceWeight)
}

func (p *pace) perSecond() float64 {
	return max(paceLeast, paceShare/max(time.Duration(p.took.Load()).Seconds(), 1e-6))
}

// sharers returns how many workers are assigned to a queue, or how many there are while
// it is too new for that; 0: that isn't known.
func (g *Governor) sharers(queue string) int {
	policy := g.policy.Load()
	if q, serves := policy.Queue(queue); serves && q.Workers > 0 {
		return q.Workers
	}
	return policy.Workers
}

// unused is how many slots run nothing. Those that a claim under way has taken are
// among them: it takes all that are free, and most of them come back.
func (g *Governor) unused() int {
	_, limit := g.slots.counts()
	return limit - g.running.count()
}

// look claims, if there is something to claim with. A claim that came back full is
// followed by others as slots become free anyway.
func (g *Governor) look() {
	taken, limit := g.slots.counts()
	if g.holds.any() || taken >= limit || taken > 0 && g.more.Load() {
		return
	}
	g.metrics.polls.Inc()
	g.pilot.wake()
}

// shares reads who shares the queues; nil when that fails.
func (g *Governor) shares(ctx context.Context, queues []string) map[string]routing.PollShare {
	ctx, cancel := context.WithTimeout(ctx, sharesTimeout)
	defer cancel()
	shares, err := g.registry.Shares(ctx, queues)
	if err != nil {
		g.config.Logger.DebugContext(ctx, "the shares of busy queues are not known; taking older ones", slog.Any("error", err))
		return nil
	}
	return shares
}

// pollInterval returns how long to wait until the next look: as the fastest of the
// busy queues has it.
func (g *Governor) pollInterval(busy []string, shares map[string]routing.PollShare, free int) time.Duration {
	policy := g.policy.Load()
	looks := min(policy.BusyPolls, g.pace.perSecond())
	if policy.Workers <= 1 {
		looks = policy.BusyPolls // alone it can take the time that a look takes
	}
	if len(busy) == 0 {
		perSecond := min(coverPerSecond, looks/float64(max(policy.Workers, 1)))
		return routing.PollInterval(routing.RoundRobin, perSecond, free, routing.PollShare{}, g.config.PollInterval)
	}
	shortest := g.config.PollInterval
	for _, name := range busy {
		queue, serves := policy.Queue(name)
		if !serves {
			continue
		}
		share, known := shares[name]
		if !known {
			share = routing.PollShare{FreeSlots: queue.FreeSlots, Workers: queue.Workers}
		}
		perSecond := policy.BusyPolls
		if share.Workers > 1 {
			perSecond = looks
		}
		shortest = min(shortest, routing.PollInterval(queue.Strategy, perSecond, free, share, g.config.PollInterval))
	}
	return shortest
}

// spread is a random time of d on average, between half of it and one and a half.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d+1) }
