package governor

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

const (
	queuesInterval = 2 * time.Second
	queuesTimeout  = 5 * time.Second
)

// watchQueues keeps the list of queues that this worker serves, and what kinds
// set for themselves, up to date.
func (g *Governor) watchQueues(ctx context.Context) error {
	for {
		if !g.holds.has(holdFenced) {
			g.refreshQueues(ctx)
			g.refreshKinds(ctx)
		}
		if !sleep(ctx, queuesInterval) {
			return nil
		}
	}
}

// refreshQueues reads the list now, and wakes the producer when it grew.
func (g *Governor) refreshQueues(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, queuesTimeout)
	defer cancel()
	now, err := g.registry.ServableQueues(ctx, g.config.Labels, g.config.Protocols, g.config.Queues)
	if err != nil {
		g.config.Logger.DebugContext(ctx, "queues not refreshed", slog.Any("error", err))
		return
	}
	slices.Sort(now) // the database sorts as its language does
	before := *g.queues.Swap(&now)
	if slices.Equal(before, now) {
		return
	}
	g.config.Logger.InfoContext(ctx, "serving queues", slog.Any("queues", now))
	g.foreign.Clear()
	g.pilot.wake()
}

func (g *Governor) serves(queue string) bool {
	_, found := slices.BinarySearch(*g.queues.Load(), queue)
	return found
}

// knownForeign reports whether the queue was already found not to be ours since
// the list last changed, and remembers it: a busy queue of other workers must not
// make this one read the list at each of its notifications.
func (g *Governor) knownForeign(queue string) bool {
	_, known := g.foreign.LoadOrStore(queue, time.Now())
	return known
}
