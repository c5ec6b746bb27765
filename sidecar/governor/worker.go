package governor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
)

// beatRetry is how soon a heartbeat that failed is tried again, if that is before
// the next one: claims go on only once Postgres has been heard of.
const beatRetry = time.Second

// beatsRecent is of how many heartbeats the quickest tells how far away Postgres is.
const beatsRecent = 12

// workerID is the id of the current registration.
func (g *Governor) workerID() string { return *g.worker.Load() }

// register starts a new registration and makes it the current one.
func (g *Governor) register(ctx context.Context) error {
	_, limit := g.slots.counts()
	worker := routing.Worker{
		ID: routing.NewWorkerID(), ClientID: g.config.ClientID, Hostname: g.config.Hostname, PID: g.config.PID,
		Version: g.config.Version, AppURL: g.config.AppURL, Labels: g.config.Labels, Queues: g.config.Queues,
		Kinds: g.config.Kinds, Protocols: g.config.Protocols, Slots: limit, Ceiling: g.ceiling(),
	}
	started := time.Now()
	if err := g.registry.Register(ctx, worker); err != nil {
		return err
	}
	g.lastBeat.Store(&started)
	g.worker.Store(&worker.ID)
	g.life.Store(routing.NewLifecycle())
	g.row.renewed()
	g.outdated()
	g.config.Logger.InfoContext(ctx, "worker registered", slog.String("worker_id", worker.ID))
	return g.activate(ctx)
}

// activate moves a registration on from pending, if that is still to be done.
func (g *Governor) activate(ctx context.Context) error {
	if state, _ := g.life.Load().State(); state != routing.StatePending {
		return nil
	}
	return g.move(ctx, routing.StateActive, "started")
}

// move takes the registration on, in the database and then here. That it has gone
// further already is no error.
func (g *Governor) move(ctx context.Context, to routing.State, reason string) error {
	worker, life := g.workerID(), g.life.Load()
	if _, err := g.registry.Move(ctx, worker, to, reason); err != nil {
		return err
	}
	g.moved(life, to)
	return nil
}

// moved notes where the registration is, unless it is further on already.
func (g *Governor) moved(life *routing.Lifecycle, to routing.State) {
	for {
		from, _ := life.State()
		if err := life.Move(from, to); !errors.Is(err, routing.ErrMoved) {
			return
		}
	}
}

// beat keeps the registration alive, and fences this sidecar off when it can't:
// before anybody may evict it, it claims nothing and has ended its calls.
func (g *Governor) beat(ctx context.Context) error {
	var roundTrip time.Duration
	var recent []time.Duration
	state := condition{load: routing.HealthState{Health: routing.Good}, memory: routing.HealthState{Health: routing.Good}}
	failing := false
	for {
		// The wait ends early when the fence is due, so that it falls on time.
		next := g.config.HeartbeatInterval
		if failing {
			next = min(next, beatRetry)
		}
		if until := g.config.FenceAfter - time.Since(*g.lastBeat.Load()); !g.holds.has(holdFenced) {
			next = max(0, min(next, until))
		}
		if !sleep(ctx, next) {
			return nil
		}
		if time.Since(*g.lastBeat.Load()) >= g.config.FenceAfter {
			g.fence(ctx)
		}
		// A beat that hangs must not outlast the fence either.
		limit := g.config.HeartbeatInterval
		if until := g.config.FenceAfter - time.Since(*g.lastBeat.Load()); until > 0 {
			limit = min(limit, until)
		}
		started := time.Now()
		err := g.beatOnce(ctx, limit, roundTrip)
		switch {
		case errors.Is(err, errGone):
			return nil
		case err == nil:
			roundTrip = time.Since(started)
			g.metrics.roundTrip.Set(roundTrip.Seconds())
			recent = append(recent[max(0, len(recent)+1-beatsRecent):], roundTrip)
			g.distance.Store(int64(slices.Min(recent)))
			g.unfence(ctx)
			g.examine(ctx, &state, roundTrip)
		case ctx.Err() == nil && !failing && !g.holds.has(holdFenced):
			g.config.Logger.WarnContext(ctx, "heartbeat failed", slog.Any("error", err),
				slog.Duration("fenced_in", g.config.FenceAfter-time.Since(*g.lastBeat.Load())))
		}
		failing = err != nil
	}
}

// condition is what heartbeats told about the app.
type condition struct {
	beats        int64
	load, memory routing.HealthState
}

// examine goes by what the app's load was at a heartbeat.
func (g *Governor) examine(ctx context.Context, c *condition, roundTrip time.Duration) {
	c.beats++
	var app routing.AppLoad
	if g.config.Load != nil {
		app = g.config.Load().App
	}
	c.load = g.judge(ctx, c.load, routing.Vitals{Seq: c.beats, LoadPercent: app.Percent(), RoundTrip: roundTrip})
	before := c.memory.Health
	c.memory, _ = c.memory.Next(routing.Vitals{Seq: c.beats, LoadPercent: app.Short()})
	if short := c.memory.Health == routing.Overloaded; short != (before == routing.Overloaded) {
		g.spare(ctx, short, app)
	}
}

// spare gives the app one task at a time while its memory is short. Not none: memory
// that an app keeps once it had it would end its work for good. Where slots follow the
// app they begin from one again, and grow as they always do.
func (g *Governor) spare(ctx context.Context, short bool, app routing.AppLoad) {
	_, before := g.slots.counts()
	percent := app.Short()
	if short && app.Sized {
		g.slots.setLimit(1)
	}
	grew := g.slots.setSingle(short)
	_, now := g.slots.counts()
	reason := fmt.Sprintf("memory of the app is no longer short: %.0f %%", percent)
	if short {
		reason = fmt.Sprintf("memory of the app was above %.0f %% on three heartbeats: %.0f %%", routing.OverloadedAbove, percent)
	}
	g.config.Logger.WarnContext(ctx, "the app's memory decides about slots", slog.Int("from", before), slog.Int("to", now), slog.String("reason", reason))
	g.Note(routing.Decision{
		What: "slots", Subject: g.workerID(), From: strconv.Itoa(before), To: strconv.Itoa(now), Reason: reason,
		Signals: map[string]any{"memory_percent": percent},
	})
	if grew {
		g.pilot.wake()
	}
}

// judge claims nothing while the app is overloaded. The leader comes to the same
// verdict by what the heartbeats say, and takes this worker's assignments; but it
// may be away, and this is known here first.
func (g *Governor) judge(ctx context.Context, health routing.HealthState, vitals routing.Vitals) routing.HealthState {
	next, reason := health.Next(vitals)
	if reason == "" {
		return next
	}
	log := g.config.Logger.With(slog.String("from", string(health.Health)), slog.String("to", string(next.Health)), slog.String("reason", reason))
	switch {
	case next.Health == routing.Overloaded:
		g.holds.put(holdOverloaded)
		log.WarnContext(ctx, "the app is overloaded: claiming nothing")
	case health.Health == routing.Overloaded:
		log.InfoContext(ctx, "the app is no longer overloaded: claiming again")
		g.Release(holdOverloaded)
	default:
		log.InfoContext(ctx, "health changed")
	}
	return next
}

// beatOnce writes a heartbeat, or registers anew after an eviction.
func (g *Governor) beatOnce(ctx context.Context, limit, roundTrip time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	load, mark := g.load(), g.row.mark()
	load.RoundTrip = roundTrip
	if full(load) {
		g.poller.tell()
	}
	started := time.Now()
	heard, err := g.registry.Beat(ctx, g.workerID(), load)
	if err == nil {
		g.lastBeat.Store(&started)
		if g.row.beaten(mark, load) {
			g.poller.untold(started)
		}
		g.noteLed(heard.Led, started)
		if heard.News(g.policy.Load()) {
			g.outdated()
		}
		g.moved(g.life.Load(), heard.State)
		if heard.State == routing.StateDraining && g.holds.put(holdDraining) {
			g.config.Logger.InfoContext(ctx, "told to drain: claiming nothing any more, until this sidecar is restarted")
		}
		return g.activate(ctx)
	}
	if !errors.Is(err, routing.ErrEvicted) {
		return err
	}
	evicted, draining := g.workerID(), g.holds.has(holdDraining)
	lost := g.running.all(func(x *execution) bool { return x.task.Lease.WorkerID == evicted })
	if !draining || len(lost) > 0 { // else it deregistered itself
		g.config.Logger.WarnContext(ctx, "this worker was evicted; giving up its tasks",
			slog.String("worker_id", evicted), slog.Int("tasks", len(lost)), slog.Bool("registers_anew", !draining))
	}
	for _, x := range lost {
		x.end(dispatch.ErrLeaseLost)
	}
	if draining {
		return errGone
	}
	g.moved(g.life.Load(), routing.StateEvicted)
	return g.register(ctx)
}

// errGone ends the heartbeats of a draining worker: its registration is over.
var errGone = errors.New("the registration is over")

func (g *Governor) fence(ctx context.Context) {
	if !g.holds.put(holdFenced) {
		return
	}
	calls := g.running.all(func(*execution) bool { return true })
	g.metrics.fences.Inc()
	g.config.Logger.ErrorContext(ctx, "no contact with Postgres: claiming nothing and ending calls before another worker may get their tasks",
		slog.Duration("after", g.config.FenceAfter), slog.Int("calls", len(calls)))
	for _, x := range calls {
		x.end(dispatch.ErrFenced)
	}
}

func (g *Governor) unfence(ctx context.Context) {
	if !g.holds.has(holdFenced) {
		return
	}
	g.config.Logger.InfoContext(ctx, "contact with Postgres is back", slog.String("worker_id", g.workerID()))
	g.Release(holdFenced)
}
