package governor

import (
	"context"
	"log/slog"
	"time"
)

const (
	// storageEvery is how often the leader looks at what only metrics show, in turns.
	storageEvery = 15
	// leaderEvery is how often a sidecar that knows of no leader looks who leads.
	leaderEvery = 15 * time.Second
)

// observed is what the leader read last for its metrics. Of one turn at a time.
type observed struct {
	enqueued int64 // ids given out
	heard    int64 // notifications, up to then
	known    bool  // this leader has read before
	listened bool  // nothing was missed since
}

// countEnqueued counts the tasks that were enqueued since it was called last, and
// how many of them sent no notification of their own. Enqueueing pays nothing for it:
// the ids are counted, and every sidecar hears all notifications.
func (g *Governor) countEnqueued(newest int64) {
	before, now := g.observed, observed{enqueued: newest, heard: g.heard.Load(), known: true, listened: g.listening.Load()}
	g.observed = now
	tasks := now.enqueued - before.enqueued
	if !before.known || tasks < 0 { // somebody set the sequence back
		return
	}
	g.metrics.enqueued.Add(float64(tasks))
	if !before.listened || !now.listened {
		return // what was sent isn't known
	}
	sent := now.heard - before.heard
	g.metrics.notifications.WithLabelValues(notificationSent).Add(float64(sent))
	g.metrics.notifications.WithLabelValues(notificationSuppressed).Add(float64(max(0, tasks-sent)))
}

// watchStorage shows what makes claims slow: dead rows, and who keeps them.
func (g *Governor) watchStorage(ctx context.Context) error {
	row, err := g.q.StorageWatch(ctx)
	if err != nil {
		return err
	}
	g.metrics.deadTuples.Set(float64(row.DeadTuples))
	g.metrics.liveTuples.Set(float64(row.LiveTuples))
	g.metrics.xminAge.Set(float64(row.XminAge))
	g.metrics.oldestTransaction.Set(row.OldestSeconds)
	return nil
}

// watchLeader finds out whether a client of River leads that is no sidecar. It asks
// only while no sidecar is known to lead.
func (g *Governor) watchLeader(ctx context.Context) error {
	for {
		foreign, err := g.foreignLeads(ctx)
		switch {
		case err != nil:
			g.config.Logger.DebugContext(ctx, "who leads could not be read", slog.Any("error", err))
		case foreign:
			g.metrics.foreignLeader.Set(1)
		default:
			g.metrics.foreignLeader.Set(0)
		}
		if !sleep(ctx, jittered(leaderEvery)) {
			return nil
		}
	}
}

func (g *Governor) foreignLeads(ctx context.Context) (bool, error) {
	if g.leading.Load() || !g.mayElect() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, leadTimeout)
	defer cancel()
	return g.q.LeaderForeign(ctx)
}
