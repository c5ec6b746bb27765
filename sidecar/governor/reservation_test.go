package governor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sched-sidecar/sched/internal/pgtest"
	"github.com/sched-sidecar/sched/jobs"
	"github.com/sched-sidecar/sched/routing"
	"github.com/sched-sidecar/sched/sidecar/dispatch"
	"github.com/sched-sidecar/sched/sidecar/governor"
)

// desk is an app that keeps each task until it is told the outcome.
type desk struct {
	mu    sync.Mutex
	calls map[*dispatch.Task]chan jobs.Outcome
	limit int // no more than these may be held, once lowered limits took effect
	over  int // the most by which that was exceeded
}

func (d *desk) work(ctx context.Context, task *dispatch.Task) jobs.Outcome {
	answer := make(chan jobs.Outcome, 1)
	d.mu.Lock()
	d.calls[task] = answer
	d.over = max(d.over, len(d.calls)-d.limit)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		delete(d.calls, task)
		d.mu.Unlock()
	}()
	select {
	case outcome := <-answer:
		return outcome
	case <-ctx.Done():
		return jobs.Outcome{Kind: jobs.OutcomeHandBack}
	}
}

// setLimit lets the desk judge by a new limit; what it holds above it may stay.
func (d *desk) setLimit(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limit = max(n, len(d.calls))
}

// raiseLimit lets the desk judge by a new limit if it is higher.
func (d *desk) raiseLimit(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limit = max(d.limit, n)
}

// settle ends up to n of the calls.
func (d *desk) settle(n int, outcome jobs.Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, answer := range d.calls {
		if n == 0 {
			return
		}
		n--
		select {
		case answer <- outcome:
		default: // it was answered before
		}
	}
}

// fleetState is what the database says of the sidecar's registration and tasks.
type fleetState struct {
	worker               string
	own, foreign, open   int // running here, running elsewhere, not ended
	evictedLoad, current int // load of evicted rows, live registrations
}

func readFleet(ctx context.Context, pool *pgxpool.Pool, worker string) (s fleetState, err error) {
	s.worker = worker
	err = pool.QueryRow(ctx, `select
		count(*) filter (where state = 'running' and attempted_by[cardinality(attempted_by)] = $1),
		count(*) filter (where state = 'running' and attempted_by[cardinality(attempted_by)] <> $1),
		count(*) filter (where state not in ('completed', 'discarded', 'cancelled')),
		(select coalesce(sum(running + slots), 0) from sched.worker where state = 'evicted'),
		(select count(*) from sched.worker where state in ('pending', 'active'))
		from sched.river_job`, worker).Scan(&s.own, &s.foreign, &s.open, &s.evictedLoad, &s.current)
	return s, err
}

// Claims never exceed the slots; none is lost, and none freed twice (that panics);
// an eviction frees the tasks and zeroes the load; the new registration starts clean
// and uses all of its slots.
func TestReservations(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	app := &desk{calls: map[*dispatch.Task]chan jobs.Outcome{}, limit: 100}
	cfg := config(pool, &dispatcherFunc{work: app.work})
	cfg.HeartbeatInterval = 20 * time.Millisecond
	g := start(t, cfg)

	rapid.Check(t, func(rt *rapid.T) {
		limit := 5
		setSlots := func(n int) {
			app.raiseLimit(n) // before there can be a call that needs it
			limit = n
			require.NoError(t, g.SetSlots(n))
			app.setLimit(max(n, g.Status().Taken))
		}
		setSlots(limit)
		exec(t, pool, `update sched.river_job set attempt = 0, metadata = '{}' where state = 'available'`)
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			n := rapid.IntRange(1, 6).Draw(rt, "n")
			switch rapid.SampledFrom([]string{"enqueue", "complete", "hand back", "snooze", "slots", "evict"}).Draw(rt, "step") {
			case "enqueue":
				exec(t, pool, `insert into sched.river_job (kind, args, max_attempts, state) select 'k', '{}', 25, 'available' from generate_series(1, $1::int)`, n)
			case "complete":
				app.settle(n, jobs.Outcome{Kind: jobs.OutcomeComplete})
			case "hand back":
				app.settle(n, jobs.Outcome{Kind: jobs.OutcomeHandBack})
			case "snooze":
				app.settle(n, jobs.Outcome{Kind: jobs.OutcomeSnooze, Delay: time.Millisecond})
			case "slots":
				setSlots(n - 1)
			case "evict":
				endRegistration(t, pool, g)
			}
			if g.Status().Taken <= limit {
				app.setLimit(limit) // from here on nothing above it is left over
			}
		}
		settled(t, rt, pool, g, limit)
		app.mu.Lock()
		defer app.mu.Unlock()
		require.LessOrEqual(rt, app.over, 0, "more calls than slots")
	})
}

// endRegistration ends the sidecar's registration as the leader would.
func endRegistration(t *testing.T, pool *pgxpool.Pool, g *governor.Governor) {
	t.Helper()
	registry := routing.NewRegistry(pool)
	eventually(t, func() bool {
		evicted, _, err := registry.Evict(t.Context(), beatOf(t, pool, g.Status().WorkerID), "test")
		require.NoError(t, err)
		return evicted // false: it beat meanwhile, or is about to register anew
	}, "an eviction")
}

// settled waits until the sidecar and the database agree, with all slots in use that
// there are tasks for.
func settled(t *testing.T, rt *rapid.T, pool *pgxpool.Pool, g *governor.Governor, limit int) {
	t.Helper()
	var last string
	agreed := func() bool {
		status := g.Status()
		s, err := readFleet(t.Context(), pool, status.WorkerID)
		require.NoError(rt, err)
		last = fmt.Sprintf("%+v, running %d, taken %d, limit %d", s, status.Running, status.Taken, limit)
		full := s.own == limit || s.own > limit || s.own == s.open
		return s.foreign == 0 && s.evictedLoad == 0 && s.current == 1 &&
			s.own == status.Running && status.Running == status.Taken && full && g.Status().WorkerID == s.worker
	}
	for deadline := time.Now().Add(3 * patience); !agreed(); {
		if !time.Now().Before(deadline) {
			t.Logf("never settled: %s", last) // here, since what rt says of a failure that doesn't come again is lost
			rt.FailNow()
		}
		timer := time.NewTimer(5 * time.Millisecond)
		<-timer.C
	}
}
