package governor

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sched-sidecar/sched/routing"
)

const (
	// publishTick is how often the load is looked at, without any SQL, and publishRest how
	// often where nothing runs or did of late, unless a claim brings something.
	publishTick = 100 * time.Millisecond
	publishRest = time.Second
	// publishPause is the least time between two times that it is written.
	publishPause   = time.Second
	publishTimeout = 2 * time.Second
	// publishStep is by how much of the ceiling what runs, or the slots, must change
	// for that, and by which part of its whole range the load of the app.
	publishStep = 0.1
	// fullAfter is how long all slots must be taken for the row to say that this
	// worker doesn't poll, so that others are woken.
	fullAfter = time.Second
)

// loadRow remembers what the row in sched.worker says. Safe for concurrent use.
type loadRow struct {
	mu      sync.Mutex
	said    routing.Load
	writes  int       // begun and ended, by publish
	at      time.Time // of the last try
	pending bool      // the row may say something else than said; true at the start
}

// due reports whether the row should be written now.
func (r *loadRow) due(now time.Time, load routing.Load) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.at) >= publishPause && (r.pending || differs(r.said, load))
}

// differs reports whether a load is news.
func differs(said, now routing.Load) bool {
	step := publishStep * float64(max(now.Ceiling, 1))
	return said.Polling != now.Polling || said.Ceiling != now.Ceiling || full(said) != full(now) || !slices.Equal(said.Holds, now.Holds) ||
		math.Abs(float64(said.Running-now.Running)) >= step || math.Abs(float64(said.Slots-now.Slots)) >= step ||
		math.Abs(said.CPU-now.CPU) >= publishStep || math.Abs(said.Mem-now.Mem) >= publishStep ||
		math.Abs(said.LoadPercent-now.LoadPercent) >= 100*publishStep
}

func full(load routing.Load) bool { return load.Running >= load.Slots }

// unwritten reports whether the row may say something else than was meant.
func (r *loadRow) unwritten() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending
}

// begin notes that the load is being written. What it will say is not known until
// the end.
func (r *loadRow) begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.pending = now, true
	r.writes++
}

func (r *loadRow) end(load routing.Load, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	if err == nil {
		r.said, r.pending = load, false
	}
}

// mark returns what beaten must be told.
func (r *loadRow) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes
}

// beaten notes the load that a heartbeat wrote, and reports whether the row says
// for certain that this worker must be woken. If publish wrote meanwhile, nobody
// knows which came last, and it will write again.
func (r *loadRow) beaten(mark int, load routing.Load) (woken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mark != r.writes || mark%2 == 1 {
		r.pending = true
		return false
	}
	load.Polling = r.said.Polling
	r.said = load
	return !r.pending && !load.Polling && !full(load)
}

// renewed notes that the row is a new one, as it was registered.
func (r *loadRow) renewed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = true
}

// publish writes the load whenever it changed, until ctx ends.
func (g *Governor) publish(ctx context.Context) error {
	var fullSince time.Time
	for tick := publishTick; g.restUntilStirred(ctx, tick); {
		now := time.Now()
		busy := g.poller.observe(now, g.sharers)
		if tick = publishTick; g.poller.quiet() && g.running.count() == 0 && !g.row.unwritten() {
			tick = publishRest
		}
		if g.unused() > 0 {
			fullSince = time.Time{}
		} else if fullSince.IsZero() {
			fullSince = now
		}
		load := g.load()
		load.Polling = busy && len(load.Holds) == 0 && (fullSince.IsZero() || now.Sub(fullSince) < fullAfter)
		if g.holds.has(holdFenced) || !g.row.due(now, load) {
			continue
		}
		g.publishOnce(ctx, now, load)
	}
	return nil
}

// restUntilStirred waits for a tick, or less of a long one if tasks are claimed, or holds
// or slots change. It reports false when ctx ended.
func (g *Governor) restUntilStirred(ctx context.Context, tick time.Duration) bool {
	if tick < publishRest {
		return sleep(ctx, tick)
	}
	timer := time.NewTimer(tick)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-g.poller.stirred:
		return sleep(ctx, publishTick) // a task that is short is over by then
	}
}

func (g *Governor) publishOnce(ctx context.Context, now time.Time, load routing.Load) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	unwoken := load.Polling || full(load) // an enqueue may count on it
	if unwoken {
		g.poller.tell()
	}
	g.row.begin(now)
	err := g.registry.PublishLoad(ctx, g.workerID(), load)
	g.row.end(load, err)
	switch {
	case err != nil:
		g.config.Logger.DebugContext(ctx, "load not written", slog.Any("error", err))
	case !unwoken:
		g.poller.untold(time.Now())
	}
}

// load is what the row should say now, but for Polling.
func (g *Governor) load() routing.Load {
	_, slots := g.slots.counts()
	running := g.running.count()
	if running > 0 && (g.more.Load() || g.backlog.Load()) {
		// The last claim left something behind: what becomes free is taken again at
		// once, and nobody need wake this worker for it. Also while a claim is under way.
		running = max(running, slots)
	}
	load := routing.Load{
		Running: running, Slots: slots, Ceiling: g.ceiling(), SkippedKinds: g.skips.list(), Holds: g.holds.names(),
	}
	if g.config.Load != nil {
		usage := g.config.Load()
		load.CPU, load.Mem, load.LoadPercent = usage.CPU, usage.Mem, usage.App.Percent()
	}
	return load
}
