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

// seeThrough starts the killed app again and waits for the end of the month.
func seeThrough(ctx context.Context, st *stage, sidecarOf, appOf *pair) error {
	killedAt := st.out.elapsed()
	var back bool
	var rescued int64
	phase := func(sample) string {
		switch {
		case !back:
			return "app " + appOf.name + " is down"
		case rescued == 0:
			return "pair " + appOf.name + " goes on, sidecar " + sidecarOf.name + "'s heartbeat is watched"
		default:
			return "pair " + appOf.name + " finishes alone"
		}
	}
	return watch(ctx, st, phase, func(s sample) (bool, error) {
		since := st.out.elapsed() - killedAt
		if !back && since >= appDowntime {
			back = true
			if err := st.startApp(ctx, appOf); err != nil {
				return false, err
			}
			st.out.say("app %s is back (pid %d) %.1f s after its death; its sidecar never stopped", appOf.name, appOf.app.pid(), since.Seconds())
		}
		if s.Rescued > rescued {
			st.out.say("rescued %d tasks of sidecar %s, %.1f s after its death: its heartbeat stood still for 20 s", s.Rescued-rescued, sidecarOf.name, since.Seconds())
			rescued = s.Rescued
		}
		return back && s.Total > 0 && s.Completed == s.Total, nil
	})
}
