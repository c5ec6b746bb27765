package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	month = "2026-11"
	batch = "month-end " + month
)

// appDowntime is how long the killed app stays away.
const appDowntime = 3 * time.Second

// play is the story: close the month, kill half-way, see it through.
func play(ctx context.Context, st *stage) error {
	if err := closeMonth(ctx, st); err != nil {
		return err
	}
	sidecarOf, appOf, err := halfWay(ctx, st)
	if err != nil {
		return err
	}
	if err := kill(ctx, st, sidecarOf, appOf); err != nil {
		return err
	}
	return seeThrough(ctx, st, sidecarOf, appOf)
}

// closeMonth has app A close the month, as an accountant would.
func closeMonth(ctx context.Context, st *stage) error {
	began := st.out.elapsed()
	target := "http://" + st.pairs[0].appAddr + "/month-end?month=" + url.QueryEscape(month)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, nil)
	if err != nil {
		return fmt.Errorf("close the month: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("close the month: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var closed struct{ Batches, Orders int }
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("close the month: app A answered %s; see its log", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&closed); err != nil {
		return fmt.Errorf("close the month: %w", err)
	}
	if closed.Orders != st.orders {
		return fmt.Errorf("close the month: app A marked %d orders of %d", closed.Orders, st.orders)
	}
	st.out.say("app A closed %s in %.1f s: %d transactions, each marked its orders PROCESSING and enqueued their task",
		month, (st.out.elapsed() - began).Seconds(), closed.Batches)
	return nil
}

// watch looks at the fleet, and shows it, until the condition holds.
func watch(ctx context.Context, st *stage, phase func(sample) string, until func(sample) (bool, error)) error {
	for {
		s, err := takeSample(ctx, st.pool, batch)
		if err != nil {
			return err
		}
		if s.Failed > 0 {
			return fmt.Errorf("%d tasks were given up (cancelled or discarded)", s.Failed)
		}
		st.out.status(s.line(st.orders, phase(s)))
		if enough, err := until(s); enough || err != nil {
			return err
		}
		if err := st.tick(ctx); err != nil {
			return err
		}
	}
}

// halfWay waits until half of the orders are carried and chooses what to kill:
// the sidecar that leads the fleet, since that is the harder loss, and the app
// of the other pair, so that no pair is left whole. Both must have tasks in flight.
func halfWay(ctx context.Context, st *stage) (sidecarOf, appOf *pair, err error) {
	sidecarOf, appOf = st.pairs[0], st.pairs[1]
	phase := func(sample) string { return "two pairs at work" }
	err = watch(ctx, st, phase, func(s sample) (bool, error) {
		if s.Carried < int64(st.orders)/2 {
			return false, nil
		}
		if s.Completed == s.Total {
			return false, errors.New("all tasks were done before both sidecars had one in flight at the same time; raise -pace")
		}
		if leads, err := ask[bool](ctx, st.pool, leadsSQL, appOf.sidecar.pid()); err != nil {
			return false, err
		} else if leads {
			sidecarOf, appOf = appOf, sidecarOf
		}
		for _, p := range st.pairs {
			if busy, err := ask[int](ctx, st.pool, inFlightSQL, p.sidecar.pid()); busy == 0 || err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return sidecarOf, appOf, err
}

// kill sends the two SIGKILLs.
func kill(ctx context.Context, st *stage, sidecarOf, appOf *pair) error {
	leads, err := ask[bool](ctx, st.pool, leadsSQL, sidecarOf.sidecar.pid())
	if err != nil {
		return err
	}
	// Dead first, counted then: a dead sidecar's tasks stay in flight until they
	// are rescued. The app's tasks are counted before, its sidecar lives.
	cut, err := ask[int](ctx, st.pool, inFlightSQL, appOf.sidecar.pid())
	if err != nil {
		return err
	}
	sidecarOf.sidecar.kill()
	appOf.app.kill()
	orphaned, err := ask[int](ctx, st.pool, inFlightSQL, sidecarOf.sidecar.pid())
	if err != nil {
		return err
	}
	role := ""
	if leads {
		role = ", the fleet's leader"
	}
	st.out.say("half-way: killed sidecar %s (pid %d%s) with %d tasks in flight: they wait for their rescue",
		sidecarOf.name, sidecarOf.sidecar.pid(), role, orphaned)
	st.out.say("half-way: killed app %s (pid %d) in the middle of %d transactions: they roll back and are tried again",
		appOf.name, appOf.app.pid(), cut)
	return nil
}

// aftermath is what has happened since the two were killed.
type aftermath struct {
	sidecarOf, appOf *pair
	killedAt         time.Duration // since the start of the demo

	appBack   bool
	newLeader bool
	rescued   int64
}

// seeThrough starts the killed app again and waits for the end of the month.
func seeThrough(ctx context.Context, st *stage, sidecarOf, appOf *pair) error {
	a := &aftermath{sidecarOf: sidecarOf, appOf: appOf, killedAt: st.out.elapsed()}
	return watch(ctx, st, a.phase, func(s sample) (bool, error) {
		if err := a.follow(ctx, st, s); err != nil {
			return false, err
		}
		return a.appBack && s.Completed == s.Total, nil
	})
}

// phase is what there is to wait for.
func (a *aftermath) phase(sample) string {
	switch {
	case !a.appBack:
		return "app " + a.appOf.name + " is down"
	case !a.newLeader:
		return "pair " + a.appOf.name + " goes on, no leader yet"
	case a.rescued == 0:
		return "pair " + a.appOf.name + " goes on, watching sidecar " + a.sidecarOf.name
	default:
		return "pair " + a.appOf.name + " finishes alone"
	}
}

// follow says what is new, and brings the app back in its time.
func (a *aftermath) follow(ctx context.Context, st *stage, s sample) error {
	since := st.out.elapsed() - a.killedAt
	if !a.appBack && since >= appDowntime {
		if err := st.startApp(ctx, a.appOf); err != nil {
			return err
		}
		a.appBack = true
		st.out.say("app %s is back (pid %d) %.1f s after its death; its sidecar never stopped",
			a.appOf.name, a.appOf.app.pid(), since.Seconds())
	}
	if !a.newLeader {
		leads, err := ask[bool](ctx, st.pool, leadsSQL, a.appOf.sidecar.pid())
		if err != nil {
			return err
		}
		if leads {
			a.newLeader = true
			st.out.say("sidecar %s leads the fleet, %.1f s after the kill: sidecar %s is dead if its heartbeat stands still for 20 s from here",
				a.appOf.name, since.Seconds(), a.sidecarOf.name)
		}
	}
	if s.Rescued > a.rescued {
		st.out.say("rescued %d tasks of sidecar %s, %.1f s after its death: they run on sidecar %s",
			s.Rescued-a.rescued, a.sidecarOf.name, since.Seconds(), a.appOf.name)
		a.rescued = s.Rescued
	}
	return nil
}
