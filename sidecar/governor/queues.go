package governor

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sched-sidecar/sched/routing"
)

const (
	// policyInterval is how old the policy, and what kinds set, may get without news
	// while changes are heard of; policyDeafInterval while they aren't. Heartbeats
	// tell of what the leader changes in any case.
	policyInterval     = time.Minute
	policyDeafInterval = 2 * time.Second
	policyTimeout      = 5 * time.Second

	// policyPause is the least time between two readings. A reading that takes long
	// is followed by a longer pause, so that it is at most a twentieth of the time.
	// But for no longer than policyRestMax, and policyRestLong for a policy of more
	// than policyLong queues: a reading that hung must not leave the worker without
	// its policy for minutes.
	policyPause    = 200 * time.Millisecond
	policyRestMax  = time.Second
	policyRestLong = 10 * time.Second
	policyLong     = 500
	policyQuick    = 100 * time.Millisecond
	policyShare    = 20
	// policySpread is by how much the answer to a change is spread for each worker
	// of the fleet, up to policySpreadMax: they all hear of it at the same moment.
	policySpread    = time.Millisecond
	policySpreadMax = 250 * time.Millisecond

	// namedQueues is how many queues one line of the log names.
	namedQueues = 10
	// foreignMax bounds how many queues of others are remembered.
	foreignMax = 10_000
)

// outdated has the policy read again soon. It never blocks.
func (g *Governor) outdated() { signal(g.news) }

// watchPolicy keeps what this worker has to obey, and what kinds set for
// themselves, up to date.
func (g *Governor) watchPolicy(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-g.news:
			spread := min(time.Duration(g.policy.Load().Workers)*policySpread, policySpreadMax)
			if spread > 0 && !sleep(ctx, rand.N(spread)) {
				return nil
			}
		}
		started := time.Now()
		if !g.holds.has(holdFenced) {
			g.refreshPolicy(ctx)
			g.refreshKinds(ctx)
		}
		if !sleep(ctx, g.policyRest(time.Since(started))) {
			return nil
		}
		interval := policyDeafInterval
		if g.listening.Load() {
			interval = g.policyEvery
		}
		timer.Reset(jittered(interval))
	}
}

// policyRest is the pause after a reading that took so long.
func (g *Governor) policyRest(took time.Duration) time.Duration {
	most := policyRestMax
	if len(g.policy.Load().Queues) > policyLong {
		most = policyRestLong
	} else if took < policyQuick {
		return policyPause // the first one of a connection takes a while; a queue that is new must not wait for it
	}
	return min(max(policyPause, (policyShare-1)*took), most)
}

// jittered is about d: between 0.9 and 1.1 of it.
func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// refreshPolicy reads the policy now, and wakes the producer when there may be
// more to claim by it.
func (g *Governor) refreshPolicy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	now, err := g.registry.Policy(ctx, g.workerID(), g.config.Labels, g.config.Protocols, g.config.Queues)
	if err != nil {
		g.config.Logger.DebugContext(ctx, "policy not refreshed", slog.Any("error", err))
		return
	}
	g.metrics.policyReads.Inc()
	g.noteLed(now.Led, now.ReadAt)
	before := g.policy.Swap(&now)
	g.poller.setPolled(&now)
	gained, lost := difference(before.Queues, now.Queues)
	if len(gained)+len(lost) > 0 {
		g.config.Logger.InfoContext(ctx, "serving queues", slog.Int("queues", len(now.Queues)),
			slog.Int("gained", len(gained)), slog.Int("lost", len(lost)), slog.Any("named", firstOf(now.Names(), namedQueues)))
		g.foreign.clear()
	}
	if len(gained) > 0 || opened(before, &now) {
		g.pilot.wake()
	}
}

// difference returns the names that only one of two sorted lists has.
func difference(before, now []routing.QueuePolicy) (gained, lost []string) {
	for len(before) > 0 || len(now) > 0 {
		switch {
		case len(before) == 0 || len(now) > 0 && now[0].Name < before[0].Name:
			gained, now = append(gained, now[0].Name), now[1:]
		case len(now) == 0 || before[0].Name < now[0].Name:
			lost, before = append(lost, before[0].Name), before[1:]
		default:
			before, now = before[1:], now[1:]
		}
	}
	return gained, lost
}

// opened reports whether something that kept tasks from being claimed is gone.
func opened(before, now *routing.Policy) bool {
	for i := range now.Queues {
		q := &now.Queues[i]
		was, served := before.Queue(q.Name)
		if served && (was.Paused && !q.Paused || was.Limited && !q.Limited || was.CanaryPercent != q.CanaryPercent) {
			return true
		}
	}
	return slices.ContainsFunc(before.Kinds, func(was routing.KindPolicy) bool {
		k, bound := now.Kind(was.Kind)
		return !bound || was.Limited && !k.Limited || !was.PausedUntil.IsZero() && k.PausedUntil.IsZero()
	})
}

func firstOf(names []string, n int) []string { return names[:min(n, len(names))] }

// foreign remembers queues that were found not to be ours since the list last
// changed: a busy queue of other workers must not make this one read the policy
// at each of its notifications.
type foreign struct {
	mu    sync.Mutex
	names map[string]struct{}
}

// add reports whether the queue is new to it.
func (f *foreign) add(queue string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.names[queue]; known {
		return false
	}
	if f.names == nil || len(f.names) >= foreignMax {
		f.names = map[string]struct{}{}
	}
	f.names[queue] = struct{}{}
	return true
}

func (f *foreign) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.names)
}
